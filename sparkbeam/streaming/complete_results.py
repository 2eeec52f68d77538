"""Complete results of sinks with ``output_mode="complete"``, stored under the checkpoint.

The result of a micro-batch is stored before it is delivered, next to the one that it was computed
from. So a repeated micro-batch computes the same result, and a restart continues from it.
"""

import hashlib
from collections.abc import Sequence

import pyarrow as pa

from sparkbeam.common.untrusted_json import MOST_BYTES
from sparkbeam.connectors.latest import latest
from sparkbeam.errors import CheckpointFailed
from sparkbeam.plan.object_identity import stable_name
from sparkbeam.streaming.checkpoint_files import damaged
from sparkbeam.streaming.generation import OwnFiles

_FOLDER = "results"
_OPTIONS = pa.ipc.IpcWriteOptions(compression="zstd")


class CompleteResults:
    """Stored results of the sinks of a query.

    Args:
        files: the driver's own under the query's checkpoint.
    """

    def __init__(self, files: OwnFiles) -> None:
        self._files = files
        self._last: dict[str, tuple[int, pa.Table]] = {}

    def joined(
        self, name: str, key: Sequence[str], rows: pa.Table, batch_id: int, *, begun: bool
    ) -> pa.Table:
        """Merge a micro-batch into the result of a sink, and store it.

        Args:
            name: of the sink.
            key: the columns that identify a row.
            rows: of the micro-batch.
            batch_id: its number.
            begun: an earlier micro-batch has been delivered.

        Raises:
            CheckpointFailed: the previous result cannot be read, or this one not written.
        """
        folder = f"{_FOLDER}/{hashlib.sha256(stable_name(name).encode()).hexdigest()[:16]}"
        before, result = self._before(folder, rows.schema, batch_id)
        if begun and before < 0:
            raise damaged(self._files.path(folder), how="missing")
        result = latest(pa.concat_tables([result, rows]), key)
        content = _packed(result)
        if len(content) > MOST_BYTES:
            raise CheckpointFailed(
                f"The result of '{name}' has grown to {len(content) >> 20} MiB, but a checkpoint "
                f"keeps at most {MOST_BYTES >> 20}: use output_mode='update', or a key with fewer "
                "values."
            )
        self._files.write(f"{folder}/{batch_id}", content)
        for number in self._numbers(folder):
            if number not in (before, batch_id):
                self._files.remove(f"{folder}/{number}")
        self._last[folder] = batch_id, result
        return result

    def _before(self, folder: str, schema: pa.Schema, batch_id: int) -> tuple[int, pa.Table]:
        """Return the number of the previous micro-batch and its result; -1 without one."""
        number, table = self._last.get(folder, (-1, None))
        if table is not None and number < batch_id:
            return number, table
        number = max((n for n in self._numbers(folder) if n < batch_id), default=-1)
        if number < 0:
            return number, schema.empty_table()
        return number, self._read(f"{folder}/{number}", schema)

    def _read(self, path: str, schema: pa.Schema) -> pa.Table:
        content = self._files.read(path)
        try:
            with pa.ipc.open_stream(content or b"") as stream:
                table = stream.read_all()
        except pa.ArrowException:
            table = None
        if table is None or not table.schema.equals(schema):
            raise damaged(self._files.path(path))
        return table

    def _numbers(self, folder: str) -> list[int]:
        return [int(name) for name in self._files.names(folder) if name.isdecimal()]


def _packed(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=_OPTIONS) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())
