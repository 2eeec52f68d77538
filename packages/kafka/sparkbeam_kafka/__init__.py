"""Beam's Kafka transforms, over Spark's source and sink."""
