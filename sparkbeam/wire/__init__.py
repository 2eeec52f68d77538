"""Shared data between driver and workers, independent of Spark and of bundle processors."""
