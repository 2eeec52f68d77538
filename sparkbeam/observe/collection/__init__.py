"""Computation of figures, from signals and reports of tasks and from Spark."""
