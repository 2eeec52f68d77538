"""Spark's daemon of Python workers, with Beam imported before it forks any.

An import of Beam takes longer than a small task; here it happens once on each machine.
"""

import gc

import pyspark.daemon

from sparkbeam.worker import stage
from sparkbeam.worker.streaming import layer

PRELOADED = (stage, layer)

if __name__ == "__main__":
    gc.freeze()
    pyspark.daemon.manager()
