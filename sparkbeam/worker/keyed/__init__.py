"""User state and timers, and the DoFns with them."""
