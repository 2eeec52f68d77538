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


class CompleteResult:
    """Stored result of a sink.

    Args:
        files: the driver's own under the query's checkpoint.
    """

    def __init__(self, files: OwnFiles, name: str, key: Sequence[str]) -> None:
        self._files = files
        self._name = name
        self._key = key
        digest = hashlib.sha256(stable_name(name).encode()).hexdigest()
        self._folder = f"{_FOLDER}/{digest[:16]}"
        self._last: tuple[int, pa.Table] | None = None

    def joined(self, rows: pa.Table, batch_id: int, *, begun: bool) -> pa.Table:
        """Merge a micro-batch into the result, and store it.

        Args:
            rows: of the micro-batch.
            begun: an earlier micro-batch has been delivered.

        Raises:
            CheckpointFailed: the previous result cannot be read, or this one not written.
        """
        before, result = self._before(rows.schema, batch_id)
        if begun and before < 0:
            raise damaged(self._files.path(self._folder), how="missing")
        result = latest(pa.concat_tables([result, rows]), self._key)
        content = _packed(result)
        if len(content) > MOST_BYTES:
            raise CheckpointFailed(
                f"The result of '{self._name}' has grown to {len(content) >> 20} MiB, but a "
                f"checkpoint keeps at most {MOST_BYTES >> 20}: use output_mode='update', or a key "
                "with fewer values."
            )
        self._files.write(f"{self._folder}/{batch_id}", content)
        for number in self._numbers():
            if number not in (before, batch_id):
                self._files.remove(f"{self._folder}/{number}")
        self._last = batch_id, result
        return result

    def _before(self, schema: pa.Schema, batch_id: int) -> tuple[int, pa.Table]:
        """Return the number of the previous micro-batch and its result; -1 without one."""
        if self._last is not None and self._last[0] < batch_id:
            return self._last
        number = max((n for n in self._numbers() if n < batch_id), default=-1)
        if number < 0:
            return number, schema.empty_table()
        return number, self._read(f"{self._folder}/{number}", schema)

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

    def _numbers(self) -> list[int]:
        return [int(name) for name in self._files.names(self._folder) if name.isdecimal()]


def _packed(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=_OPTIONS) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())
