"""Observation of a running pipeline: its figures, and their views and sinks.

Progress is lossy by design. Nothing here may fail or delay a pipeline.
"""
