"""The runner, from a pipeline to a run, and the ways around it: DataFrames and notebooks."""
