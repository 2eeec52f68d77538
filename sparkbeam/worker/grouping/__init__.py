"""How the elements of a key become groups."""
