"""Execution of a plan on DataFrames."""
