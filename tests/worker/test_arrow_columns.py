"""Record batches of the user's own of which those columns alone are made that somebody looks at."""

from collections.abc import Callable
from typing import Any, NamedTuple

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.runners.direct import direct_runner
from noting import values

from beam_nexmark.beam_source import NexmarkEvents
from beam_nexmark.configuration import Configuration
from beam_nexmark.queries import q08_new_users, q11_user_sessions
from sparkbeam import SparkRunner
from sparkbeam.errors import ConfigurationError, PipelineFailed
from sparkbeam.explain import describe
from sparkbeam.io import ReadFromArrow
from sparkbeam.options.spark_options import SparkBeamOptions

pytestmark = pytest.mark.blocks(reason="Beam's own operations get no columns")

ODD: Any = 5


class Inner(NamedTuple):
    x: int


class Reading(NamedTuple):
    sensor: str
    value: float
    number: int
    inner: Inner


class Failure(NamedTuple):
    sensor: str
    code: int


INNER = pa.struct([("x", pa.int64())])
FIELDS = [
    ("sensor", pa.string()),
    ("value", pa.float64()),
    ("number", pa.int64()),
    ("inner", INNER),
]
SCHEMA = pa.schema([*FIELDS[:2], ("at", pa.int64()), *FIELDS[2:]])
UNION = pa.schema(
    [
        (
            "event",
            pa.dense_union(
                [
                    pa.field("0", pa.struct(FIELDS)),
                    pa.field("1", pa.struct([("sensor", pa.string()), ("code", pa.int64())])),
                ]
            ),
        ),
        ("at", pa.int64()),
    ]
)

ASKED: list[list[str]] = []

VALUES = {
    "sensor": pa.array(["a", "b", "c"]),
    "value": pa.array([0.5, -0.0, 2.5]),
    "at": pa.array([1_000_000, 2_000_000, 3_000_000]),
    "number": pa.array([1, 2**62, 3]),
    "inner": pa.array([{"x": 1}, {"x": 2}, {"x": 3}], INNER),
    "code": pa.array([7, 8, 9]),
}


def read(split: int, columns: list[str]) -> list[pa.Table]:
    """What is asked for, in another order, and more than that."""
    ASKED.append(columns)
    names = [*reversed(columns), *(["code"] if split else [])]
    return [pa.table([VALUES[name] for name in names], names=names)]


def read_union(_: int, columns: list[str]) -> list[pa.RecordBatch]:
    ASKED.append(columns)
    kinds, places = pa.array([1, 0, 1, 0], pa.int8()), pa.array([2, 0, 1, 2], pa.int32())
    members = []
    for kind in ("Reading", "Failure"):
        names = [name.partition(".")[2] for name in columns if name.startswith(f"{kind}.")]
        names = names or ["sensor"]
        members.append(pa.StructArray.from_arrays([VALUES[name] for name in names], names))
    union = pa.UnionArray.from_dense(kinds, places, members)
    times = pa.array([1, 2, 3, 4])
    # A part of a batch has its places in the whole of the children.
    return [pa.RecordBatch.from_arrays([union, times], ["event", "at"]).slice(1)]


def rows() -> ReadFromArrow:
    return ReadFromArrow([0, 1], read, Reading, timestamp_column="at", schema=SCHEMA)


def events() -> ReadFromArrow:
    kinds = Reading, Failure
    return ReadFromArrow([0], read_union, kinds, timestamp_column="at", schema=UNION)


def run(
    source: ReadFromArrow, build: Callable[[Any], Any], *options: str, runner: Any = None
) -> list[str]:
    ASKED.clear()
    return sorted(map(repr, values(lambda p: build(p | source), *options, runner=runner)))


def codes(events: Any) -> Any:
    failures = events | beam.Filter(lambda event: isinstance(event, Failure))
    return failures | "codes" >> beam.Map(lambda failure: failure.code)


def whole(events: Any) -> Any:
    return events | beam.Filter(lambda event: isinstance(event, Failure)) | beam.Reshuffle()


def sensors(events: Any) -> Any:
    return events | beam.Map(lambda event: event.sensor)


def two_kinds(events: Any) -> Any:
    readings = events | "readings" >> beam.Filter(lambda event: isinstance(event, Reading))
    values = readings | "values" >> beam.Map(lambda reading: reading.value)
    return (codes(events), values) | beam.Flatten()


