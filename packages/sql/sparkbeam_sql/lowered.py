"""Steps of queries as Beam's transforms: they keep windows, triggers and lateness."""

import functools
import inspect
import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from decimal import Decimal
from typing import Any, Optional

import apache_beam as beam
import numpy as np
from apache_beam import coders, typehints
from apache_beam.pipeline import Pipeline
from apache_beam.pvalue import AsMultiMap, AsSingleton, PCollection
from apache_beam.transforms.trigger import DefaultTrigger
from apache_beam.transforms.window import (
    FixedWindows,
    GlobalWindows,
    Sessions,
    SlidingWindows,
    TimestampedValue,
    WindowFn,
)
from apache_beam.typehints.row_type import RowTypeConstraint
from apache_beam.typehints.schemas import named_tuple_from_schema
from apache_beam.utils.timestamp import Duration, Timestamp

from sparkbeam.errors import ConfigurationError
from sparkbeam.joins.equijoin import Join
from sparkbeam.joins.incremental import IncrementalJoin
from sparkbeam.plan.same_windows import in_same_windows
from sparkbeam_sql import functions as sql_functions
from sparkbeam_sql.calcite_nesting import divided
from sparkbeam_sql.calcite_steps import as_micros, of_micros
from sparkbeam_sql.calcite_values import REAL, Value, present
from sparkbeam_sql.combines import (
    SPREADS,
    Best,
    CountDistinct,
    First,
    Present,
    SumDistinct,
)
from sparkbeam_sql.keys import hashable, normal, ordered
from sparkbeam_sql.rows import is_whole
from sparkbeam_sql.steps import (
    Aggregate,
    Assigned,
    Constants,
    JoinSteps,
    Project,
    Scan,
    Step,
    Top,
    Union,
    Unnest,
    Windows,
    columns_of,
    is_single,
)
from sparkbeam_sql.user_functions import SqlFunction


