"""Explanation of a pipeline's execution on Spark, in words and as a graph of stages."""
