"""The tick source: starts micro-batches, and holds all their inputs.

It is a Spark data source whose offsets hold the clock and the positions of Beam's sources. A
repeated micro-batch has the same offsets, so it computes the same.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader

from sparkbeam.plan import events
from sparkbeam.plan.model import Plan
from sparkbeam.plan.spark_io import PARTITION_SEPARATOR
from sparkbeam.streaming.available_now import AvailableNowRun
from sparkbeam.streaming.checkpoint_files import files
from sparkbeam.streaming.clock import Clock
from sparkbeam.streaming.exhausted_partitions import ExhaustedPartitions
from sparkbeam.streaming.feedback import Feedback, FeedbackFiles
from sparkbeam.streaming.generation import Generation
from sparkbeam.streaming.source_news import Connect, SourceNews
from sparkbeam.streaming.source_watermarks import (
    SourceClock,
    SourceObservation,
    SourceProgress,
    at_restart,
    spark_sources,
)
from sparkbeam.upstream.stream_readers import SupportsTriggerAvailableNow
from sparkbeam.wire.messages import DDL, TICK_TAG, Message, Round, Tick, dump, pack
from sparkbeam.wire.rows import PLAIN_CELL
from sparkbeam.wire.timestamps import MAX_MICROS, MIN_MICROS, now_micros

TO_FIRST_LAYER = ((0, 0),)
"""Route of ticks that are one row, which the first layer receives and passes on."""

WATERMARK = "watermark"
"""Column of the source: the least watermark of Spark's sources and a TestStream."""

_NOTHING = "-"
"""Spark's offset of a source without data."""

_MOST_ROUNDS = 200
_IDLE_MICROS = 1_000_000
_FIRST_IDLE_MICROS = 100_000
"""Least time from a micro-batch without rows to the next one; it doubles up to a second."""

_QUIET_MICROS = 30_000_000
"""Most time to the next one while no source has news, and no step waits for a watermark."""

_REST_MICROS = 500_000
_LOOK_SECONDS = 0.5
_STOP_SECONDS = 30
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class SourceSpec:
    """Description of the tick source.

    Attributes:
        checkpoint: the location of the feedback of micro-batches.
        events: of the TestStream in the pipeline, or None.
        outputs: the tag of each output of the TestStream.
        ways: the shard and the layer of each receiver of the tick.
        generation: of the driver; None if it cannot be replaced.
        run: an available-now run whose end the source has to find; None for any other.
        rests: the source waits until a micro-batch is due, as Spark has no interval for them.
        connects: connect to Spark's sources for news; none if one of them has none.
    """

    checkpoint: str
    events: bytes | None = None
    outputs: tuple[tuple[str, int], ...] = ()
    clocks: tuple[SourceClock, ...] = ()
    ways: tuple[tuple[int, int], ...] = TO_FIRST_LAYER
    generation: Generation | None = None
    run: AvailableNowRun | None = None
    rests: bool = False
    connects: tuple[Connect, ...] = ()

    @classmethod
    def from_plan(cls, plan: Plan, generation: Generation) -> "SourceSpec":
        """Return the description of a plan's tick source."""
        of_spark = spark_sources(plan)
        others = [source for source in plan.sources if source not in of_spark]
        return cls(
            generation.checkpoint,
            events=others[0].events if others else None,
            outputs=others[0].outputs if others else (),
            clocks=tuple(map(SourceClock.from_source, of_spark)),
            generation=generation,
        )


@dataclass(frozen=True)
class Position:
    """Offset of the source, whose fields are Spark's offset.

    Attributes:
        time: the clock, in microseconds since the epoch.
        event: the number of completed events of the TestStream.
        watermarks: of the outputs of the TestStream and of Spark's sources, by tag.
        sources: read progress of each Spark source, by tag; see
            :class:`~sparkbeam.streaming.source_watermarks.SourceProgress`.
        until: when the run began, if it processes only what is there.
    """

    number: int
    time: int
    event: int
    watermarks: dict[str, int]
    draining: bool = False
    sources: dict[str, dict[str, Any]] = field(default_factory=dict)
    until: int | None = None