class Lowered:
    """Application of the steps of a query.

    Args:
        dead_letters: rows on which an expression fails do not fail the pipeline.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        tables: Mapping[str, PCollection[Any]],
        functions: Mapping[str, SqlFunction] | None = None,
        *,
        dead_letters: bool = False,
    ) -> None:
        self._pipeline = pipeline
        self._handles_errors = dead_letters
        self._failed: list[PCollection[Any]] = []
        self._tables = tables
        self._functions = {name: each.function for name, each in (functions or {}).items()}
        self._labels = 0
        self._made: dict[Step, PCollection[Any]] = {}

    def failed(self) -> PCollection[Any]:
        """Return the rows that failed, as Beam's ``with_exception_handling`` has them."""
        if not self._failed:
            return self._pipeline | self._label("Failed") >> beam.Create([])
        parts = self._failed
        if any(part.windowing != parts[0].windowing for part in parts):
            into = beam.WindowInto(GlobalWindows())
            parts = [part | self._label("Of all windows") >> into for part in parts]
        return parts | self._label("Failed") >> beam.Flatten()

    def _each(self, rows: PCollection[Any], name: str, step: Any, kind: Any) -> PCollection[Any]:
        """Apply a step that calls expressions for each row."""
        if not self._handles_errors:
            return rows | self._label(name) >> step.with_output_types(kind)
        found, failed = rows | self._label(name) >> step.with_exception_handling()
        found.element_type = kind
        self._failed.append(failed)
        return found

    def _label(self, name: str) -> str:
        self._labels += 1
        return f"{name} {self._labels}"

    def _rows(self, step: Step) -> PCollection[Any]:
        if step not in self._made:
            self._made[step] = self._new_rows(step)
        return self._made[step]

    def _new_rows(self, step: Step) -> PCollection[Any]:
        match step:
            case Scan():
                return self._tables[step.table]
            case Constants():
                return self._constants(step)
            case Project():
                return self.result(step)
            case Aggregate():
                return self._aggregate(step)
            case Assigned():
                return self._assigned(step)
            case JoinSteps():
                return self._join(step)
            case Unnest():
                return self._unnest(step)
            case Top():
                return self._top(step)
            case Union():
                return self._union([self._rows(part) for part in step.steps])

    def _constants(self, step: Constants) -> PCollection[Any]:
        kind = _row_type(step.values)
        rows = (f"made({', '.join(value.source for value in row)})" for row in step.rows)
        made = self._function(f"[{', '.join(rows)}]", made=_class_of(kind))
        once = self._pipeline | self._label("Once") >> beam.Create([0])
        return once | self._label("Values") >> beam.FlatMap(made).with_output_types(kind)

    def result(self, step: Project, names: Sequence[str] = ()) -> PCollection[Any]:
        """Return the rows of a query, whose columns have these names, or else those of a step."""
        rows = self._rows(step.step)
        if step.condition is not None:
            holds = beam.Filter(self._function(step.condition))
            rows = self._each(rows, "Where", holds, rows.element_type)
        kind = _row_type(step.values, names)
        source = f"made({', '.join(value.source for value in step.values)})"
        made = self._function(source, made=_class_of(kind))
        return self._each(rows, "Select", beam.Map(made), kind)

    def _aggregate(self, step: Aggregate) -> PCollection[Any]:
        rows = self._rows(step.step)
        if step.windows is not None:
            rows = self._windowed(rows, step.windows)
        _check_ends(rows, "Groups, aggregates and DISTINCT")
        keys = {f"k{at}": f"c{at}" for at in range(step.keys)}
        grouping: Any = beam.GroupBy(**keys)
        for at, name in enumerate(step.functions):
            combine = self._combine(name, nullable=step.nullable[at])
            grouping = grouping.aggregate_field(f"c{step.keys + at}", combine, f"a{at}")
        found: PCollection[Any] = rows | self._label("Group by") >> grouping
        if not step.bounds:
            return found
        names = (*keys, *(f"a{at}" for at in range(len(step.functions))))
        return found | self._label("Bounds") >> beam.Map(_with_bounds(names)).with_output_types(
            RowTypeConstraint.from_fields(
                [*((name, Any) for name in names), ("start", Timestamp), ("end", Timestamp)]
            )
        )

    def _windowed(self, rows: PCollection[Any], windows: Windows) -> PCollection[Any]:
        stamp = self._function(f"stamped(row, {windows.time.source})", stamped=TimestampedValue)
        before = rows.windowing
        given: dict[str, Any] = {}
        if not isinstance(before.triggerfn, DefaultTrigger):
            given["trigger"] = before.triggerfn
            given["accumulation_mode"] = before.accumulation_mode
        into = beam.WindowInto(
            _window_fn(windows), allowed_lateness=before.allowed_lateness, **given
        )
        stamped = self._each(rows, "Time", beam.Map(stamp), rows.element_type)
        return stamped | self._label("Windows") >> into

    def _assigned(self, step: Assigned) -> PCollection[Any]:
        rows = self._windowed(self._rows(step.step), step.windows)
        kind = _row_type((*step.step.values, *[Value("", Timestamp)] * 2))
        made = self._function(
            "made(*row, window.start, window.end)",
            "row, window=asked",
            made=_class_of(kind),
            asked=beam.DoFn.WindowParam,
        )
        return rows | self._label("Bounds") >> beam.Map(made).with_output_types(kind)

    def _join(self, step: JoinSteps) -> PCollection[Any]:
        left, right = self._rows(step.left), self._rows(step.right)
        kind = _key_type(step.left_keys, step.right_keys)
        keys = self._key(step.left_keys, 1, kind), self._key(step.right_keys, 2, kind)
        if self._handles_errors:
            left, right = self._with_keys(left, keys[0]), self._with_keys(right, keys[1])
        values = (*step.left.values, *step.right.values)
        row = _row_type([replace(value, nullable=True) for value in values])
        is_once = step.how == "inner" and _fire_once_in_same_windows(left, right)
        if is_once:
            if is_single(step.right):
                return self._beside(step, left, right, row)
            if is_single(step.left):
                other = JoinSteps(step.right, step.left, step.how, step.right_keys, step.left_keys)
                return self._beside(other, right, left, row, turned=True)
        pair = _pair(step, row)
        if _is_table(right, left) and step.how in ("inner", "left"):
            return self._lookup_join(left, right, keys, pair, step.how)
        if _is_table(left, right) and step.how in ("inner", "right"):
            turned = typehints.with_output_types(row)(lambda key, row, other: pair(key, other, row))
            how = "left" if step.how == "right" else "inner"
            return self._lookup_join(right, left, (keys[1], keys[0]), turned, how)
        if step.how == "inner" and not right.is_bounded and is_whole(left) and is_whole(right):
            return self._incremental(left, right, keys, pair)
        for side in (left, right):
            _check_ends(side, "An outer JOIN" if step.how != "inner" else "JOIN")
        sides = {"left": left, "right": right}
        if is_once and not is_whole(left) and _have_plain_keys(step):
            keyed = dict(zip(sides, map(self._keyed, (left, right), keys), strict=True))
            pairs = beam.FlatMapTuple(_pairs(pair)).with_output_types(row)
            return keyed | self._label("Join") >> beam.CoGroupByKey() | self._label("Pair") >> pairs
        join = Join(on=dict(zip(sides, keys, strict=True)), how=step.how, result=pair)
        joined: PCollection[Any] = sides | self._label("Join") >> join
        return joined

    def _with_keys(self, rows: PCollection[Any], key: Callable[[Any], Any]) -> PCollection[Any]:
        """Return the rows of a join whose key does not fail."""
        has_key = beam.Filter(lambda row: key(row) is not None)
        return self._each(rows, "Keys that fail", has_key, rows.element_type)

    def _beside(
        self,
        step: JoinSteps,
        left: PCollection[Any],
        right: PCollection[Any],
        row: RowTypeConstraint,
        *,
        turned: bool = False,
    ) -> PCollection[Any]:
        """Join rows to the only one of the right side in their window, which is a side input."""
        columns = columns_of(step.right)
        parts = (*step.right_keys, *map(as_micros, columns))
        kind = typehints.Tuple[tuple(map(_type_of, parts))]
        packed = self._function(f"({', '.join(part.source for part in parts)},)")
        only = right | self._label("Only row") >> beam.Map(packed).with_output_types(kind)
        other = AsSingleton(only, None)
        conditions = ["other is not None"]
        for at, key in enumerate(step.left_keys):
            nulls, (value,) = present(key)
            conditions += [*nulls, f"{value} == other[{at}]"]
        holds = self._function(" and ".join(conditions), "row, other")
        found = left | self._label("Join") >> beam.Filter(holds, other)
        own = [f"row.c{at}" for at in range(len(step.left.values))]
        theirs = [
            of_micros(value, f"other[{len(step.right_keys) + at}]").source
            for at, value in enumerate(columns)
        ]
        fields = [*theirs, *own] if turned else [*own, *theirs]
        pair = self._function(f"made({', '.join(fields)})", "row, other", made=_class_of(row))
        return found | self._label("Pair") >> beam.Map(pair, other).with_output_types(row)

    def _unnest(self, step: Unnest) -> PCollection[Any]:
        rows = self._rows(step.step)
        kind = _row_type((*step.step.values, step.element))
        none = (None,) if step.outer else ()
        made = self._function(
            f"[made(*row, element) for element in ({step.array.source} or {none})]",
            made=_class_of(kind),
        )
        return self._each(rows, "Unnest", beam.FlatMap(made), kind)

    def _top(self, step: Top) -> PCollection[Any]:
        rows = self._rows(step.step)
        _check_ends(rows, "LIMIT")
        kind: Any = rows.element_type
        first = First(step.orders, step.count, step.skipped, coders.registry.get_coder(kind))
        combine = beam.CombineGlobally(first).without_defaults()
        lists = rows | self._label("First rows") >> combine.with_output_types(typehints.List[kind])
        each = beam.FlatMap(lambda found: found).with_output_types(kind)
        found: PCollection[Any] = lists | self._label("Rows") >> each
        return found

    def _union(self, parts: list[PCollection[Any]]) -> PCollection[Any]:
        windows = [part.windowing.windowfn for part in parts]
        if any(each != windows[0] for each in windows):
            raise ConfigurationError(
                "The parts of UNION are in different windows. Apply the same beam.WindowInto(…) "
                "to all of them. Rows of VALUES, and of a query without FROM, are in the global "
                "window."
            )
        return parts | self._label("Union") >> beam.Flatten()

    def _incremental(
        self,
        left: PCollection[Any],
        right: PCollection[Any],
        keys: tuple[Callable[[Any], Any], Callable[[Any], Any]],
        pair: Callable[[Any, Any, Any], Any],
    ) -> PCollection[Any]:
        """Join two streams in the global window, whose rows wait for each other for ever."""
        sides = tuple(map(self._keyed, (left, right), keys))
        joined = sides | self._label("Join") >> IncrementalJoin(ttl=None)
        return joined | self._label("Pair") >> beam.MapTuple(
            lambda key, rows: pair(key, *rows)
        ).with_output_types(_returned(pair))

    def _keyed(self, rows: PCollection[Any], key: Callable[[Any], Any]) -> PCollection[Any]:
        kind: Any = typehints.Tuple[_returned(key), rows.element_type]
        keyed = beam.Map(lambda row: (key(row), row)).with_output_types(kind)
        return rows | self._label("Keys") >> keyed

    def _function(self, source: str, parameters: str = "row", **named: Any) -> Callable[..., Any]:
        return function(source, parameters, **self._functions, **named)

    def _key(self, values: tuple[Value, ...], side: int, kind: Any) -> Callable[[Any], Any]:
        """Return the function of the key of a row; null and NaN are equal to nothing."""
        sources = [value.source for value in values]
        nulls = [f"{value.source} is None" for value in values if value.nullable]
        nulls += [f"{value.source} != {value.source}" for value in values if value.kind in REAL]
        mark = f"({side} if {' or '.join(nulls)} else 0)" if nulls else "0"
        made = self._function(f"({mark}, {', '.join(sources)})")
        return typehints.with_output_types(kind)(made)

    def _combine(self, name: str, *, nullable: bool) -> Any:
        if name in _COMBINES:
            return _COMBINES[name]
        if name in self._functions:
            combine = self._functions[name]
            return Present(combine) if nullable else combine
        plain: Any = _AGGREGATES[name]
        return Best(plain) if nullable and name in ("min", "max") else plain

    def _lookup_join(
        self,
        left: PCollection[Any],
        right: PCollection[Any],
        keys: tuple[Callable[[Any], Any], Callable[[Any], Any]],
        pair: Callable[[Any, Any, Any], Any],
        how: str,
    ) -> PCollection[Any]:
        """Join an unbounded side to a bounded one, which is a side input."""
        of_left, of_right = keys
        pairs = self._keyed(right, of_right)

        def joined(row: Any, table: Any) -> Iterator[Any]:
            key = of_left(row)
            found = list(table[key])
            for other in found or ([None] if how == "left" else []):
                yield pair(key, row, other)

        look_up = beam.FlatMap(joined, AsMultiMap(pairs)).with_output_types(_returned(pair))
        return left | self._label("Look up") >> look_up


