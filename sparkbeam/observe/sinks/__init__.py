"""Built-in metrics sinks, one per module."""
