"""State of a checkpoint, decoded for people; read-only."""