_COMBINES: Mapping[str, beam.CombineFn] = {
    **SPREADS,
    "distinct": CountDistinct(),
    "distinct_sum": SumDistinct(),
    "any": Best(operator.itemgetter(0)),
    "least": Best(functools.partial(min, key=ordered)),
    "greatest": Best(functools.partial(max, key=ordered)),
}
_AGGREGATES = {"sum": sum, "decimals": sql_functions.decimal_total, "min": min, "max": max}

_NAMES = {
    "__name__": __name__,  # Else cloudpickle searches all modules for each of these functions.
    "Decimal": Decimal,
    "date": date,
    "inf": math.inf,
    "nan": math.nan,
    "Timestamp": Timestamp,
    "hashable": hashable,
    "normal": normal,
    "ordered": ordered,
    **{name: each for name, each in vars(sql_functions).items() if inspect.isfunction(each)},
}
"""Names in the expressions of :class:`Value`."""


def function(source: str, parameters: str = "row", **named: Any) -> Callable[..., Any]:
    """Return the function of a row that an expression of :class:`Value` is.

    Args:
        source: its text, which is made of a parsed query.
    """
    names = {**_NAMES, **named}
    own = [parameter.partition("=")[0].strip() for parameter in parameters.split(",")]
    whole, parts = divided(source, own)
    for name, (arguments, text) in parts.items():
        names[name] = eval(f"lambda {', '.join(arguments)}: {text}", names)
    made: Callable[..., Any] = eval(f"lambda {parameters}: {whole}", names)
    return made


