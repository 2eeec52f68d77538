"""Beam's ``SqlTransform``: Calcite's SQL for Spark, row by row, and in windows."""
