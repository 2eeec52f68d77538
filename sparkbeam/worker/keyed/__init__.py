"""User state and timers, and the DoFns that ask for them."""
