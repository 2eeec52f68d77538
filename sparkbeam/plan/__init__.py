"""From a Beam pipeline to a graph of stages; knows nothing of Spark."""
