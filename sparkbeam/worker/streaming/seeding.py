"""Random numbers that repeat when a micro-batch runs again.

Beam's samples and many users' keys are random. The output of a micro-batch in a sink would not
match its state if another run of it drew other numbers.
"""

import random
import sys
import zlib

_BATCH = "streaming.sql.batchId"


def seed_random(*what: object) -> None:
    """Make later random draws depend on nothing but ``what``.

    That holds for the module-level functions of ``random`` and of ``numpy.random``.
    """
    text = repr(what)
    random.seed(text)
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        numpy_random.seed(zlib.crc32(text.encode()))


def batch_number() -> int | None:
    """Return the number of the micro-batch of this Spark task; None outside of Spark."""
    from pyspark import TaskContext

    context = TaskContext.get()
    number = context.getLocalProperty(_BATCH) if context is not None else None
    return None if number is None else int(number)
