"""A plan on DataFrames."""
