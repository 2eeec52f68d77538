"""Aggregations made at random: of rows in columns or elements, by key and window.

An :class:`Aggregations` has rows that arrive in blocks, with steps of the watermark between them,
and combines and groups them, all in one pipeline. As a batch the results are those of plain Python
(:meth:`Aggregations.expected`). As a stream the panes are those of Beam's trigger driver over
elements, also where elements are late and the query crashes.
"""

import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple
from unittest import mock

import apache_beam as beam
import pyarrow as pa
from apache_beam.coders import VarIntCoder
from apache_beam.testing.test_stream import TestStream
from apache_beam.transforms.trigger import AccumulationMode, DefaultTrigger
from apache_beam.transforms.window import FixedWindows, IntervalWindow, TimestampedValue, WindowFn
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import WindowedValue
from physical import FORMS
from random_combines import (
    COMBINES,
    GROUPS,
    KEY_TYPES,
    KEYS,
    OBJECTS,
    ORDERED,
    SINGLY,
    TIMES,
    VALUE_TYPES,
    VALUES,
    Element,
    Place,
    aggregated,
    is_odd,
    name_of,
    plain,
    result_of,
)
from random_pipelines import Pairs, Window, put

from sparkbeam.io import ReadFromArrow
from sparkbeam.plan.grouping import GroupStrategy
from sparkbeam.wire.rounding import coded_micros, coded_span
from sparkbeam.worker.grouping.strategies import STREAMING
from sparkbeam.worker.grouping.triggered import SessionGrouping, TriggerGrouping
from sparkbeam.worker.state.pages import ShardState

Row = tuple[Any, int, Any]
"""Key, milliseconds and value."""


class InColumns(NamedTuple):
    """A row as it is read."""

    name: Any
    number: Any
    value: Any
    more: Any


_KEY = {
    "pair": "(row.name, row.number)",
    "maybe pair": "(row.name, row.number)",
    "deep": "(row.name, (row.number, ()))",
    "place": "Place(row.name, row.number)",
    "nothing": "()",
    "None": "None",
}
_VALUE = {"pair": "(row.value, row.more)", "row": "Row(a=row.value, b=row.more)"}
"""Keys and values by the row that they are made of, where they are no single columns."""


@dataclass(frozen=True)
class Arrival:
    """Blocks of rows that arrive together, and the second of the watermark behind them."""

    blocks: tuple[tuple[Row, ...], ...]
    watermark: int


Found = tuple[str, str, str, str, int]
"""Name of the aggregation, key, result, window, and timestamp in milliseconds."""


# Windows.

WINDOWS: tuple[Window, ...] = (
    Window("global"),
    Window("fixed", 5),
    Window("fixed", 7, 3),
    Window("sliding", 12, 3),
    Window("sliding", 6, 2),
    Window("sliding", 7, 3),
    Window("sliding", 2, 5),
    Window("sessions", 2),
    Window("sessions", 3),
    Window("sessions", 1.0005),
    Window("uneven"),
)


