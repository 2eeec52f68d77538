"""A live page of a pipeline: a small server on loopback, and what it shows."""
