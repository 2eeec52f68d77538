"""Spark's daemon of Python workers, with Beam imported before it forks any.

An import of Beam takes longer than a small task; here it happens once on each machine.
"""

import gc
import logging
from typing import Any

import pyspark.daemon

from sparkbeam.worker.connection import hurry


def preload() -> None:
    """Imports what tasks need, without what Beam has to say of that: the driver has said it."""
    logging.disable(logging.WARNING)
    try:
        from sparkbeam.worker.batch import stage  # noqa: F401
        from sparkbeam.worker.streaming import layer  # noqa: F401
    finally:
        logging.disable(logging.NOTSET)


_serve = pyspark.daemon.worker


def serve(sock: Any, authenticated: bool) -> int:
    """Serves a task, and ends without a word where Spark has cancelled it and hung up."""
    hurry(sock)
    try:
        code: int = _serve(sock, authenticated)
    except BrokenPipeError:
        return 1
    return code


if __name__ == "__main__":
    preload()
    gc.freeze()
    pyspark.daemon.worker = serve
    pyspark.daemon.manager()
