"""As much of Spark as a streaming pipeline asks for, in this process and without a JVM.

:class:`Spark` stands in for a session: a query over one Python data source, ``mapInArrow``,
``transformWithState`` and ``foreachBatch``, micro-batch by micro-batch, with logs of offsets and
commits, and state by micro-batch. So a whole run takes milliseconds, and can be made to
crash wherever Spark can. :class:`StreamingRunner` runs each pipeline as such a query.

It is harder than Spark in one way: what an operator gets comes in another order each time. And
a micro-batch that runs again has to put out what it has put out before, and to leave the same
state.
"""

import errno
import json
import os
import pickle
import random
import re
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from apache_beam.options.pipeline_options import PipelineOptions, StandardOptions
from apache_beam.pipeline import Pipeline
from apache_beam.transforms import periodicsequence
from apache_beam.utils import timestamp

from sparkbeam import SparkRunner
from sparkbeam.errors import PipelineFailed
from sparkbeam.run.result import SparkPipelineResult
from sparkbeam.streaming import clock, tick_source
from sparkbeam.streaming.query_sink import WORD
from sparkbeam.wire import timestamps
from sparkbeam.wire.messages import FINALIZERS_TAG, REPORT_TAG, SCHEMA
from sparkbeam.worker import finalizers

CORES = 2
tick_source._REST_MICROS = 0  # A query of this module waits by itself.

DURATIONS = {"latestOffset": 1, "walCommit": 2, "addBatch": 3_000, "commitOffsets": 4}
"""What each micro-batch takes, in milliseconds, as Spark's progress has it."""

T = TypeVar("T")
Point = tuple[int, str]
"""A place in a query: the number of a micro-batch, and what of it has just been done."""


State = dict[tuple[int, Any], dict[bytes, bytes]]
"""By operator and key."""


class Crash(Exception):
    """What a query ends with where a test wants it to."""


class Crashes:
    """Lets a query crash at each point, or at one, the first time that it gets there.

    Attributes:
        points: where it has crashed.
    """

    def __init__(self, only: Point | None = None) -> None:
        self._only = only
        self.points: set[Point] = set()

    def __call__(self, point: Point) -> None:
        if point not in self.points and self._only in (None, point):
            self.points.add(point)
            raise Crash(f"At {point}.")

    def until_it_ends(self, run: Callable[[], T]) -> T:
        """Does something over and over until it crashes no more."""
        while True:
            before = len(self.points)
            try:
                return run()
            except PipelineFailed:
                assert len(self.points) > before


@dataclass
class Checkpoint:
    """What Spark keeps under a checkpoint location.

    Attributes:
        offsets: the end of each micro-batch that was planned.
        commits: how many of them have been committed.
        states: of each operator's keys, by how many micro-batches have led to it.
        outputs: of each operator by micro-batch, and the state after it, as of the first time.
    """

    offsets: list[str] = field(default_factory=list)
    commits: int = 0
    states: dict[int, State] = field(default_factory=lambda: {0: {}})
    outputs: dict[Point, Any] = field(default_factory=dict)

    @property
    def state(self) -> State:
        """As of the last commit."""
        return self.states[self.commits]

    @property
    def entries(self) -> int:
        """How many entries the whole state has."""
        return sum(map(len, self.state.values()))

    @property
    def size(self) -> int:
        """The bytes of the state."""
        stored = [entry for entries in self.state.values() for entry in entries.items()]
        return sum(len(key) + len(value) for key, value in stored)


class Conf(dict[str, str]):
    """Settings."""

    def set(self, key: str, value: str) -> None:
        self[key] = value

    def unset(self, key: str) -> None:
        del self[key]

    @property
    def getAll(self) -> dict[str, str]:
        return dict(self)


