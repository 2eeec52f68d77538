"""Dataclasses of the figures of a run, with their texts."""
