"""Layers of a streaming pipeline: their state, and how a micro-batch passes through them."""
