"""How much there is to read, in batches."""

BATCH_ROWS, BATCH_BYTES = 1 << 16, 8 << 20
"""What is read at once: at most so many rows, and about so many bytes."""


def batches(rows: int, size: int) -> float:
    """How many batches come to some rows.

    Args:
        rows: how many.
        size: of all of them, in bytes.
    """
    return max(rows / BATCH_ROWS, size / BATCH_BYTES)
