"""What a micro-batch tells the source about when and how the next one is to run.

The sink writes it as a small file under the checkpoint, and the source reads it when it
plans. A micro-batch that runs again writes its file again.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from sparkbeam.common.untrusted_json import loaded, text, whole
from sparkbeam.errors import CheckpointFailed
from sparkbeam.streaming.checkpoint_files import Files, damaged

_KEPT = 20
_FINISHED = "finished"
_DRAIN = "drain"
_OFFSETS_VERSION = "v1"


@dataclass(frozen=True)
class Feedback:
    """The end of a micro-batch.

    Attributes:
        number: of the tick of the micro-batch.
        finished: nothing is left to do, whatever the clock says.
        due: when the clock has something to do, in microseconds since the epoch.
        reports: all that has been committed so far; see :class:`.committed.Committed`.
        seen: the latest timestamps of the rows of Spark's sources, by tag and partition, in
            microseconds; only of those that had rows.
        summary: the content of a :class:`.summary.MicroBatch`.
        finalizers: the tokens of callbacks to be called once the micro-batch is committed, and
            of earlier ones that have not been called yet.
    """

    number: int
    finished: bool
    due: int | None
    reports: str = ""
    seen: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    summary: Mapping[str, Any] = field(default_factory=dict)
    finalizers: Sequence[str] = ()

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> "Feedback":
        """What a file says.

        Raises:
            ValueError: it says something else.
        """
        try:
            found = cls(**content)
            whole(found.number)
            if found.due is not None:
                whole(found.due)
            for partitions in found.seen.values():
                [*map(whole, partitions.values())]
            [*map(text, found.finalizers)]
            if found.reports:
                [*map(text, loaded(text(found.reports), list))]
            if type(found.finished) is not bool or not isinstance(found.summary, dict):
                raise TypeError
        except (TypeError, AttributeError, KeyError) as error:
            raise ValueError("it is no feedback of a micro-batch") from error
        return found


class FeedbackFiles:
    """The files with the feedback of the latest micro-batches, and what else the source is told.

    Args:
        files: those under the checkpoint of the query.
    """

    def __init__(self, files: Files) -> None:
        self._files = files

    def write(self, feedback: Feedback) -> None:
        """Writes the feedback of a micro-batch, and removes an old one."""
        self._files.write(_name(feedback.number), json.dumps(asdict(feedback)).encode())
        self._files.remove(_name(feedback.number - _KEPT))
        if feedback.finished:
            self._write_finished(feedback.number)

    def read(self, number: int) -> Feedback | None:
        """The feedback of the micro-batch of a tick; None where there is none.

        Raises:
            CheckpointFailed: it is damaged.
        """
        content = self._files.read(_name(number))
        try:
            return None if content is None else Feedback.of(loaded(content))
        except ValueError:
            raise self.damage(number) from None

    def damage(self, number: int) -> CheckpointFailed:
        """What to tell where the feedback of a micro-batch is not what was written."""
        return damaged(
            self._files.path(_name(number)),
            "It has the counts of metrics. Put the one of a backup in its place; or remove it, "
            "and metrics count from here on. Nothing else is lost.",
        )

    def readable(self, number: int) -> Feedback | None:
        """As :meth:`read`; what is damaged counts as missing.

        That is exact for when the next micro-batch runs: one without feedback is followed by
        another one, which finds out what is left to do.
        """
        try:
            return self.read(number)
        except CheckpointFailed:
            return None

    def offsets(self, number: int) -> list[str]:
        """What Spark keeps as the offsets of all sources at the end of a tick's micro-batch.

        They are in the order in which the query reads them, as JSON. There are none where
        Spark has written them in a form that is not known.
        """
        content = self._files.read_log(f"offsets/{number - 1}")
        text = (content or b"").decode(errors="replace")
        version, _, *offsets = [*text.splitlines(), "", ""]
        offsets = [line for line in offsets if line]
        return offsets if version == _OFFSETS_VERSION else []

    def tick_of(self, batch: int) -> int:
        """The number of the tick up to which there is after a micro-batch of Spark's.

        Each has a tick, but for those in which Spark's sources still give something to a pipeline
        that drains.
        """
        try:
            ticks, *_ = self.offsets(batch + 1) or [""]
            return int(loaded(ticks)["number"])
        except (ValueError, TypeError, KeyError):
            return batch + 1

    def last_number(self) -> int | None:
        """The tick whose micro-batch left nothing to do; None as long as there is none."""
        number = self._files.read(_FINISHED)
        is_one = number is not None and re.fullmatch(rb"[0-9]{1,18}", number)
        return int(number) if number is not None and is_one else None

    def restore(self, feedback: Feedback) -> None:
        """Writes again that a micro-batch left nothing to do, if that has got lost."""
        if feedback.finished and self.last_number() != feedback.number:
            self._write_finished(feedback.number)

    def _write_finished(self, number: int) -> None:
        self._files.write(_FINISHED, str(number).encode())

    def ask_to_drain(self) -> None:
        """Tells the source to end; it is told for the life of the checkpoint."""
        self._files.write(_DRAIN, b"")

    def is_drained(self) -> bool:
        """Whether the source has been told to end, and nothing is left to do."""
        return self.last_number() is not None and self.is_to_drain()

    def is_to_drain(self) -> bool:
        """Whether the source has been told to end."""
        return self._files.read(_DRAIN) is not None


def _name(number: int) -> str:
    return f"feedback/{number}.json"
