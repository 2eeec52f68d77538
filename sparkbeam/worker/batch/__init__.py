"""A stage of a batch pipeline as a task of Spark."""
