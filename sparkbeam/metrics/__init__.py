"""What a pipeline counted."""
