"""Amount of input, in batches."""

BATCH_ROWS, BATCH_BYTES = 1 << 16, 8 << 20
"""Bounds of a batch of input: a maximum number of rows, and an approximate number of bytes."""


def batches(rows: int, size: int) -> float:
    """Return the number of batches that some rows make.

    Args:
        rows: the number of rows.
        size: the size of all of them, in bytes.
    """
    return max(rows / BATCH_ROWS, size / BATCH_BYTES)