def _row_type(values: Sequence[Value], names: Sequence[str] = ()) -> RowTypeConstraint:
    """Return the type of rows of some values, whose columns are ``c0``, … if they have no names."""
    names = names or [f"c{at}" for at in range(len(values))]
    return RowTypeConstraint.from_fields(list(zip(names, map(_type_of, values), strict=True)))


def _type_of(value: Value) -> Any:
    # Beam's coder of int8 has no negative numbers.
    kind = np.int16 if value.kind is np.int8 else value.kind
    return Optional[kind] if value.nullable else kind  # noqa: UP045


def _class_of(kind: RowTypeConstraint) -> Any:
    coder: Any = coders.registry.get_coder(kind)
    return named_tuple_from_schema(coder.schema)


def _with_bounds(names: Iterable[str]) -> Callable[..., Any]:
    """Return the function of a row and its window that adds the bounds to some of the fields."""
    fields = (f"{name}=row.{name}" for name in names)
    return function(
        f"Row({', '.join(fields)}, start=window.start, end=window.end)",
        "row, window=asked",
        Row=beam.Row,
        asked=beam.DoFn.WindowParam,
    )


def _fire_once_in_same_windows(left: PCollection[Any], right: PCollection[Any]) -> bool:
    """Return whether windows of both sides are the same, and have all of their rows at once."""
    return (
        all(
            each.is_bounded and isinstance(each.windowing.triggerfn, DefaultTrigger)
            for each in (left, right)
        )
        and not left.windowing.windowfn.is_merging()
        and in_same_windows(left, right)
    )


