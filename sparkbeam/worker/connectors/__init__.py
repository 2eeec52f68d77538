"""Columns of Spark's sources and sinks in a worker."""