class Spark:
    """A session.

    Args:
        crash: told of each point; raises :class:`Crash` where a query is to end.
        attempts: how often each micro-batch runs before its output is taken.
        repeatable: a micro-batch does the same each time, as all do but those that read an
            unbounded splittable DoFn.

    Attributes:
        checkpoints: by their location.
        points: where the queries have been, in order.
        jobs: the group and the description of each, in batch.
        names: those of the queries that have one.
        tables: what has been written as ``delta``, by path: the rows of each version.
    """

    def __init__(
        self,
        crash: Callable[[Point], None] = lambda point: None,
        *,
        attempts: int = 1,
        repeatable: bool = True,
    ) -> None:
        self.crash = crash
        self.attempts = attempts
        self.repeatable = repeatable
        self.chance = random.Random(0)
        self.checkpoints: dict[str, Checkpoint] = defaultdict(Checkpoint)
        self.points: list[Point] = []
        self.jobs: list[tuple[str, str]] = []
        self.names: list[str] = []
        self.tables: dict[str, list[list[tuple[Any, ...]]]] = defaultdict(list)
        self.transactions: dict[str, int] = {}
        self.conf = Conf({"spark.master": f"local[{CORES}]"})
        self.sparkContext = SimpleNamespace(
            addJobTag=_ignore,
            cancelJobsWithTag=_ignore,
            setJobGroup=self._describe,
            environment={},
        )
        self._sources: dict[str, Any] = {}
        self.dataSource = SimpleNamespace(register=self._register)

    def _describe(self, group: str, text: str) -> None:
        self.jobs.append((group, text))

    def _register(self, source: Any) -> None:
        self._sources[source.name()] = source

    def sql(self, query: str) -> Any:
        """Answers how many cores there are, and where Spark's hash sends numbers."""
        if query.startswith("EXPLAIN"):
            return SimpleNamespace(collect=lambda: [[f"splits=Some({CORES})"]])
        return SimpleNamespace(collect=lambda: [[[number % CORES for number in range(64)]]])

    @property
    def readStream(self) -> "Reader":
        return Reader(self, self._sources)

    def reach(self, point: Point) -> None:
        """Called by a query where it may crash."""
        self.points.append(point)
        self.crash(point)


class Measured(Spark):
    """A session for one query, whose checkpoint is measured after each micro-batch.

    Attributes:
        found: the measures.
    """

    def __init__(self, measure: Callable[[Checkpoint], int]) -> None:
        super().__init__(self._look)
        self._measure = measure
        self.found: list[int] = []

    def _look(self, point: Point) -> None:
        if point[1] == "committed":
            (checkpoint,) = self.checkpoints.values()
            self.found.append(self._measure(checkpoint))


class Reader:
    """``session.readStream``."""

    def __init__(self, spark: Spark, sources: dict[str, Any]) -> None:
        self._spark = spark
        self._sources = sources

    def format(self, name: str) -> "Reader":
        self._source = self._sources[name]
        return self

    def load(self) -> "Stream":
        source = self._source({})
        return Stream(self._spark, source.simpleStreamReader(source.schema()), ())


class Stream:
    """A streaming DataFrame: a source and operators."""

    def __init__(self, spark: Spark, reader: Any, operators: tuple[Any, ...]) -> None:
        self._spark = spark
        self._reader = reader
        self._operators = operators

    def mapInArrow(self, function: Any, schema: Any) -> "Stream":
        return self._with(Stateless(function))

    def withWatermark(self, column: str, delay: str) -> "Stream":
        """Spark only shows it."""
        return self

    def select(self, *columns: str) -> "Stream":
        """The ticks without their watermark."""
        assert list(columns) == SCHEMA.names
        return self

    def unionAll(self, other: Any) -> "Stream":
        """Adds another source: an operator that puts its rows behind those of the ticks."""
        return self._with(other)

    def groupBy(self, column: str) -> Any:
        def apply(kind: Any, processor: Any, *modes: Any) -> Stream:
            return self._with(kind(column, processor))

        return SimpleNamespace(
            transformWithState=partial(apply, Stateful),
            transformWithStateInPandas=partial(apply, StatefulInPandas),
        )

    def _with(self, operator: Any) -> "Stream":
        return Stream(self._spark, self._reader, (*self._operators, operator))

    @property
    def writeStream(self) -> "Writer":
        return Writer(self._spark, self._reader, self._operators)


class Stateless:
    """``mapInArrow``, in one task."""

    def __init__(self, function: Any) -> None:
        self._function = pickle.dumps(function)

    def run(self, table: pa.Table, state: Callable[[Any], dict[bytes, bytes]]) -> pa.Table:
        batches = pickle.loads(self._function)(iter(table.to_batches()))
        return pa.Table.from_batches(batches, SCHEMA)


class Stateful:
    """``transformWithState``, grouped by a column."""

    def __init__(self, column: str, processor: Any) -> None:
        self._column = column
        self._processor = pickle.dumps(processor)

    def run(self, table: pa.Table, state: Callable[[Any], dict[bytes, bytes]]) -> pa.Table:
        groups = defaultdict(list)
        for row in table.to_pylist():
            groups[row[self._column]].append(tuple(row.values()))
        output: list[Any] = []
        for key, rows in sorted(groups.items()):
            processor = pickle.loads(self._processor)
            kept = MapState(state(key))
            processor.init(SimpleNamespace(getMapState=lambda *_, kept=kept: kept))
            output += self.handled(processor, key, rows)
            processor.close()
        return _table(output)

    def handled(self, processor: Any, key: Any, rows: list[Any]) -> Iterator[Any]:
        """The rows that a processor makes of those of a key."""
        yield from processor.handleInputRows((key,), iter(rows), None)