def beyond(rows: Any) -> Any:
    """One block of them is refused."""
    return (
        rows
        | beam.Map(lambda row: (row.number * 4, row.sensor))
        | "first" >> beam.Map(lambda x: x[0])
    )


def times(rows: Any) -> Any:
    return rows | beam.Map(lambda row, at=beam.DoFn.TimestampParam: (row.sensor, at.micros))


ROWS = ["sensor", "value", "at", "number", "inner"]
EVENTS = ["Reading.sensor", "Reading.value", "Reading.number", "Reading.inner"]
EVENTS += ["Failure.sensor", "Failure.code", "at"]
# Nothing but None could be in the place of a struct.
INNERS = ["Reading.inner", "at"]


@pytest.mark.part(5)
@pytest.mark.parametrize(
    ("source", "build", "asked"),
    [
        (rows, sensors, ["sensor", "at", "inner"]),
        (rows, beyond, ["at", "number", "inner"]),
        (rows, times, ROWS),
        (rows, lambda rows: rows | beam.Reshuffle(), ROWS),
        (rows, lambda rows: rows | beam.Map(lambda row: row.inner.x), ["at", "inner"]),
        (rows, lambda rows: rows | beam.Map(lambda row: 1), ["at", "inner"]),
        (events, codes, ["Reading.inner", "Failure.code", "at"]),
        (events, whole, ["Reading.inner", "Failure.sensor", "Failure.code", "at"]),
        (events, sensors, ["Reading.sensor", "Reading.inner", "Failure.sensor", "at"]),
        (events, two_kinds, ["Reading.value", "Reading.inner", "Failure.code", "at"]),
        (events, lambda events: events | beam.Map(lambda event: 1), INNERS),
        (events, lambda events: events | beam.Map(repr), EVENTS),
        (events, lambda events: events | beam.Reshuffle(), EVENTS),
    ],
)
def test_what_somebody_looks_at_is_asked_for(
    source: Callable[[], ReadFromArrow], build: Callable[[Any], Any], asked: list[str]
) -> None:
    every = ROWS if source is rows else EVENTS
    results = run(source(), build)
    assert asked in ASKED
    assert len(set(map(tuple, ASKED))) == 1
    assert results
    assert results == run(source(), build, runner=direct_runner.BundleBasedDirectRunner())
    assert every in ASKED
    assert results == run(source(), build, "--columns=off")
    assert every in ASKED


NEXMARK = Configuration(events=1000)


@pytest.mark.parametrize(
    ("build", "told"),
    [
        (lambda p: codes(p | events()), "ReadFromArrow: 3 of 7 columns"),
        (lambda p: q11_user_sessions.build(p | NexmarkEvents(NEXMARK), NEXMARK), "2 of 24 columns"),
        (lambda p: q08_new_users.build(p | NexmarkEvents(NEXMARK), NEXMARK), "5 of 24 columns"),
    ],
)
def test_explain_tells_what_is_asked_for(build: Callable[..., Any], told: str) -> None:
    runner = SparkRunner()
    p = beam.Pipeline(runner, argv=["--runner=sparkbeam.SparkRunner"])
    _ = build(p) | beam.Map(print)
    plan = runner._plan(p, p.options.view_as(SparkBeamOptions))
    assert told in describe.stages(plan)


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        (pa.table({"at": [1], "inner": VALUES["inner"][:1]}), "no column 'sensor'"),
        (
            pa.table({"at": [1], "inner": VALUES["inner"][:1], "sensor": [3]}),
            "'sensor' is int64, but the schema has string",
        ),
    ],
)
def test_batches_that_do_not_fit_are_told(batch: pa.Table, message: str) -> None:
    source = ReadFromArrow([1], lambda *_: [batch], Reading, timestamp_column="at", schema=SCHEMA)
    with pytest.raises(PipelineFailed, match=message):
        run(source, sensors)


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (ODD, "schema=5 must be the pyarrow.Schema"),
        (SCHEMA.remove(0), "schema does not match the elements: Reading has the fields sensor"),
        (
            SCHEMA.remove(2),
            "schema does not match the elements: the timestamp column 'at' is missing",
        ),
    ],
)
def test_schemas_that_cannot_be_are_told(schema: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        ReadFromArrow([1], read, Reading, timestamp_column="at", schema=schema)
