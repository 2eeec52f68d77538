"""Utilities that all rooms share: argument checks, display text, files, connections."""