class StatefulInPandas(Stateful):
    """``transformWithStateInPandas``: rows travel in DataFrames, some at a time."""

    ROWS = 3

    def handled(self, processor: Any, key: Any, rows: list[Any]) -> Iterator[Any]:
        parts = (rows[at : at + self.ROWS] for at in range(0, len(rows), self.ROWS))
        frames = (_table(part).to_pandas() for part in parts)
        for frame in processor.handleInputRows((np.int32(key),), frames, None):
            table = pa.Table.from_pandas(frame, SCHEMA, preserve_index=False)
            yield from zip(*table.to_pydict().values(), strict=True)


def _table(rows: Iterable[Any]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [()] * len(SCHEMA)
    arrays = [pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)]
    return pa.table(arrays, schema=SCHEMA)


class MapState:
    """A map state of one binary column for the key and one for the value."""

    def __init__(self, entries: dict[bytes, bytes]) -> None:
        self._entries = entries

    def getValue(self, key: tuple[bytes]) -> tuple[bytes] | None:
        value = self._entries.get(key[0])
        return None if value is None else (value,)

    def updateValue(self, key: tuple[bytes], value: tuple[bytes]) -> None:
        self._entries[key[0]] = value[0]

    def removeKey(self, key: tuple[bytes]) -> None:
        self._entries.pop(key[0], None)


class Writer:
    """``stream.writeStream``."""

    def __init__(self, spark: Spark, reader: Any, operators: tuple[Any, ...]) -> None:
        self._parts = (spark, reader, operators)

    def foreachBatch(self, sink: Callable[[Any, int], None]) -> "Writer":
        self._sink = sink
        return self

    def queryName(self, name: str) -> "Writer":
        self._parts[0].names.append(name)
        return self

    def option(self, name: str, value: str) -> "Writer":
        self._location = value
        return self

    def trigger(self, **when: Any) -> "Writer":
        return self

    def start(self) -> "Query":
        return Query(*self._parts, self._sink, self._location)


class Batch:
    """The DataFrame that ``foreachBatch`` gets, and what is made of it."""

    def __init__(self, table: pa.Table, spark: Spark) -> None:
        self._table = table
        self._spark = spark
        self.sparkSession = SimpleNamespace(conf=Conf(), createDataFrame=self._made)

    def _made(self, table: pa.Table, schema: Any = None) -> "Batch":
        return Batch(table, self._spark)

    def persist(self) -> "Batch":
        """It is in memory anyway."""
        return self

    def unpersist(self) -> None:
        """It is nowhere else."""

    def select(self, *columns: str) -> "Batch":
        return self._made(self._table.select(list(columns)))

    def selectExpr(self, *columns: str) -> "Batch":
        assert columns == ("tag", WORD)
        tags = self._table["tag"]
        values = pc.if_else(pc.less(tags, 0), self._table["value"], None)
        return self._made(pa.table({"tag": tags, "value": values}))

    def where(self, condition: str) -> "Batch":
        tags = [int(tag) for tag in re.findall(r"\d+", condition.removeprefix("tag IN "))]
        is_one = pc.is_in(self._table["tag"], pa.array(tags, pa.int32()))
        return self._made(self._table.filter(is_one))

    def mapInArrow(self, function: Any, schema: Any) -> "Batch":
        batches = list(pickle.loads(pickle.dumps(function))(iter(self._table.to_batches())))
        return self._made(pa.Table.from_batches(batches) if batches else pa.table({}))

    def orderBy(self, *names: str, ascending: list[bool]) -> "Batch":
        order = ["ascending" if up else "descending" for up in ascending]
        columns = [name.strip("`") for name in names]
        return self._made(self._table.sort_by([*zip(columns, order, strict=True)]))

    def collect(self) -> list[Any]:
        return [SimpleNamespace(**row) for row in self._table.to_pylist()]

    def toArrow(self) -> pa.Table:
        return self._table

    def _show_string(self, rows: int, characters: int) -> str:
        return "".join(f"{row}\n" for row in self.rows()[:rows])

    def rows(self) -> list[tuple[Any, ...]]:
        return [tuple(row.values()) for row in self._table.to_pylist()]

    @property
    def write(self) -> "BatchWriter":
        return BatchWriter(self, self._spark)