class TickReader(SimpleDataSourceStreamReader, SupportsTriggerAvailableNow):
    """Planner of a query's micro-batches and their ticks.

    Rows are created where micro-batches are planned, and Spark's tasks get them without a Python
    worker; only a micro-batch that is repeated after a restart has its rows created in a worker.
    """

    def __init__(self, spec: SourceSpec) -> None:
        self._spec = spec
        self._news = SourceNews(spec.connects)
        self._found: object = None
        self._events = events.unpacked(spec.events) if spec.events is not None else []
        self._tags = dict(spec.outputs)
        self._files = FeedbackFiles(files(spec.checkpoint))
        self._last: Feedback | None = None
        self._clock = Clock()
        self._available_now = spec.run is not None
        self._until: int | None = None
        self._prepared: int | None = None
        self._first: int | None = None
        self._draining = False
        self._has_ended = False
        self._next_look = time.monotonic()
        self._idle_micros = _FIRST_IDLE_MICROS

    def prepareForTriggerAvailableNow(self) -> None:
        self._available_now = True
        self._prepared = now_micros()  # Other sources see what there is next.

    def initialOffset(self) -> dict[str, Any]:
        tags = (*self._tags.values(), *(clock.tag for clock in self._spec.clocks))
        marks = {str(tag): MIN_MICROS for tag in tags}
        return asdict(Position(0, 0, 0, marks))

    def read(self, start: dict[str, Any]) -> tuple[Iterator[tuple[Any, ...]], dict[str, Any]]:
        """Return the rows of the next micro-batch and its end; the start if none is due."""
        end = self._end(start)
        if end == start:
            return iter(()), end
        self._check()  # Spark logs the end of the micro-batch next.
        feedback = self._feedback(start["number"])
        committed = tuple(feedback.finalizers) if feedback is not None else ()
        # Spark copies the iterator, so it cannot be a generator.
        return iter(list(self._rows(start, end, committed))), end

    def _end(self, start: dict[str, Any]) -> dict[str, Any]:
        position = Position(**start)
        if self._first is None:
            self._first = position.number
            feedback = self._feedback(position.number)
            if feedback is not None:
                self._files.restore(feedback)
            if self._available_now and self._spec.events is None:
                began = self._clock.after(position.time)
                self._until = min(began, max(position.time, self._prepared or began))
        draining = position.draining or self._is_to_drain()
        begun = position.number and draining == position.draining
        if begun and not self._is_due(position) and self._is_over():
            if self._spec.rests:
                self._rest(position)
            return asdict(position)
        if not draining and self._spec.clocks and position.number:
            self._rest(position)
        if draining or self._draining:
            return asdict(self._drained(position))
        last = position
        for _, after in self._steps(position):
            last = after
        time_now = self._time(last)
        sources = self._sources(position, time_now)
        marks = {tag: found.watermark for tag, found in sources.items()}
        following = Position(
            number=position.number + 1,
            time=time_now,
            event=last.event,
            watermarks=last.watermarks | marks,
            sources={tag: asdict(found) for tag, found in sources.items()},
            until=self._until,
        )
        return asdict(following)

    def _is_over(self) -> bool:
        """Return whether no tick is needed; tell the driver if that is the end of the run.

        Each micro-batch with rows needs a tick, and Spark's sources may have rows at any time.
        """
        run, generation = self._spec.run, self._spec.generation
        if run is None or generation is None:
            return True
        if not self._has_ended:
            self._files.end_run(generation.token)
            self._has_ended = True
        if run.goes_on:
            time.sleep(_STOP_SECONDS)  # The driver stops the query.
        return not run.goes_on

    def _is_to_drain(self) -> bool:
        """Return whether a drain was requested; checks from time to time."""
        if time.monotonic() >= self._next_look:
            self._next_look = time.monotonic() + _LOOK_SECONDS
            self._check()
            self._draining = self._draining or self._files.is_to_drain()
        return self._draining

    def _check(self) -> None:
        """Raise an error if there is a newer driver over the checkpoint."""
        if self._spec.generation is not None:
            self._spec.generation.check()

    def _drained(self, position: Position) -> Position:
        """Return the next position, with all sources at their ends."""
        marks = dict.fromkeys(position.watermarks, MAX_MICROS)
        time_now = self._time(position)
        return Position(position.number + 1, time_now, len(self._events) + 1, marks, draining=True)

    def _time(self, position: Position) -> int:
        """Return the time of the tick after a position; a TestStream has its own."""
        if self._spec.events is not None:
            return position.time
        return self._clock.after(position.time)

    def _feedback(self, number: int) -> Feedback | None:
        """Return the feedback of a tick's micro-batch, if available."""
        if self._last is None or self._last.number != number:
            self._last = self._files.readable(number)
        return self._last

    def _rest(self, position: Position) -> None:
        """Wait for news of Spark's sources, or until something else is due.

        Spark would ask again after ten milliseconds, and does not signal that sources have rows.
        """
        earliest, latest = self._when(position)
        offsets = self._files.partition_offsets(position.number) if self._news.connects else {}
        last, found = self._found, self._news.now(offsets)
        while (now := self._clock.after(position.time)) < latest:
            is_news = found != last and now >= earliest and not position.draining
            if is_news or self._is_to_drain() != position.draining:
                break
            time.sleep(min((latest - now) / 1_000_000, self._news.pause))
            found = self._news.now(offsets)
        self._found = found

    def _when(self, position: Position) -> tuple[int, int]:
        """Return the earliest and the latest time to end a rest.

        Without news of Spark's sources only micro-batches find their rows, at growing intervals.
        """
        feedback = self._feedback(position.number)
        due = MAX_MICROS if feedback is None or feedback.due is None else feedback.due
        if not self._spec.clocks or position.draining:
            is_over = feedback is not None and feedback.finished
            return 0, 0 if is_over else min(due, self._clock.after(position.time) + _REST_MICROS)
        # A source may limit what a micro-batch reads, and steps wait for the watermark of its rows.
        had_rows = self._had_rows(position)
        pause = 0 if had_rows else min(self._idle_micros, _IDLE_MICROS)
        self._idle_micros = max(2 * pause, _FIRST_IDLE_MICROS)
        earliest = position.time + pause
        if had_rows or self._found is None or self._needs_ticks(position):
            return earliest, earliest
        return earliest, max(earliest, min(due, position.time + _QUIET_MICROS))

    def _needs_ticks(self, position: Position) -> bool:
        """Return whether steps may wait for a watermark that advances without rows."""
        feedback = self._feedback(position.number)
        if feedback is None or feedback.finalizers or feedback.waits:
            return True
        clocks = () if feedback.empty else self._spec.clocks
        is_timed = any(clock.idle is not None for clock in clocks)
        return is_timed or self._advances(position, position.time + _IDLE_MICROS, clocks)

    def _had_rows(self, position: Position) -> bool:
        """Return whether the micro-batch that ended at a position has read from Spark's sources."""
        feedback = self._feedback(position.number)
        if feedback is None or feedback.seen:
            return True
        # Files may be empty, and a DataFrame may hold back or filter all its rows.
        now, before = (self._files.offsets(n)[1:] for n in (position.number, position.number - 1))
        return now != (before or [_NOTHING] * len(now))

    def _sources(self, position: Position, time_now: int) -> dict[str, SourceProgress]:
        """Return the read progress of Spark's sources at the end of a position's micro-batch."""
        found = {}
        # Available-now runs continue each other.
        is_first = position.number == self._first and not self._available_now
        feedback = self._feedback(position.number) if self._spec.clocks else None
        asks = feedback is not None and any(clock.tells for clock in self._spec.clocks)
        partitions = self._files.partition_offsets(position.number) if asks else {}
        for number, clock in enumerate(self._spec.clocks):
            tag = str(clock.tag)
            marks = SourceProgress(**position.sources.get(tag, {}))
            if is_first:
                marks = at_restart(marks)
            look = None
            if feedback is not None:
                offsets = partitions.get(number, {}) if clock.tells else {}
                look = SourceObservation(
                    position.time,
                    feedback.seen.get(tag, {}),
                    tuple(offsets),
                    is_first,
                    self._ended(clock, offsets),
                    tuple(feedback.hidden.get(tag, ())),
                    position.until,
                )
            found[tag] = clock.after(marks, look, time_now)
        return found

    def _ended(self, clock: SourceClock, offsets: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the exhausted partitions."""
        if not clock.tells_ends or clock.idle is None:
            return ()
        ends = ExhaustedPartitions(self._spec.checkpoint, clock.tag).read()
        return tuple(
            name
            for name, at in offsets.items()
            if ends.get(name.rpartition(PARTITION_SEPARATOR)[2]) == at
        )

    def _is_due(self, position: Position) -> bool:
        """Return whether another micro-batch is needed."""
        feedback = self._feedback(position.number)
        if feedback is not None and (feedback.finalizers or feedback.waits):
            return True
        if self._spec.clocks and not position.draining:
            # Each micro-batch with rows needs a tick, and its rows are not known in advance.
            if self._until is None or position.number == self._first:
                return True
            if self._had_rows(position) and not self._has_all(position):
                return True
            return self._has_ended_partitions(position)
        if self._spec.events is not None and position.event <= len(self._events):
            return True
        if feedback is None:
            return True
        if feedback.finished or feedback.due is None:
            return False
        if self._spec.events is not None:
            return True
        if self._until is None:
            return feedback.due <= self._clock.after(position.time)
        # Splittable DoFns go on as a run begins.
        return position.number == self._first or feedback.due <= self._until

    def _has_all(self, position: Position) -> bool:
        """Return whether a position is behind all rows that were there at the start of the run.

        The tick of the micro-batch that follows the last of them has their watermark.
        """
        run, generation = self._spec.run, self._spec.generation
        if run is None or generation is None:
            return False
        first = (self._first or 0) + 1
        last = first if run.takes_all else self._files.caught_up(generation.token)
        return last is not None and position.number > last

    def _has_ended_partitions(self, position: Position) -> bool:
        """Return whether a watermark advances because partitions are now known to be exhausted."""
        clocks = [clock for clock in self._spec.clocks if clock.tells_ends]
        return self._advances(position, position.time, clocks)

    def _advances(self, position: Position, at: int, clocks: Sequence[SourceClock]) -> bool:
        """Return whether a watermark of some sources is later at the next tick, at a time."""
        found = self._sources(position, at) if clocks else {}
        return any(
            found[str(clock.tag)].watermark > position.watermarks[str(clock.tag)]
            for clock in clocks
        )

    def _steps(self, position: Position) -> Iterator[tuple[list[tuple[int, bytes]], Position]]:
        """Yield the rows by tag of each event after a position, and the next position."""
        if self._spec.events is None:
            return
        for _ in range(_MOST_ROUNDS):
            number = position.event
            if number > len(self._events):
                return
            marks, rows, elapsed = dict(position.watermarks), [], 0
            if number == len(self._events):
                marks |= {str(tag): MAX_MICROS for tag in self._tags.values()}
            else:
                match self._events[number]:
                    case events.ElementsAdded(output, encoded):
                        if output in self._tags and encoded:
                            cell = PLAIN_CELL + encoded
                            rows.append((self._tags[output], pack([(b"", 0, cell)])))
                    case events.Watermark(output, micros):
                        if output in self._tags:
                            marks[str(self._tags[output])] = min(micros, MAX_MICROS)
                    case events.Elapse(micros):
                        elapsed = micros
            position = replace(
                position, time=position.time + elapsed, event=number + 1, watermarks=marks
            )
            yield rows, position

    def readBetweenOffsets(
        self, start: dict[str, Any], end: dict[str, Any]
    ) -> Iterator[tuple[Any, ...]]:
        """Return the rows of a micro-batch of an earlier run, which confirms no callbacks."""
        return self._rows(start, end, ())

    def _rows(
        self, start: dict[str, Any], end: dict[str, Any], committed: tuple[str, ...]
    ) -> Iterator[tuple[Any, ...]]:
        """Yield the messages of a micro-batch, with its final watermark."""
        before, after = Position(**start), Position(**end)
        watermark = _moment(min(after.watermarks.values(), default=MIN_MICROS))
        for message in self._messages(before, after, committed):
            yield *message, watermark

    def _messages(
        self, start: Position, end: Position, committed: tuple[str, ...]
    ) -> Iterator[Message]:
        rounds: list[Round] = []
        sent = 0
        for rows, position in () if end.draining else self._steps(start):
            for tag, value in rows:
                yield Message(0, 0, len(rounds), tag, 0, sent, value)
                sent += 1
            rounds.append(_round(position))
        tick = Tick(
            end.number,
            tuple(rounds or [_round(end)]),
            start=start.number == 0,
            draining=end.draining,
            committed=committed,
            until=end.until,
            resuming=end.until is not None and start.until != end.until,
        )
        value = dump(tick)
        for shard, layer in self._spec.ways:
            yield Message(shard, layer, 0, TICK_TAG, 0, sent, value)
            sent += 1


def _moment(micros: int) -> datetime | None:
    """Convert a time; None before the first watermark and at the end of time."""
    try:
        return _EPOCH + timedelta(microseconds=micros)
    except OverflowError:
        return None


def _round(position: Position) -> Round:
    return Round(position.time, {int(tag): mark for tag, mark in position.watermarks.items()})


class TickSource(DataSource):
    """The data source of one query.

    Unlike options, a class is never shown: to look at a source may take its passwords.
    """

    spec: ClassVar[SourceSpec]

    @classmethod
    def of_query(cls, spec: SourceSpec) -> "type[TickSource]":
        """Return the source of a query, which has a name that no other one has."""
        return type(cls.__name__, (cls,), {"spec": spec})

    @classmethod
    def name(cls) -> str:
        generation = cls.spec.generation
        return f"sparkbeam_ticks_{generation.token if generation else ''}"

    def schema(self) -> str:
        return f"{DDL}, {WATERMARK} timestamp"

    def simpleStreamReader(self, schema: Any) -> TickReader:
        return TickReader(self.spec)
