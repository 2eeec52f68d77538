"""Assumptions about the internals of Beam, Spark and other libraries, one module each."""
