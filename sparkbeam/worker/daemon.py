"""Spark's daemon of Python workers, with Beam imported before it forks any.

An import of Beam takes longer than a small task; here it happens once on each machine.
"""

import gc
import logging
from typing import Any

import pyspark.daemon

from sparkbeam.worker.archives_on_path import keep_directories, note_archives
from sparkbeam.worker.garbage import GARBAGE
from sparkbeam.worker.spark_connection import disable_nagle


def preload() -> None:
    """Import and look up what tasks need, without Beam's warnings: the driver has shown them."""
    logging.disable(logging.WARNING)
    try:
        from sparkbeam.common.entry_points import packages
        from sparkbeam.operators import registry  # noqa: F401
        from sparkbeam.worker.batch import stage  # noqa: F401
        from sparkbeam.worker.streaming import layer  # noqa: F401

        packages()
    finally:
        logging.disable(logging.NOTSET)


_serve = pyspark.daemon.worker


def serve(sock: Any, authenticated: bool) -> int:
    """Serve a task, and end silently if Spark has cancelled it and closed the connection."""
    disable_nagle(sock)
    try:
        code: int = _serve(sock, authenticated)
    except BrokenPipeError:
        return 1
    return code


if __name__ == "__main__":
    preload()
    note_archives()
    keep_directories()
    gc.freeze()
    pyspark.daemon.worker = serve
    vars(pyspark.daemon)["gc"] = GARBAGE
    pyspark.daemon.manager()