class BatchWriter:
    """``frame.write`` of the format ``delta``: each version has what one transaction has left."""

    def __init__(self, batch: Batch, spark: Spark) -> None:
        self._batch = batch
        self._spark = spark
        self._options: dict[str, str] = {}

    def format(self, name: str) -> "BatchWriter":
        assert name == "delta"
        return self

    def mode(self, name: str) -> "BatchWriter":
        self._mode = name
        return self

    def option(self, name: str, value: str) -> "BatchWriter":
        self._options[name] = value
        return self

    def save(self) -> None:
        path, app = self._options["path"], self._options.get("txnAppId", "")
        version = int(self._options.get("txnVersion", -1))
        if app and self._spark.transactions.get(app, -1) >= version:
            return
        versions = self._spark.tables[path]
        before = versions[-1] if versions and self._mode == "append" else []
        versions.append([*before, *self._batch.rows()])
        if app:
            self._spark.transactions[app] = version
        self._spark.reach((version, "written"))


class Query:
    """A query. Whoever waits for its end runs its micro-batches."""

    def __init__(
        self, spark: Spark, reader: Any, operators: tuple[Any, ...], sink: Any, location: str
    ) -> None:
        self._spark = spark
        self._reader = reader
        self._operators = operators
        self._sink = sink
        self._checkpoint = spark.checkpoints[location]
        self._batch = self._checkpoint.commits
        self._error: Exception | None = None
        self._made: tuple[str, str, list[Any]] = ("", "", [])
        self.isActive = True
        self.lastProgress: dict[str, Any] | None = None
        self.status = {"message": "Initializing sources"}

    def awaitTermination(self, timeout: float) -> None:
        """Runs a micro-batch, or waits where there is none to run."""
        try:
            if not self._run():
                self._wait(timeout)
        except Exception as error:
            self._error = error
            self.isActive = False
            # The workers have ended, too.
            finalizers.PENDING_FINALIZERS = finalizers.PendingCallbacks()

    def _wait(self, seconds: float) -> None:
        time.sleep(seconds)

    def stop(self) -> None:
        self.isActive = False

    def exception(self) -> Exception | None:
        return self._error

    def _run(self) -> bool:
        log, batch = self._checkpoint, self._batch
        before = log.offsets[batch - 1] if batch else json.dumps(self._reader.initialOffset())
        if len(log.offsets) == batch:
            rows, following = self._reader.read(json.loads(before))
            end = json.dumps(following)
            self._made = before, end, list(rows)
            if end == before:
                self.status = {"message": "Waiting for data to arrive"}
                return False
            self._only(len(log.offsets))
            log.offsets.append(end)
            self._spark.reach((batch, "planned"))
        after = log.offsets[batch]
        for _ in range(self._spark.attempts):
            state = {key: dict(entries) for key, entries in log.states[batch].items()}
            table = self._processed(batch, before, after, state)
        log.states[batch + 1] = state
        self._sink(Batch(table, self._spark), batch)
        self._spark.reach((batch, "sink"))
        self._only(log.commits)
        log.commits = self._batch = batch + 1
        log.states.pop(batch - 1, None)
        self._spark.reach((batch, "committed"))
        self._reader.commit(json.loads(after))
        self.lastProgress = {"sources": [{"endOffset": after}], "durationMs": DURATIONS}
        return True

    def _only(self, number: int) -> None:
        """Spark lets nobody write twice that a micro-batch is planned, or committed."""
        if number != self._batch:
            raise RuntimeError(
                "[CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to the log. Multiple streaming "
                f"jobs detected for {self._batch}."
            )

    def _processed(
        self, batch: int, before: str, after: str, state: dict[tuple[int, Any], dict[bytes, bytes]]
    ) -> pa.Table:
        """The output of the last operator."""
        rows = list(self._read(before, after))
        table = _table(rows)
        for number, operator in enumerate(self._operators):
            if isinstance(operator, Stateful):
                table = table.take(self._order(len(table)))
            table = operator.run(table, partial(_of_key, state, number))
            self._compare((batch, f"operator {number}"), _content(table))
            self._spark.reach((batch, f"operator {number}"))
        self._compare((batch, "state"), state)
        return table

    def _order(self, rows: int) -> list[int]:
        """The order in which the rows of a shuffle come."""
        return self._spark.chance.sample(range(rows), rows)

    def _compare(self, point: Point, output: Any) -> None:
        """Looks whether all is as it was the last time."""
        if self._spark.repeatable:
            first = self._checkpoint.outputs.setdefault(point, output)
            assert first == output, f"{point} is not what it was the first time"

    def _read(self, before: str, after: str) -> Iterator[Any]:
        """The rows that were made as the micro-batch was planned, or, in another run, again."""
        if self._made[:2] == (before, after):
            rows = self._made[2]
        else:
            rows = list(self._reader.readBetweenOffsets(json.loads(before), json.loads(after)))
        for row in rows:
            yield row[: len(SCHEMA)]


