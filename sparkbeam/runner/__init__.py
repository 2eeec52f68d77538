"""The runner, DataFrames of PCollections, and notebooks."""
