"""A plan as one Structured Streaming query: source, layers, sink."""
