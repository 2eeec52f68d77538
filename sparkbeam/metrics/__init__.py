"""Metrics of a pipeline."""
