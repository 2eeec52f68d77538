"""Random numbers that are the same where a micro-batch runs again.

Beam's samples and many a user's keys are random. What a sink has of a micro-batch and what its
state has would not belong together if another run of it drew other numbers.
"""

import random
import sys
import zlib

_BATCH = "streaming.sql.batchId"


def draw_alike(*what: object) -> None:
    """Lets what is drawn from now on depend on nothing but ``what``.

    That holds for the module-level functions of ``random`` and of ``numpy.random``.
    """
    text = repr(what)
    random.seed(text)
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        numpy_random.seed(zlib.crc32(text.encode()))


def batch_number() -> int | None:
    """The number of the micro-batch that Spark runs this task for; None outside of Spark."""
    from pyspark import TaskContext

    context = TaskContext.get()
    number = context.getLocalProperty(_BATCH) if context is not None else None
    return None if number is None else int(number)
