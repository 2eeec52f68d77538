"""Pipeline options of the runner, and checks of Beam's options."""
