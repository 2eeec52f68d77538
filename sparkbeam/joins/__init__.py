"""Joins of PCollections: by equal keys, by the closest time, and of streams."""
