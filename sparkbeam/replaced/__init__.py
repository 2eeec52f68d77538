"""Beam's transforms that run in another way: file writes of streams, dead letters, YAML types."""
