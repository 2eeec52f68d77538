"""Grouping of the elements of a key."""
