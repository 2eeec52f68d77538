"""A running pipeline and its result."""
