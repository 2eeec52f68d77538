"""Content of side inputs, as sent by the driver to the workers."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

# A large side input is an SQLite file with the runs of each window and key.
CREATE_TABLE = "CREATE TABLE runs (key BLOB, ord INTEGER, run BLOB)"
CREATE_INDEX = "CREATE INDEX by_key ON runs (key, ord)"
INSERT = "INSERT INTO runs VALUES (?, ?, ?)"
SELECT = "SELECT run FROM runs WHERE key = ? ORDER BY ord"


@dataclass(frozen=True)
class SideInputData:
    """Content of one side input, as sent by the driver to the workers.

    Attributes:
        runs: by :func:`~sparkbeam.worker.row_formats.side_input_rows.window_key`, for a small one.
        path: of the SQLite file, for a large one; a bare file name refers to the files shipped by
            Spark.
    """

    runs: dict[bytes, list[bytes]] = field(default_factory=dict)
    path: str | None = None

    @classmethod
    def of_rows(cls, rows: Iterable[tuple[bytes, int, bytes]]) -> "SideInputData":
        """Return the content of rows, each of a key, an order and a run, in memory."""
        runs: dict[bytes, list[bytes]] = defaultdict(list)
        for key, _, run in rows:
            runs[key].append(run)
        return cls(runs=dict(runs))
