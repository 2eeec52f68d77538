"""Status of the partitions of a source, passed from the planner of a source to the sink.

The two run in different processes that share a small file under the checkpoint.
"""

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

from sparkbeam.common.untrusted_json import loaded, parsed
from sparkbeam.errors import CheckpointFailed
from sparkbeam.observe.figures.partitions import PartitionProgress
from sparkbeam.streaming.checkpoint_files import Files, files


@dataclass(frozen=True)
class NotePartitions:
    """Writer of the status of a source's partitions.

    A status is a dataclass with the fields of :class:`.PartitionProgress`, without the step.
    """

    checkpoint: str
    tag: int

    def __call__(self, statuses: Sequence[Any]) -> None:
        """Write the statuses; ignore errors."""
        content = json.dumps([asdict(status) for status in statuses]).encode()
        with suppress(CheckpointFailed):
            files(self.checkpoint).write(_name(self.tag), content)


def noted(kept: Files, tag: int, label: str) -> tuple[PartitionProgress, ...]:
    """Return the status of a source's partitions when its last micro-batch was planned."""
    try:
        rows = loaded(kept.read(_name(tag)) or b"[]", list)
        return tuple(parsed(PartitionProgress, {**row, "step": label}) for row in rows)
    except (ValueError, TypeError, CheckpointFailed):
        return ()


def _name(tag: int) -> str:
    return f"partitions/{tag}.json"
