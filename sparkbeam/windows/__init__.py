"""Combined sessions: their storage, and their merge."""
