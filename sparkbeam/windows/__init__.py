"""Sessions that are combined: how they are kept, and how they merge."""
