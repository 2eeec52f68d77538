"""The watermarks of Spark's sources.

A source has a watermark for each of its partitions, and its own is the least of them. All that
they depend on is in the offsets of the ticks, so a micro-batch that runs again sees the same.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from sparkbeam.errors import ConfigurationError
from sparkbeam.plan.model import Plan, Source
from sparkbeam.plan.spark_io import READ_URN, ReadSpec
from sparkbeam.wire.timestamps import MIN_MICROS

MOST_PARTITIONS = 1000
"""Of how many partitions of a source the offsets keep a watermark."""

_MILLISECOND = 1000
_FIRST, _LAST = "first", "last"
_ALL = ""


def spark_sources(plan: Plan) -> list[Source]:
    """The sources of a plan that Spark reads, in the order in which the query has them.

    A plan of Spark's comes last: it may have several sources itself, and offsets are found by
    their number.
    """
    found = [source for source in plan.sources if source.urn == READ_URN]
    return sorted(found, key=lambda source: not ReadSpec.unpack(source.payload).format)


@dataclass(frozen=True)
class Marks:
    """How far a source has been read, at a tick; times are in microseconds.

    Attributes:
        watermark: of the source.
        reached: the latest timestamp of all rows so far.
        newest: the latest timestamp of each partition that may hold the watermark back;
            the beginning of time for one that has had no rows.
        silent: since which tick a partition has had no rows.
        since: the first tick that has looked for rows in this run.
    """

    watermark: int = MIN_MICROS
    reached: int = MIN_MICROS
    newest: Mapping[str, int] = field(default_factory=dict)
    silent: Mapping[str, int] = field(default_factory=dict)
    since: int | None = None

    def content(self) -> dict[str, Any]:
        """All of it as what JSON can say."""
        return asdict(self)


@dataclass(frozen=True)
class Look:
    """What a micro-batch that has ended tells of a source.

    Attributes:
        time: of its tick, in microseconds: what the source had by then has been read.
        seen: the latest timestamp of the rows by partition; see :func:`newest_of_files` for files.
        known: the partitions that the source has, as far as that is told otherwise than by rows.
        is_first: it is the last of an earlier run, and this run has not looked yet.
        ended: the partitions that had nothing left, as far as that is told.
    """

    time: int
    seen: Mapping[str, int]
    known: tuple[str, ...] = ()
    is_first: bool = False
    ended: tuple[str, ...] = ()


@dataclass(frozen=True)
class SourceClock:
    """How the watermark of one of Spark's sources goes on.

    Attributes:
        tag: of the source.
        label: of the transform that reads it.
        delay: how far it stays behind, in microseconds.
        by_rows: it follows the timestamps of the rows, or else the clock.
        by_files: a file is a partition that is complete once it has been read.
        by_columns: the values of some columns are the partitions.
        tells: the source itself tells its partitions.
        tells_ends: and which of them have nothing left.
        idle: how many microseconds a silent partition holds it back; None for ever.
        follows: where all partitions are silent for that long it follows the clock.
    """

    tag: int
    label: str = ""
    delay: int = 0
    by_rows: bool = True
    by_files: bool = False
    by_columns: bool = False
    tells: bool = False
    tells_ends: bool = False
    idle: int | None = None
    follows: bool = False

    @classmethod
    def of(cls, source: Source) -> "SourceClock":
        """That of a source."""
        spec = ReadSpec.unpack(source.payload)
        ((_, tag),) = source.outputs
        return cls(
            tag,
            source.label,
            spec.delay,
            spec.timestamp_column is not None,
            spec.by_files,
            bool(spec.partition_columns),
            spec.tells_partitions,
            spec.tells_ends,
            spec.idle,
            spec.follows_clock,
        )

    def after(self, marks: Marks, look: Look | None, now: int) -> Marks:
        """Where the source is at a tick.

        Args:
            marks: where it was at the tick before.
            look: what the micro-batch of that tick has read; None where nobody knows.
            now: the clock, in microseconds.

        Raises:
            ConfigurationError: the source has too many partitions.
        """
        if not self.by_rows:
            return self._up_to(marks, now)
        if look is None:
            return marks
        before = marks.reached
        marks = replace(marks, reached=max([before, *look.seen.values()]))
        if not look.is_first and marks.since is None:
            marks = replace(marks, since=look.time)
        if self.tells_ends:
            return self._by_ends(marks, look, before)
        return self._by_files(marks, look) if self.by_files else self._by_partitions(marks, look)

    def _by_files(self, marks: Marks, look: Look) -> Marks:
        if look.seen:
            # The next files are likely to be as old as the oldest of these.
            return self._up_to(replace(marks, silent={}), look.seen[_FIRST])
        marks = self._up_to(marks, marks.reached)
        if look.is_first:
            return marks
        marks = replace(marks, silent=marks.silent or {_ALL: look.time})
        passed = self.follows and self._has_passed(marks.silent[_ALL], look)
        return self._up_to(marks, look.time) if passed else marks

    def _by_ends(self, marks: Marks, look: Look, before: int) -> Marks:
        """Partitions with nothing left hold nothing back, and all others do.

        What such a partition gets next comes after all that had been read when it was found to
        have nothing left: all up to the micro-batch before.
        """
        marks = self._with_partitions(marks, look)
        reached = [
            before if self._has_ended(partition, marks, look) else micros
            for partition, micros in marks.newest.items()
        ]
        return self._up_to(marks, min(reached)) if reached else marks

    def _has_ended(self, partition: str, marks: Marks, look: Look) -> bool:
        """Whether a partition has nothing left, and has had nothing for so long."""
        if self.idle is None or partition in look.seen or partition not in look.ended:
            return False
        return not self.idle or self._has_passed(marks.silent.get(partition), look)

    def _by_partitions(self, marks: Marks, look: Look) -> Marks:
        marks = self._with_partitions(marks, look)
        idle = {p for p in marks.newest if self._has_passed(marks.silent.get(p), look)}
        active = [micros for p, micros in marks.newest.items() if p not in idle]
        settled = self._has_passed(marks.since, look)
        if active:
            # What has not had rows yet may turn up until the first silence is over.
            holds = self.by_columns and not self.tells and self.idle is not None and not settled
            return marks if holds else self._up_to(self._without(marks, idle), min(active))
        marks = self._up_to(self._without(marks, idle), marks.reached)
        return self._up_to(marks, look.time) if settled and self.follows else marks

    def _with_partitions(self, marks: Marks, look: Look) -> Marks:
        newest = dict(marks.newest)
        for partition, micros in look.seen.items():
            newest[partition] = max(micros, newest.get(partition, micros))
        for partition in look.known:
            newest.setdefault(partition, MIN_MICROS)
        if len(newest) > MOST_PARTITIONS:
            raise ConfigurationError(
                f"Step '{self.label}': more than {MOST_PARTITIONS} partitions have a watermark of "
                "their own. Choose a partition_column= with fewer values, or give idle_timeout= "
                "so that those without rows are forgotten."
            )
        silent = {p: since for p, since in marks.silent.items() if p not in look.seen}
        if not look.is_first:
            for partition in newest.keys() - look.seen.keys():
                silent.setdefault(partition, look.time)
        return replace(marks, newest=newest, silent=silent)

    def _has_passed(self, since: int | None, look: Look) -> bool:
        """Whether rows have been missing for so long that nobody waits for them."""
        return self.idle is not None and since is not None and look.time - since >= self.idle

    def _without(self, marks: Marks, idle: set[str]) -> Marks:
        """Forgets partitions; those that the source tells would else be new again."""
        if self.tells or not idle:
            return marks
        newest = {p: micros for p, micros in marks.newest.items() if p not in idle}
        silent = {p: since for p, since in marks.silent.items() if p not in idle}
        return replace(marks, newest=newest, silent=silent)

    def _up_to(self, marks: Marks, reached: int) -> Marks:
        # Timestamps travel in milliseconds, rounded down.
        watermark = (reached - self.delay) // _MILLISECOND * _MILLISECOND
        return replace(marks, watermark=max(marks.watermark, watermark))


def newest_of_files(newest: Mapping[str, int]) -> dict[str, int]:
    """The least and the greatest of what the files of a micro-batch have as their latest times.

    Within a micro-batch nothing is late, and of all files that it has read the one that is
    furthest behind tells how old the next ones may be, as long as more of them come.
    """
    return {_FIRST: min(newest.values()), _LAST: max(newest.values())}


def at_restart(marks: Marks) -> Marks:
    """What goes on in another run: what nobody has looked at has not been silent."""
    return replace(marks, silent={}, since=None)


def newest_seen(
    clocks: Iterable[SourceClock], seen: Iterable[tuple[int, Mapping[str, int]]]
) -> dict[str, dict[str, int]]:
    """The latest timestamps of a micro-batch, by source and partition.

    Args:
        clocks: of all sources.
        seen: what each task has read: the tag of the source, and the latest times by partition.

    Returns:
        By the tag as JSON has it; only of sources that had rows.
    """
    found: dict[int, dict[str, int]] = {}
    for tag, newest in seen:
        parts = found.setdefault(tag, {})
        for partition, micros in newest.items():
            parts[partition] = max(micros, parts.get(partition, micros))
    by_files = {clock.tag for clock in clocks if clock.by_files}
    return {
        str(tag): newest_of_files(parts) if tag in by_files else parts
        for tag, parts in found.items()
    }
