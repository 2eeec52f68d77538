"""Translation of a Beam pipeline to a graph of stages; it knows nothing of Spark."""
