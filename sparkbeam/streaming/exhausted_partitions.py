"""Exhausted partitions of a source.

The planner of a source's micro-batches knows them, and the tick source, which is planned in another
process, needs them for the watermark.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from sparkbeam.common.untrusted_json import loaded
from sparkbeam.errors import CheckpointFailed
from sparkbeam.streaming.checkpoint_files import files


@dataclass(frozen=True)
class ExhaustedPartitions:
    """A small file of exhausted partitions under the checkpoint.

    It describes the time when the last micro-batch was planned. A partition is exhausted in a
    micro-batch if its offset is the one in the file: another run may have planned more than Spark
    has logged.
    """

    checkpoint: str
    tag: int

    def write(self, ends: Mapping[str, int]) -> None:
        """Write the offsets at which partitions are exhausted.

        Raises:
            CheckpointFailed: it cannot be written; the old content may be outdated.
        """
        files(self.checkpoint).write(self._name(), json.dumps(dict(ends)).encode())

    def read(self) -> Mapping[str, int]:
        """Return the written offsets; empty if damaged or missing."""
        try:
            found: dict[str, int] = loaded(files(self.checkpoint).read(self._name()) or b"{}")
        except (ValueError, CheckpointFailed):
            return {}
        return found

    def text(self) -> str:
        """Serialize as an option of a source."""
        return json.dumps([self.checkpoint, self.tag])

    @classmethod
    def parse(cls, text: str) -> "ExhaustedPartitions":
        """Parse the result of :meth:`text`."""
        return cls(*loaded(text, list))

    def _name(self) -> str:
        return f"ends/{self.tag}.json"
