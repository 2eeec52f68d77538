"""Writes micro-batches to a folder with a log until it is killed: ``manifest_writer.py FOLDER``.

It begins with the first that is not there. Each has ten rows of Parquet, in a few files and
partitions, whose values are its number.
"""

import sys
import time
from functools import partial
from itertools import count
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from sparkbeam.streaming.folder_commits import FolderCommits

ROWS = 10
PAUSE_SECONDS = 0.05
SINK_ID = "0123456789ab-01234567"


def write(batch_id: int, folder: str) -> None:
    """Writes a micro-batch as Spark does."""
    for number in range(1 + batch_id % 4):
        path = Path(folder, f"part={number % 2}", f"part-0000{number}-x-c000.parquet")
        path.parent.mkdir(parents=True, exist_ok=True)
        rows = range(ROWS)[number :: 1 + batch_id % 4]
        pq.write_table(pa.table({"batch": pa.array([batch_id for _ in rows], pa.int64())}), path)
    Path(folder, "_SUCCESS").touch()


if __name__ == "__main__":
    commits = FolderCommits(sys.argv[1], SINK_ID, has_manifest=True)
    for batch_id in count():
        commits.commit(batch_id, partial(write, batch_id))
        time.sleep(PAUSE_SECONDS)
