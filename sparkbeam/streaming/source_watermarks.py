"""Watermarks of Spark's sources.

A source has a watermark per partition, and its own is their minimum. All inputs of this are in the
offsets of the ticks, so a repeated micro-batch computes the same.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from sparkbeam.errors import ConfigurationError
from sparkbeam.plan.model import Plan, Source
from sparkbeam.wire.timestamps import MIN_MICROS

MOST_PARTITIONS = 1000
"""Maximum number of partitions of a source with a watermark in the offsets."""

_MILLISECOND = 1000
_FIRST, _LAST = "first", "last"
_ALL = ""


def spark_sources(plan: Plan) -> list[Source]:
    """Return the sources that Spark reads, in the order of the query.

    A Spark plan comes last: it may contain several sources, and offsets are found by their number.
    """
    found = [source for source in plan.sources if source.read is not None]
    return sorted(found, key=lambda source: not (source.read and source.read.format))


@dataclass(frozen=True)
class SourceProgress:
    """Read progress of a source at a tick; times are in microseconds.

    Attributes:
        reached: the latest timestamp of all rows so far.
        newest: the latest timestamp of each partition that may hold the watermark back;
            the beginning of time for one without rows.
        silent: the tick since which a partition has had no rows.
        since: the first tick of this run that has looked for rows.
    """

    watermark: int = MIN_MICROS
    reached: int = MIN_MICROS
    newest: Mapping[str, int] = field(default_factory=dict)
    silent: Mapping[str, int] = field(default_factory=dict)
    since: int | None = None


@dataclass(frozen=True)
class SourceObservation:
    """Observation of a source by a completed micro-batch.

    Attributes:
        time: of its tick, in microseconds.
        seen: the latest timestamp of the rows by partition; see :func:`newest_of_files` for files.
        known: the partitions of the source, if known independently of rows.
        is_first: it is the last one of an earlier run, and this run has not looked yet.
        ended: the exhausted partitions, if known.
        hidden: the partitions with rows that the source does not show yet.
        until: when its run began, which reads what was there then; None if it goes on.
    """

    time: int
    seen: Mapping[str, int]
    known: tuple[str, ...] = ()
    is_first: bool = False
    ended: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    until: int | None = None

    @property
    def read_up_to(self) -> int:
        """The time up to which everything that the source had has been read."""
        return self.time if self.until is None else min(self.time, self.until)


@dataclass(frozen=True)
class SourceClock:
    """Watermark policy of a Spark source.

    Attributes:
        delay: its distance behind the timestamps, in microseconds.
        by_rows: it follows the timestamps of the rows, otherwise the clock.
        by_files: a file is a partition that is complete once it has been read.
        by_columns: partitions are identified by the values of columns.
        idle: the microseconds for which a silent partition holds it back; None forever.
        follows: it follows the clock if all partitions are silent for this long.
        idle_lag: the microseconds by which each partition that is silent for this long follows the
            clock; None if it does not. No timestamp is ahead of the clock then.
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
    idle_lag: int | None = None

    @classmethod
    def from_source(cls, source: Source) -> "SourceClock":
        """Return the policy of a source."""
        spec = source.read
        assert spec is not None
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
            spec.idle_lag,
        )

    def after(
        self, marks: SourceProgress, look: SourceObservation | None, now: int
    ) -> SourceProgress:
        """Advance the watermark to a tick.

        Args:
            look: the observation by that tick's micro-batch; None if unknown.
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
        if self.idle_lag is not None:
            return self._by_clocks(self._with_partitions(marks, look), look, self.idle_lag, now)
        return self._by_files(marks, look) if self.by_files else self._by_partitions(marks, look)

    def _by_files(self, marks: SourceProgress, look: SourceObservation) -> SourceProgress:
        if look.seen:
            # The next files are likely to be as old as the oldest of these.
            return self._up_to(replace(marks, silent={}), look.seen[_FIRST])
        marks = self._up_to(marks, marks.reached)
        if look.is_first:
            return marks
        marks = replace(marks, silent=marks.silent or {_ALL: look.time})
        passed = self.follows and self._has_passed(marks.silent[_ALL], look)
        return self._up_to(marks, look.read_up_to) if passed else marks

    def _by_ends(
        self, marks: SourceProgress, look: SourceObservation, before: int
    ) -> SourceProgress:
        """Let exhausted partitions hold nothing back, but all others.

        The next row of an exhausted partition comes after everything that had been read when it was
        found to be exhausted: all rows up to the previous micro-batch.
        """
        marks = self._with_partitions(marks, look)
        reached = [
            before if self._has_ended(partition, marks, look) else micros
            for partition, micros in marks.newest.items()
        ]
        return self._up_to(marks, min(reached)) if reached else marks

    def _has_ended(self, partition: str, marks: SourceProgress, look: SourceObservation) -> bool:
        """Return whether a partition has been exhausted and silent for the idle timeout."""
        if self.idle is None or partition in look.seen or partition not in look.ended:
            return False
        return not self.idle or self._has_passed(marks.silent.get(partition), look)

    def _by_partitions(self, marks: SourceProgress, look: SourceObservation) -> SourceProgress:
        marks = self._with_partitions(marks, look)
        idle = {p for p in marks.newest if self._has_passed(marks.silent.get(p), look)}
        active = [micros for p, micros in marks.newest.items() if p not in idle]
        settled = self._has_passed(marks.since, look)
        if active:
            # Partitions without rows may appear until the first timeout.
            holds = self.by_columns and not self.tells and self.idle is not None and not settled
            return marks if holds else self._up_to(self._without(marks, idle), min(active))
        marks = self._up_to(self._without(marks, idle), marks.reached)
        return self._up_to(marks, look.read_up_to) if settled and self.follows else marks

    def _by_clocks(
        self, marks: SourceProgress, look: SourceObservation, lag: int, now: int
    ) -> SourceProgress:
        """Let each idle partition follow the clock."""
        newest = {
            p: max(micros, look.read_up_to - lag)
            if self._has_passed(marks.silent.get(p), look)
            else micros
            for p, micros in marks.newest.items()
        }
        marks = replace(marks, newest=newest)
        return self._up_to(marks, min(now, *newest.values())) if newest else marks

    def _with_partitions(self, marks: SourceProgress, look: SourceObservation) -> SourceProgress:
        newest = dict(marks.newest)
        for partition, micros in look.seen.items():
            newest[partition] = max(micros, newest.get(partition, micros))
        for partition in look.known:
            newest.setdefault(partition, MIN_MICROS)
        if len(newest) > MOST_PARTITIONS:
            raise ConfigurationError(
                f"Step '{self.label}': more than {MOST_PARTITIONS} partitions have their own "
                "watermark. Choose a partition_column= with fewer values, or set idle_timeout= to "
                "forget partitions without rows."
            )
        active = {*look.seen, *look.hidden}
        silent = {p: since for p, since in marks.silent.items() if p not in active}
        if not look.is_first:
            for partition in newest.keys() - active:
                silent.setdefault(partition, look.time)
        return replace(marks, newest=newest, silent=silent)

    def _has_passed(self, since: int | None, look: SourceObservation) -> bool:
        """Return whether rows have been missing for the idle timeout."""
        return self.idle is not None and since is not None and look.time - since >= self.idle

    def _without(self, marks: SourceProgress, idle: set[str]) -> SourceProgress:
        """Remove partitions, except those that the source reports: they would become new again."""
        if self.tells or not idle:
            return marks
        newest = {p: micros for p, micros in marks.newest.items() if p not in idle}
        silent = {p: since for p, since in marks.silent.items() if p not in idle}
        return replace(marks, newest=newest, silent=silent)

    def _up_to(self, marks: SourceProgress, reached: int) -> SourceProgress:
        # Encoded timestamps are in milliseconds, rounded down.
        watermark = (reached - self.delay) // _MILLISECOND * _MILLISECOND
        return replace(marks, watermark=max(marks.watermark, watermark))


def newest_of_files(newest: Mapping[str, int]) -> dict[str, int]:
    """Return the least and the greatest of the latest timestamps of a micro-batch's files.

    Within a micro-batch nothing is late, and the file that is furthest behind indicates the age of
    the next files, as long as more arrive.
    """
    return {_FIRST: min(newest.values()), _LAST: max(newest.values())}


def at_restart(marks: SourceProgress) -> SourceProgress:
    """Return the progress for a new run: unobserved partitions have not been silent."""
    return replace(marks, silent={}, since=None)


def newest_seen(
    clocks: Iterable[SourceClock], seen: Iterable[tuple[int, Mapping[str, int]]]
) -> dict[str, dict[str, int]]:
    """Merge the latest timestamps of a micro-batch by source and partition.

    Args:
        clocks: of all sources.
        seen: per task, the tag of the source and the latest timestamps by partition.

    Returns:
        Latest timestamps by tag, as a JSON key; only of sources with rows.
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
