"""Live page of a pipeline: a small server on loopback, and its content."""
