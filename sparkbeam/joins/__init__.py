"""Joins of PCollections: equijoins, as-of joins, and incremental joins of streams."""