def _have_plain_keys(step: JoinSteps) -> bool:
    """Return whether the keys of a join are never null, and can be grouped as columns."""
    keys = (*step.left_keys, *step.right_keys)
    return all(key.kind in (int, bool, str, bytes) and not key.nullable for key in keys)


def _pairs(pair: Callable[[Any, Any, Any], Any]) -> Callable[[Any, Any], Iterator[Any]]:
    def pairs(key: Any, group: Any) -> Iterator[Any]:
        for one in group["left"]:
            for other in group["right"]:
                yield pair(key, one, other)

    return pairs


def _check_ends(rows: PCollection[Any], clause: str) -> None:
    """Check that rows are grouped some time.

    Raises:
        ConfigurationError: they are a stream in the global window, which never ends.
    """
    if not rows.is_bounded and is_whole(rows):
        raise ConfigurationError(
            f"{clause} of a stream in the global window would wait forever. Set windows or a "
            "trigger for the input with beam.WindowInto(…), or use GROUP BY TUMBLE(…)."
        )


def _is_table(table: PCollection[Any], rows: PCollection[Any]) -> bool:
    """Return whether the rows of a join look up a side in the global window, which is bounded."""
    is_other = is_whole(table) and not is_whole(rows)
    return table.is_bounded and (is_other or not rows.is_bounded)


def _key_type(left: tuple[Value, ...], right: tuple[Value, ...]) -> Any:
    parts = [
        Optional[one.kind] if one.nullable or other.nullable else one.kind  # noqa: UP045
        for one, other in zip(left, right, strict=True)
    ]
    return typehints.Tuple[(int, *parts)]


def _returned(function: Callable[..., Any]) -> Any:
    return typehints.decorators.get_type_hints(function).simple_output_type("key")


def _pair(step: JoinSteps, row: RowTypeConstraint) -> Callable[[Any, Any, Any], Any]:
    """Return the function of a key and a row of each side that makes the joined row."""
    absent = {"one": ("right", "outer"), "other": ("left", "outer")}
    fields = (
        f"(None if {name} is None else {name}[{at}])" if step.how in hows else f"{name}[{at}]"
        for side, (name, hows) in zip((step.left, step.right), absent.items(), strict=True)
        for at in range(len(side.values))
    )
    made = function(f"made({', '.join(fields)})", "key, one, other", made=_class_of(row))
    return typehints.with_output_types(row)(made)


def _window_fn(windows: Windows) -> WindowFn:
    size = Duration(micros=windows.size)
    if windows.function == "HOP":
        return SlidingWindows(size, Duration(micros=windows.period))
    return Sessions(size) if windows.function == "SESSION" else FixedWindows(size)