@dataclass(frozen=True)
class Aggregations:
    """Combines and groups of rows.

    Attributes:
        arrivals: the rows.
        keys: the kind of their keys, of :data:`KEYS`.
        values: the kind of their values, of :data:`VALUES`.
        window: their windows; a size of sessions is the gap.
        other: the gap of the sessions of every other element; 0 if it is the same.
        combines: names of :data:`COMBINES` and :data:`GROUPS`.
        accumulates: panes have what earlier ones of the window had.
        lateness: in seconds.
        columns: the rows are columns, as long as steps take them.
        typed: the pairs have a type.
        aggregator: of sessions in batch.
        form: that of the columns in Arrow, of :data:`~physical.FORMS`; the plain one with ''.
        small: tables, pages and pieces hold little; with 2, cells and packs too.
        moved: by so many seconds timestamps are moved, possibly out of their windows.
    """

    arrivals: tuple[Arrival, ...]
    keys: str
    values: str
    window: Window
    other: int = 0
    combines: tuple[str, ...] = ("sum",)
    accumulates: bool = False
    lateness: int = 0
    columns: bool = True
    typed: bool = False
    aggregator: str = "auto"
    form: str = ""
    small: int = 0
    moved: int = 0

    @property
    def blocks(self) -> list[tuple[Row, ...]]:
        return [block for arrival in self.arrivals for block in arrival.blocks]

    @property
    def flags(self) -> list[str]:
        """Options of the pipeline in batch."""
        return [f"--session_aggregator={self.aggregator}"]

    @property
    def is_in_time(self) -> bool:
        """Return whether no element is behind the watermark, and a stream has a batch's results.

        Sessions that are grouped again may have fired before the others that they overlap.
        """
        if self.window.kind == "sessions" and {"twice", "lists"} & {*self.combines}:
            return False
        watermark = -1
        for arrival in self.arrivals:
            for block in arrival.blocks:
                first = min(millis for _, millis, _ in block) + 1000 * min(0, self.moved)
                if first < 1000 * watermark:
                    return False
            watermark = arrival.watermark
        return True

    def fewer(self) -> Iterator["Aggregations"]:
        """The same with less."""
        for name in self.combines:
            if len(self.combines) > 1:
                yield replace(self, combines=tuple(sorted({*self.combines} - {name})))
        for at, arrival in enumerate(self.arrivals):
            before, after = self.arrivals[:at], self.arrivals[at + 1 :]
            yield replace(self, arrivals=before + after)
            for number, block in enumerate(arrival.blocks):
                for rows in (block[: len(block) // 2], block[len(block) // 2 :]):
                    blocks = (*arrival.blocks[:number], rows, *arrival.blocks[number + 1 :])
                    less = replace(arrival, blocks=tuple(filter(None, blocks)))
                    yield replace(self, arrivals=(*before, less, *after))

    # As a pipeline.

    def build(self, p: beam.Pipeline, *, streaming: bool, columns: bool | None = None) -> None:
        """Applies it, and has its results put into :data:`~random_pipelines.FOUND`.

        Args:
            p: the pipeline.
            streaming: the blocks arrive one after the other.
            columns: in place of those of the aggregations.
        """
        parts = p | self._stream() if streaming else self._created(p)
        pairs = self._pairs(parts, self.columns if columns is None else columns)
        windowed = self._windowed(pairs)
        if self.moved:
            windowed = windowed | beam.ParDo(Moving(self.moved))
        found = [aggregated(name, windowed) for name in self.combines]
        put(found | beam.Flatten(), "0")

    def _pairs(self, parts: Pairs, columns: bool) -> Pairs:
        if not columns:
            pairs = parts | beam.FlatMap(partial(_stamped, self.blocks))
        else:
            read = partial(_read, self.keys, self.values, self.form, self.blocks)
            source = ReadFromArrow([], read, InColumns, timestamp_column="at")
            rows = (
                parts
                | beam.ParDo(source._batches).with_output_types(pa.RecordBatch)
                | beam.ParDo(source._elements).with_output_types(InColumns)
            )
            key, value = _KEY.get(self.keys, "row.name"), _VALUE.get(self.values, "row.value")
            names = {"Place": Place, "Row": beam.Row}
            pairs = rows | beam.Map(eval(f"lambda row: ({key}, {value})", names))
        if self.typed:
            kinds = KEY_TYPES.get(self.keys, Any), VALUE_TYPES.get(self.values, Any)
            typed = beam.Map(lambda pair: pair).with_output_types(tuple.__class_getitem__(kinds))
            pairs = pairs | "typed" >> typed
        return pairs

    def _stream(self) -> TestStream:
        stream, count, reached = TestStream(coder=VarIntCoder()), 0, -1
        for arrival in self.arrivals:
            numbers = range(count, count := count + len(arrival.blocks))
            stream = stream.add_elements(list(numbers))
            if arrival.watermark > reached:
                stream = stream.advance_watermark_to(reached := arrival.watermark)
        return stream.advance_watermark_to_infinity()

    def _created(self, p: beam.Pipeline) -> Pairs:
        return p | beam.Create(range(len(self.blocks))) | beam.Reshuffle()

    def _windowed(self, pairs: Pairs) -> Pairs:
        accumulating, discarding = AccumulationMode.ACCUMULATING, AccumulationMode.DISCARDING
        more = {
            "trigger": DefaultTrigger(),
            "accumulation_mode": accumulating if self.accumulates else discarding,
            "allowed_lateness": self.lateness,
        }
        if not self.other:
            return pairs | self.window.into(**more)
        # Beam warns of it: the windows of a part are those that it has.
        other = replace(self.window, size=self.other)
        odd = pairs | "odd" >> beam.Filter(is_odd) | "gap" >> other.into(**more)
        even = pairs | "even" >> beam.Filter(lambda pair: not is_odd(pair))
        return (odd, even | "other gap" >> self.window.into(**more)) | "gaps" >> beam.Flatten()

    # What has to come out.

    def expected(self) -> Counter[Found]:
        """The results in batch, by plain Python."""
        elements = []
        for block in self.blocks:
            for key, millis, value in block:
                stamp = Timestamp(micros=1000 * millis)
                window = self.window
                if self.other and is_odd((key, value)):
                    window = replace(window, size=self.other)
                windows = window.fn().assign(WindowFn.AssignContext(stamp))
                if window.ends:
                    windows = [as_coded(each) for each in windows]
                elements += [Element(key, value, each, stamp + self.moved) for each in windows]
        return Counter(each for name in self.combines for each in self._results(name, elements))

    def _results(self, name: str, elements: list[Element]) -> Iterator[Found]:
        if name in ("twice", "again", "lists"):
            groups = self._groups(elements, self.window.combiner)
            if name == "lists":
                elements = [one._replace(key=0) for one in groups]
            else:
                elements = [
                    one._replace(key=plain(one.key)[-1:], value=len(one.value)) for one in groups
                ]
        if name == "again":
            second = FixedWindows(1)
            elements = [
                one._replace(window=second.assign(WindowFn.AssignContext(one.stamp))[0])
                for one in elements
            ]
        if name == "of pairs":
            elements = [one._replace(key=(one.key, one.value)) for one in elements]
        if name == "latest":
            elements = [one._replace(value=(one.value, one.stamp)) for one in elements]
        combiner = "" if name == "again" else self.window.combiner
        groups = self._groups(elements, combiner, merges=name != "again")
        if name == "moved":
            found = elements
        elif name in SINGLY:
            found = [one._replace(value=value) for one in groups for value in one.value]
        else:
            result = result_of(name)
            found = [one._replace(value=result(one.value)) for one in groups]
        for key, value, window, stamp in found:
            yield name, repr(key), plain(value), repr(window), coded_micros(stamp.micros) // 1000

    def _groups(
        self, elements: list[Element], combiner: str, *, merges: bool = True
    ) -> list[Element]:
        """Elements with all values of a key and window."""
        if merges and self.window.kind == "sessions":
            elements = list(in_sessions(elements))
        groups = defaultdict(list)
        for one in elements:
            groups[name_of(one.key), one.window].append(one)
        made = []
        for (_, window), some in groups.items():
            stamps = [one.stamp for one in some]
            stamp = {"earliest": min(stamps), "latest": max(stamps)}.get(
                combiner, window.max_timestamp()
            )
            made.append(Element(some[0].key, [one.value for one in some], window, stamp))
        return made


def in_sessions(elements: list[Element]) -> Iterator[Element]:
    """Elements with the windows of their sessions."""
    by_key = defaultdict(list)
    for one in elements:
        by_key[name_of(one.key)].append(one)
    for some in by_key.values():
        session: list[Element] = []
        for one in sorted(some, key=lambda one: one.window.start):
            if session and one.window.start >= max(each.window.end for each in session):
                yield from of_session(session)
                session = []
            session.append(one)
        yield from of_session(session)


def as_coded(window: Any) -> IntervalWindow:
    """A window as Beam's coder gives it back."""
    start, end = (Timestamp(micros=micros) for micros in coded_span(window))
    return IntervalWindow(start, end)


def of_session(session: list[Element]) -> Iterator[Element]:
    start = min(one.window.start for one in session)
    window = IntervalWindow(start, max(one.window.end for one in session))
    return (one._replace(window=window) for one in session)


# Steps.


class Moving(beam.DoFn):
    """Moves timestamps, and leaves windows."""

    def __init__(self, seconds: int) -> None:
        self._seconds = seconds

    def process(
        self,
        pair: tuple[Any, Any],
        stamp: Any = beam.DoFn.TimestampParam,
        window: Any = beam.DoFn.WindowParam,
    ) -> Iterator[Any]:
        yield WindowedValue(pair, stamp + self._seconds, (window,))


def _stamped(blocks: list[tuple[Row, ...]], number: int) -> Iterator[Any]:
    for key, millis, value in blocks[number]:
        yield TimestampedValue((key, value), Timestamp(micros=1000 * millis))


def _read(
    keys: str, values: str, form: str, blocks: list[tuple[Row, ...]], number: int
) -> Iterator[pa.RecordBatch]:
    of_keys, millis, of_values = zip(*blocks[number], strict=True)
    names, numbers = zip(*(_parts(keys, key) for key in of_keys), strict=True)
    firsts, seconds = zip(*(_parts(values, value) for value in of_values), strict=True)
    columns = dict(zip(InColumns._fields, (names, numbers, firsts, seconds), strict=True))
    found = {name: _in_form(form, list(column)) for name, column in columns.items()}
    at = pa.array([1000 * one for one in millis], pa.int64())
    yield pa.record_batch({**found, "at": at})


def _parts(kind: str, value: Any) -> tuple[Any, Any]:
    match kind:
        case "pair" | "maybe pair" | "place":
            return value[0], value[1]
        case "deep":
            return value[0], value[1][0]
        case "row":
            return value.a, value.b
        case "nothing":
            return 0, 0
    return value.to_utc_datetime(has_tz=True) if kind == "time" else value, 0


def _in_form(form: str, values: list[Any]) -> pa.Array:
    plain = pa.array(values)
    if not form or pa.types.is_null(plain.type):
        return plain
    return FORMS[form](values, plain.type)


# How it runs.


@contextmanager
def by_the_driver() -> Iterator[None]:
    """Lets Beam's trigger driver make the groups of a stream."""
    driven = {GroupStrategy.WINDOWS: TriggerGrouping, GroupStrategy.SESSIONS: SessionGrouping}
    with mock.patch.dict(STREAMING, driven):
        yield


SMALL: dict[str, Any] = {
    "wire.key_packs.CELL_BYTES": 64,
    "wire.key_packs._MUCH": 0,
    "wire.key_packs._BUCKETS": 2,
    "wire.key_packs._WHOLE_BYTES": 100,
    "wire.key_packs._MOST_BYTES": 300,
    "aggregate.session_runs._PIECE": 2,
    "aggregate.session_pieces._PIECE": 2,
    "aggregate.ordered_sessions._PIECE": 2,
    "aggregate.ordered_sessions._MOST": 4,
    "worker.steps.column_tables.MAX_KEYS": 25,
    "worker.steps.column_tables.MAX_BUFFERED": 7,
    "worker.steps.column_tables.MAX_BYTES": 2000,
    "worker.steps.column_tables._MOST_WAITING": 20,
    "worker.steps.combines.MAX_KEYS": 25,
    "worker.steps.combines.MAX_BUFFERED": 7,
    "worker.steps.combine_columns._OBJECTS": 2,
    "worker.steps.element_tables._AT_ONCE": 3,
    "worker.row_formats.key_table.TABLE_BYTES": 3000,
    "worker.row_formats.key_table._KEYS_PER_PART": 2,
    "worker.row_formats.element_rows.CELL_BYTES": 1,
    "worker.row_formats.element_rows._FEWEST_ROWS": 2,
    "worker.row_formats.group_packs._LARGE": 60,
    "worker.row_formats.group_packs._MOST_WAITING": 2000,
    "worker.row_formats.group_pack_reader.LIST_BYTES": 120,
    "worker.grouping.session_store.COLUMN_ROWS": 5,
    "worker.grouping.session_store._MOST_OF_KEY": 3,
    "worker.grouping.session_state._MOST_HELD": 30,
    "worker.grouping.session_state._BUCKET_BYTES": 150,
    "worker.grouping.stripe_store.COLUMN_ROWS": 5,
    "worker.state.ordered_bag.SMALL_BYTES": 60,
    "worker.state.page.PAGE_BYTES": 300,
}
"""Limits of sizes that few values reach."""


@contextmanager
def limits(small: int) -> Iterator[None]:
    """Lets tables, packs, pages and pieces hold little; see :class:`Aggregations`."""
    with ExitStack() as patches:
        if small:
            patches.enter_context(mock.patch.object(ShardState.__init__, "__defaults__", (3000,)))
            for name, value in SMALL.items():
                if small > 1 or name != "wire.key_packs.CELL_BYTES":
                    patches.enter_context(mock.patch(f"sparkbeam.{name}", value))
        yield


# At random.


def aggregations(
    chance: random.Random, keys: str = "", values: str = "", form: str = ""
) -> Aggregations:
    """Aggregations made at random.

    Args:
        chance: what is not given.
        keys: their kind, with all groups.
        values: their kind, with all combines.
        form: that of the columns.
    """
    is_given = bool(keys or values or form)
    columns = not OBJECTS & {keys, values} and (is_given or chance.random() < 0.7)
    of_keys, of_values = (
        [kind for kind in kinds if kind not in TIMES and not (columns and kind in OBJECTS)]
        for kinds in (list(KEYS), [*VALUES, "int", "large"])
    )
    windows = [window for window in WINDOWS if not values or window.kind != "sessions"]
    window = chance.choice(windows)
    if not values:  # Few combines over columns keep the timestamps of elements.
        window = replace(window, combiner=chance.choice(["", "earliest", "latest"]))
    # Only of one block it is known in which order its values are added up.
    in_order = window.kind != "sessions" and (bool(values) or chance.random() < 0.3)
    all_combines, all_groups = bool(values), bool(keys)
    keys, values = keys or chance.choice(of_keys), values or chance.choice(of_values)
    in_order = in_order and values != "several"
    able = [
        name
        for name, (_, kinds) in COMBINES.items()
        if values in kinds and (in_order or not _needs_order(name, values))
    ]
    adding = [name for name in able if name in ("sum", "mean", "several", "of parts")]
    grouping = [name for name, kinds in GROUPS.items() if values in kinds]
    names = {
        *chance.sample(able, len(able) if all_combines else 2),
        *chance.sample(adding, bool(adding)),
        *chance.sample(grouping, len(grouping) if all_groups else 2),
    }
    arrivals = _arrivals(chance, keys, values)
    if in_order:
        arrivals = (Arrival((_block(chance, keys, values, 0, 20_000, 60),), 0),)
    return Aggregations(
        arrivals=arrivals,
        keys=keys,
        values=values,
        window=window,
        other=5 if window.kind == "sessions" and chance.random() < 0.2 else 0,
        combines=tuple(sorted(names)),
        accumulates=chance.random() < 0.4,
        lateness=chance.choice([0, 7, 7, 20]),
        columns=columns,
        typed=chance.random() < 0.5,
        aggregator=chance.choice(["auto", "auto", "canonical", "ordered", "columnar"]),
        form=form or (chance.choice(["", *FORMS]) if columns else ""),
        small=0 if in_order else chance.choice([0, 0, 1, 2, 2]),
        moved=0 if columns or in_order else chance.choice([0, 0, -4, 6]),
    )


def _needs_order(name: str, values: str) -> bool:
    return name == "latest" or (values in ORDERED and name not in ("count", "list", "all", "any"))


def _arrivals(chance: random.Random, keys: str, values: str) -> tuple[Arrival, ...]:
    arrivals, watermark, late = [], 0, chance.random() < 0.75
    for _ in range(chance.randrange(2, 9)):
        first = max(0, watermark - chance.choice([5, 15])) if late else watermark
        span = chance.choice([0, 2, 10, 10, 60])
        blocks = tuple(
            _block(
                chance,
                keys,
                values,
                1000 * first,
                1000 * (first + span),
                chance.choice([1, 3, 10, 60]),
            )
            for _ in range(chance.choice([1, 1, 2, 3]))
        )
        watermark += chance.choice([0, 1, 4, 5, 5, 10, 30])
        arrivals.append(Arrival(blocks, watermark))
    return tuple(arrivals)


def _block(
    chance: random.Random, keys: str, values: str, first: int, last: int, count: int
) -> tuple[Row, ...]:
    step = chance.choice([1, 500, 1000])
    some = VALUES[values]
    if values == "several":
        kind = type(chance.choice(some))
        some = tuple(value for value in some if type(value) is kind)
    return tuple(
        (chance.choice(KEYS[keys]), chance.randrange(first, last + 1, step), chance.choice(some))
        for _ in range(count)
    )