class FailingWrites:
    """A disk that is full now and then; signs of life, which may fail, are none of its writes.

    Args:
        monkeypatch: puts it into the place of the real one.
        every: each write of a file under the checkpoint fails that comes after so many less one.
        error: what the system says.

    Attributes:
        failed: how many have failed.
    """

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, every: int, error: int = errno.ENOSPC
    ) -> None:
        self._every = every
        self._error = error
        self._writes = 0
        self.failed = 0
        monkeypatch.setattr(os, "fsync", self)

    def __call__(self, descriptor: int) -> None:
        if threading.current_thread().name == "sparkbeam-beacon":
            return
        self._writes += 1
        if self._writes % self._every == 0:
            self.failed += 1
            raise OSError(self._error, os.strerror(self._error))


class MachineClock:
    """The clock of the machine, which a test sets; it goes on a little whenever it is read.

    Args:
        monkeypatch: puts it into the place of the real one.
        jumps: by how many seconds it is set at which of the times that it is read.
    """

    _STEP = 500_000

    def __init__(self, monkeypatch: pytest.MonkeyPatch, jumps: Mapping[int, int]) -> None:
        self._jumps = jumps
        self._reads = 0
        self._micros = 1_800_000_000_000_000
        monkeypatch.setattr(clock, "now_micros", self)

    def __call__(self) -> int:
        self._reads += 1
        self._micros += self._STEP + self._jumps.get(self._reads, 0) * 1_000_000
        return self._micros


class LeapingClock:
    """The clock of the machine, which goes on faster where a query waits for it.

    Args:
        monkeypatch: puts it into the place of the real one.
    """

    _LEAP_NANOS = 100_000_000
    _WAIT_SECONDS = 0.001

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._ahead = 0
        for module in (timestamps, timestamp, periodicsequence):
            monkeypatch.setattr(module, "time", self)
        monkeypatch.setattr(Query, "_wait", self._leap)

    def time_ns(self) -> int:
        """As of the module of that name, as is the next one."""
        return time.time_ns() + self._ahead

    def time(self) -> float:
        return self.time_ns() / 1_000_000_000

    def _leap(self, _: float) -> None:
        self._ahead += self._LEAP_NANOS
        time.sleep(self._WAIT_SECONDS)


class StreamingRunner(SparkRunner):
    """Runs each pipeline as a streaming query, in process.

    Args:
        spark: the session; None for a new one.
        drain: as of :class:`SparkRunner`.
    """

    def __init__(self, spark: Spark | None = None, *, drain: bool = False) -> None:
        super().__init__(spark or Spark(), drain=drain)

    def run_pipeline(self, pipeline: Pipeline, options: PipelineOptions) -> SparkPipelineResult:
        options.view_as(StandardOptions).streaming = True
        return super().run_pipeline(pipeline, options)


def streaming_pipeline(
    spark: Spark | None = None, checkpoint: Path | str | None = None, *flags: str
) -> Pipeline:
    """Return a pipeline that runs as a streaming query, in process, over a checkpoint or none."""
    location = [] if checkpoint is None else [f"--checkpoint_location={checkpoint}"]
    return Pipeline(StreamingRunner(spark), PipelineOptions([*location, *flags]))


def rounds(most: int) -> "mock._patch[int]":
    """Limit the events of a TestStream in a micro-batch, as a decorator of a test or a context."""
    return mock.patch.object(tick_source, "_MOST_ROUNDS", most)


def _content(table: pa.Table) -> list[dict[str, Any]]:
    """The rows of a table but those that tell of the attempt itself."""
    return [row for row in table.to_pylist() if row["tag"] not in (REPORT_TAG, FINALIZERS_TAG)]


def _of_key(
    state: dict[tuple[int, Any], dict[bytes, bytes]], operator: int, key: Any
) -> dict[bytes, bytes]:
    return state.setdefault((operator, key), {})


def _ignore(*_: Any) -> None:
    """Nothing to do."""
