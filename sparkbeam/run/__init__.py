"""A pipeline that runs, and its result."""
