"""Which partitions of a source have nothing left to read.

Who plans what a micro-batch reads knows it, and the source of ticks, which is planned in another
process, wants to know it for the watermark.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from sparkbeam.common.untrusted_json import loaded
from sparkbeam.errors import CheckpointFailed
from sparkbeam.streaming.checkpoint_files import files


@dataclass(frozen=True)
class Ends:
    """A small file under the checkpoint.

    It says what was so when the last micro-batch was planned. So a partition is at its end in a
    micro-batch if the offset of the latter is what the file has: another run may have planned more
    than it has written into Spark's log.

    Attributes:
        checkpoint: the checkpoint location.
        tag: of the source.
    """

    checkpoint: str
    tag: int

    def write(self, ends: Mapping[str, int]) -> None:
        """Writes at which offset which partitions have nothing left.

        Raises:
            CheckpointFailed: it cannot be written; what was there before may no longer hold.
        """
        files(self.checkpoint).write(self._name(), json.dumps(dict(ends)).encode())

    def read(self) -> Mapping[str, int]:
        """What was written last; nothing where that is damaged, or nobody has."""
        try:
            found: dict[str, int] = loaded(files(self.checkpoint).read(self._name()) or b"{}")
        except (ValueError, CheckpointFailed):
            return {}
        return found

    def text(self) -> str:
        """As an option of a source."""
        return json.dumps([self.checkpoint, self.tag])

    @classmethod
    def parse(cls, text: str) -> "Ends":
        """The inverse of :meth:`text`."""
        return cls(*loaded(text, list))

    def _name(self) -> str:
        return f"ends/{self.tag}.json"
