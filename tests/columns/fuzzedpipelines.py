"""Trials of the fuzzer of whole pipelines: with columns, without, and on Beam's own runner."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from operator import itemgetter
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.pvalue import Row
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.transforms import combiners
from apache_beam.transforms.window import (
    FixedWindows,
    GlobalWindows,
    Sessions,
    SlidingWindows,
    TimestampCombiner,
    TimestampedValue,
)
from fuzzing import Figures, shortened
from in_process import StreamingRunner
from in_process_batch import BatchRunner
from in_python import ELEMENT, Element, _written, column
from noting import found as noted
from noting import note
from oddvalues import OTHERS, Mixed, elements_of, others, values_for
from physical import FORMS
from writing import SPACE, Writer, a_function, made

from sparkbeam import Join, SparkRunner
from sparkbeam.columns import ResultKind, shape_of
from sparkbeam.columns.python_types import shape_in_arrow
from sparkbeam.columns.python_values import values_of
from sparkbeam.io import ReadFromArrow
from sparkbeam.worker.steps.column_functions import ColumnFunction

_MICROS = 1_000_000
_TASKS = 2
_ATTEMPTS = 8
_PLAIN = re.compile(rf"\bx\.({'|'.join(Element._fields)}|o)\b")
_NESTED = re.compile(r"(\['(?:inner|row)'\])\.(\w)\b")
_ROW = ", ".join(f"{name}=x.{name}" for name in Element._fields[2:])

_batches: dict[int, list[pa.RecordBatch]] = {}
"""What each split of a source reads."""


@beam.ptransform_fn
def Both(pairs: Any, *combines: beam.PTransform) -> Any:
    """Several combines of the same pairs."""
    return [pairs | f"combine {at}" >> one for at, one in enumerate(combines)] | beam.Flatten()


class WithDict(beam.PTransform):
    """A step with a dict beside the elements.

    Args:
        function: of an element and the dict.
        pairs: what is in that.
    """

    def __init__(self, function: Any, pairs: list[tuple[Any, Any]]) -> None:
        super().__init__()
        self._function = function
        self._pairs = pairs

    def expand(self, pcoll: Any) -> Any:
        pairs = pcoll.pipeline | f"{self.label} pairs" >> beam.Create(self._pairs)
        return pcoll | beam.Map(self._function, beam.pvalue.AsDict(pairs))


@beam.ptransform_fn
def Twice(pcoll: Any) -> Any:
    """A Flatten of a PCollection with itself."""
    return (pcoll, pcoll | beam.Reshuffle()) | beam.Flatten()


@beam.ptransform_fn
def Sizes(pairs: Any) -> Any:
    """Values of two PCollections by key."""
    other = pairs | "other" >> beam.Map(lambda pair: (pair[0], 1))
    return {"values": pairs, "ones": other} | beam.CoGroupByKey()


@beam.ptransform_fn
def Joined(pairs: Any, how: str) -> Any:
    """Pairs, each joined with the number of those of its key."""
    counts = pairs | "counts" >> beam.combiners.Count.PerKey()
    few = counts | "few" >> beam.Filter(lambda pair: pair[1] % 3 < 2)
    return (pairs, few) | Join(itemgetter(0), how=how)


def dofn_of(source: str) -> Any:
    """A DoFn with the process method of a source."""
    text = source.replace("def function(x)", "def process(self, x)").replace("\n", "\n    ")
    return made(f"import apache_beam as beam\nclass function(beam.DoFn):\n    {text}")()


_SPACE: dict[str, Any] = {
    **SPACE,
    **{one.__name__: one for one in (FixedWindows, GlobalWindows, Sessions, SlidingWindows)},
    **{one.__name__: one for one in (TimestampCombiner, Both, WithDict, Twice, Sizes, Joined)},
    **{"beam": beam, "combiners": combiners, "function_of": made, "dofn_of": dofn_of},
}

_OF_NUMBERS = (
    *("sum", "min", "max", "combiners.MeanCombineFn()", "combiners.CountCombineFn()", "any"),
    *("all", "combiners.Largest(1)", "combiners.Smallest(1)", "combiners.ToListCombineFn()"),
    "combiners.SingleInputTupleCombineFn(sum, max, combiners.MeanCombineFn())",
    "combiners.SingleInputTupleCombineFn(min, combiners.CountCombineFn(), any)",
)
_OF_TEXTS = (
    *("min", "max", "any", "all", "combiners.CountCombineFn()", "combiners.Largest(1)"),
    *("combiners.ToListCombineFn()", "combiners.SingleInputTupleCombineFn(min, max)"),
)
_OF_TUPLES = ("combiners.TupleCombineFn(sum, max)", "combiners.TupleCombineFn(max, min)")
_WINDOWS = (
    *("FixedWindows(10)", "FixedWindows(7, 3)", "SlidingWindows(20, 5)", "SlidingWindows(10, 4)"),
    *("SlidingWindows(7, 10)", "Sessions(2)", "Sessions(0.5)", "GlobalWindows()"),
)
_HOWS = ("inner", "left", "right", "outer", "semi", "anti")
_COMBINERS = ("EOW", "EARLIEST", "LATEST")


class PipelineWriter:
    """Writes the steps of a pipeline.

    Args:
        random: chooses.
        kind: what the elements are: a NamedTuple, a Row or a dict.
        elements: some of them; few functions are to fail over these.
        other: they have a further field, of any type.
        in_any_order: no result depends on the order of the elements, as that of floats with NaN
            would.
        streaming: they come in another order than in the list.
    """

    def __init__(
        self,
        random: Random,
        kind: str,
        elements: list[Any],
        *,
        other: bool,
        in_any_order: bool,
        streaming: bool,
    ) -> None:
        self._other = other
        self._streaming = streaming
        self._in_any_order = in_any_order
        self._random = random
        self._kind = kind
        self._elements = elements
        self._writer = Writer(random.randint)

    def steps(self) -> list[str]:
        """The steps, each as the text of a transform."""
        some = [self._tried(self._on) for _ in range(self._random.randint(0, 3))]
        is_moved = self._in_any_order and self._random.random() < 0.3
        if is_moved:
            some.append(self._random.choice(["beam.Reshuffle()", "Twice()"]))
        if self._random.random() < 0.4:
            return [*some, self._tried(self._result)]
        return [*some, *self._combined(is_moved=is_moved)]

    def _tried(self, write: Callable[[], str]) -> str:
        """A step that does not fail, if one is found soon."""
        text = write()
        for _ in range(_ATTEMPTS):
            try:
                self._elements = passed(text, self._elements)
            except Exception:
                text = write()
            else:
                break
        return text

    def _result(self) -> str:
        result = self._writer.result(2)
        if self._other and self._random.random() < 0.7:
            result = f"({self._of_other()}, {result})"
        if self._random.random() < 0.2:
            key, default = self._writer.expression("str", 1), self._writer.expression("int", 0)
            got = self._random.choice([f"d.get({key}, {default})", f"{key} in d", f"d.get({key})"])
            text = self._fitting(f"def function(x, d):\n    return ({got}, {result})")
            return f"WithDict(function_of({text!r}), [('a', 1), ('', 2**40), ('\u0130', -7)])"
        return self._function("Map", f"return {result}")

    def _of_other(self) -> str:
        texts = ["x.o", "x.o", "x.o is None", "x.o if x.p else None", "(x.o, x.a)"]
        return self._random.choice(texts)

    def _on(self) -> str:
        """A step whose elements are of the same kind."""
        one = self._random.randrange(6)
        condition, depth = self._writer.expression("bool", 2), self._random.randint(0, 2)
        changed = self._changed(depth)
        if one < 2:
            return self._function("Filter", f"return {condition}")
        if one == 2:
            return self._function("FlatMap", f"if {condition}:\n        yield {changed}")
        if one == 3:
            body = f"if {condition}:\n        yield x\n    yield {changed}"
            return self._function("ParDo", body)
        if one == 4:
            source, form = a_function(self._random.randint)
            if form is ResultKind.FILTER:
                return self._text("Filter", source)
        return self._function("Map", f"return {changed}")

    def _changed(self, depth: int) -> str:
        number, text = self._writer.expression("int", depth), self._writer.expression("str", depth)
        if self._kind == "Row":
            rest = _ROW.replace("s=x.s", f"s={text}")
            return f"Row(a={number}, b=x.a, {rest}{', o=x.o' if self._other else ''})"
        if self._kind == "dict":
            return f"{{**x, 'a': {number}, 's': {text}}}"
        return f"x._replace(a={number}, s={text})"

    def _combined(self, *, is_moved: bool) -> list[str]:
        # Of elements with the same timestamp the latest is the one that comes last.
        latest = [] if is_moved else ["combiners.Latest.PerKey()"]
        choose, is_windowed = self._random.choice, self._random.random() < 0.7
        # In windows elements come in the order of their times: NaN and -0.0 tell it.
        is_ordered = not (self._streaming or is_windowed)
        floats = ["float", "tuple"] if self._in_any_order or is_ordered else []
        kind = choose(["int", "int", "str", "bytes", "bool", *floats])
        fns = {"tuple": _OF_TUPLES, "str": _OF_TEXTS, "bytes": _OF_TEXTS}.get(kind, _OF_NUMBERS)
        transform = choose(
            [
                *("beam.CombinePerKey({})", "beam.CombinePerKey({})", "beam.GroupByKey()"),
                "Both(beam.CombinePerKey({}), beam.CombinePerKey({}))",
                *("beam.CombineGlobally({}).without_defaults()", *latest),
                *("Sizes()", f"Joined({choose(_HOWS)!r})"),
            ]
        )
        if "Globally" in transform:
            keyed = self._tried(lambda: self._function("Map", f"return {self._value(kind)}"))
        else:
            keyed = self._tried(lambda: self._pair(kind))
        while "{}" in transform:
            transform = transform.replace("{}", choose(fns), 1)
        steps = [keyed, transform]
        if is_windowed:
            at = choose(_COMBINERS)
            more = f", timestamp_combiner=TimestampCombiner.OUTPUT_AT_{at}"
            steps.insert(1, f"beam.WindowInto({choose(_WINDOWS)}{more})")
        if self._random.random() < 0.3 and "Globally" not in transform:
            steps.append(self._function("Map", "return (x[1], x[0])"))
        return steps

    def _pair(self, kind: str) -> str:
        return self._function("Map", f"return ({self._key()}, {self._value(kind)})")

    def _value(self, kind: str) -> str:
        if kind == "tuple":
            return "(x.a, x.f)"
        if self._other and self._random.random() < 0.3:
            return "x.o"
        leaves = {"int": "x.a", "float": "x.f", "str": "x.s", "bytes": "x.y", "bool": "x.p"}
        return leaves[kind] if self._random.random() < 0.6 else self._writer.expression(kind, 1)

    def _key(self) -> str:
        keys = ["x.s", "x.t", "x.a", "x.b % 3", "x.f", "x.p", "x.y", "None", "(x.s, x.p)", "()"]
        more = ["x.s.lower()", "x.t.upper()", "(x.b, (x.f, x.q))", "x.inner.s", "x.s[:1]"]
        others = ["x.o", "(x.o, x.s)"] if self._other else []
        return self._random.choice([*keys, *more, *others, self._writer.expression("str", 1)])

    def _function(self, step: str, body: str) -> str:
        return self._text(step, f"def function(x):\n    {body}")

    def _text(self, step: str, source: str) -> str:
        source = self._fitting(source)
        kind = "dofn_of" if step == "ParDo" else "function_of"
        return f"beam.{step}({kind}({source!r}))"

    def _fitting(self, source: str) -> str:
        """The source for elements of this kind."""
        for text, other in (("x.item.get('z', 'a')", "x.t"), ("x.item.get('s')", "x.item['s']")):
            source = source.replace(text, other)
        if self._kind == "dict":
            source = source.replace("x.pair[0]", "x.b").replace("x.pair[-1]", "x.t")
            source = _PLAIN.sub(r"x['\1']", source.replace("x[0]", "x.a"))
            return _NESTED.sub(r"\1['\2']", source)
        source = re.sub(r"x\.item\['(\w)'\]", r"x.item.\1", source)
        if self._kind == "Row":
            source = source.replace("x.pair[0]", "x.b").replace("x.pair[-1]", "x.t")
            source = source.replace("x[0]", "x.a")
        return source


def passed(text: str, elements: list[Any]) -> list[Any]:
    """What a step that calls a function makes of elements."""
    if text.startswith("WithDict"):
        step = eval(text, _SPACE)
        return [step._function(element, dict(step._pairs)) for element in elements]
    step, _, rest = text.removeprefix("beam.").partition("(")
    function = eval(rest[:-1], _SPACE)
    if step == "ParDo":
        function = function.process
    each = [(element, function(element)) for element in elements]
    if step == "Map":
        return [result for _, result in each]
    if step == "Filter":
        return [element for element, result in each if result]
    return [one for _, results in each for one in results or ()]


def as_read(table: pa.Table, kind: str) -> list[Any]:
    """The rows of a table as a source of this kind gives them."""
    array = table.to_struct_array().combine_chunks()
    named = Element if kind == "NamedTuple" else None
    shape = shape_in_arrow(array.type) if kind == "dict" else shape_of(array.type, named)
    return values_of(array, shape)


@dataclass(frozen=True)
class Pipeline:
    """A pipeline, as text.

    Attributes:
        kind: what its elements are.
        steps: the texts of its transforms.
        rows: its elements, each with its time in microseconds.
        seed: of the forms of arrays.
        form: that of all arrays, if it is one.
        has_schema: the source says beforehand which columns there are.
        other: what a further field of the elements holds, if they have one.
        streaming: it is a streaming query.
    """

    kind: str
    steps: tuple[str, ...]
    rows: tuple[tuple[Element, int], ...]
    seed: int
    form: str | None
    has_schema: bool
    other: str | None
    streaming: bool

    def results(self, runner: Any, *options: str) -> list[str] | str:
        """What comes out, sorted; the name of the exception if it fails."""
        noted.clear()
        try:
            with TemporaryDirectory() as folder:
                self._run(runner, Path(folder), options)
        except Exception as error:
            return f"{type(error).__name__}: {str(error)[:1000]}"
        return sorted(f"{told(value)} {window} {time}" for value, window, time, _ in noted)

    def _run(self, runner: Any, folder: Path, options: tuple[str, ...]) -> None:
        p = beam.Pipeline(runner, PipelineOptions(list(options)))
        rows = p | "read" >> self._source(folder)
        for number, text in enumerate(self.steps):
            rows = rows | f"{number}" >> eval(text, _SPACE)
        _ = rows | "note" >> beam.Map(note)
        p.run().wait_until_finish()

    def _source(self, folder: Path) -> Any:
        _batches.clear()
        tables = list(self._tables())
        if self.kind == "dict":
            for number, table in enumerate(tables):
                _write(table.drop_columns(["at"]), folder / f"{number}.parquet")
            return beam.io.ReadFromParquet(f"{folder}/*.parquet")
        for number, table in enumerate(tables):
            _batches[number] = table.to_batches()
        schemas = {table.schema for table in tables}
        return ReadFromArrow(
            range(len(tables)),
            _read_some if self.has_schema and len(schemas) == 1 else _read,
            Element if self.kind == "NamedTuple" else Row,
            timestamp_column="at",
            schema=schemas.pop() if self.has_schema and len(schemas) == 1 else None,
        )

    def _tables(self) -> Iterator[pa.Table]:
        """The rows of each split, in the same forms."""
        for number in range(_TASKS):
            some = self.rows[number::_TASKS]
            make = Mixed(self.seed, self.form)
            array = column([element for element, _ in some], ELEMENT, make)
            columns = dict(zip(Element._fields, array.flatten(), strict=True))
            if self.other is not None:
                columns["o"] = others(self.other, len(some), Random(self.seed + number))
            times = pa.array([time for _, time in some], pa.int64())
            yield pa.table({**columns, "at": times})

    @property
    def elements(self) -> list[Any]:
        """As the source gives them."""
        tables = [table.drop_columns(["at"]) for table in self._tables()]
        return [element for table in tables for element in as_read(table, self.kind)]

    def differing(self, *, is_sampled: bool, figures: Figures) -> tuple[Any, Any] | None:
        """What comes out with columns and what without, or on Beam's runner, if that differs."""
        make: type[SparkRunner] = StreamingRunner if self.streaming else BatchRunner
        options = ["--streaming"] if self.streaming else []
        with _counted(figures):
            over = self.results(make(), *options)
        off = self.results(make(), *options, "--columns=off")
        figures.pipelines += 1
        figures.failed += isinstance(off, str)
        figures.combines += not isinstance(off, str) and "ombine" in repr(self.steps)
        if isinstance(over, str) and isinstance(off, str):
            return None
        if over != off:
            return over, off
        if is_sampled:
            figures.other_runners += 1
            other = self.results(FnApiRunner())
            if isinstance(other, str) or list(map(_rounded, other)) != list(map(_rounded, over)):
                return over, {"of Beam's runner": other}
        return None


def _read(split: int) -> list[pa.RecordBatch]:
    return _batches[split]


def _read_some(split: int, columns: list[str]) -> list[pa.RecordBatch]:
    return [batch.select(columns) for batch in _batches[split]]


def _write(table: pa.Table, path: Path) -> None:
    try:
        pq.write_table(table, path, row_group_size=64)
    except (pa.ArrowException, OSError):
        # It has no form for some dictionaries.
        plain = [
            one.cast(one.type.value_type) if pa.types.is_dictionary(one.type) else one
            for one in table.columns
        ]
        pq.write_table(pa.table(plain, table.column_names), path)


def told(value: Any) -> str:
    """A result with all that tells it from others, apart from the order of lists."""
    if isinstance(value, list):
        return f"[{', '.join(sorted(map(told, value)))}]"
    if isinstance(value, TimestampedValue):
        return f"{told(value.value)} at {value.timestamp}"
    if type(value) is tuple:
        return f"tuple({', '.join(map(told, value))})"
    if type(value) is dict:
        return f"dict({', '.join(f'{key!r}: {told(one)}' for key, one in value.items())})"
    return _written(value)


def _rounded(text: str) -> str:
    """A result without the digits that depend on the order of a sum, and without signs of zero."""
    numbers = re.sub(r"float (-?[0-9.e+-]+)", lambda one: f"float {float(one[1]):.9g}", text)
    return numbers.replace("float -0", "float 0")


@contextmanager
def _counted(figures: Figures) -> Iterator[None]:
    """Counts the blocks that steps take as columns."""
    over = ColumnFunction.over

    def watched(step: ColumnFunction, *columns: Any) -> Any:
        result = over(step, *columns)
        figures.evaluated += result is not None
        return result

    with mock.patch.object(ColumnFunction, "over", watched):
        yield


def try_pipeline(random: Random, figures: Figures, *, is_sampled: bool) -> str | None:
    """Compares a random pipeline with columns and without; what differs, if it does.

    Args:
        random: chooses.
        figures: counts.
        is_sampled: Beam's own runner runs it, too.
    """
    kind = random.choice(["NamedTuple"] * 4 + ["Row"] * 2 + ["dict"])
    values = values_for(random)
    elements = elements_of(values, random.choice([3, 40, 120, 200]))
    step = random.choice([1, 1000, _MICROS // 4, 20 * _MICROS])
    times = [random.randint(0, 200) * step for _ in elements]
    if random.random() < 0.3:
        times.sort()
    rows = tuple(zip(elements, times, strict=True))
    form = random.choice([None, None, *FORMS])
    other = random.choice(list(OTHERS)) if kind != "NamedTuple" and random.random() < 0.6 else None
    seed, has_schema = random.getrandbits(32), random.random() < 0.5
    streaming = kind != "dict" and random.random() < 0.25
    pipeline = Pipeline(kind, (), rows, seed, form, has_schema, other, streaming)
    writer = PipelineWriter(
        random,
        kind,
        pipeline.elements,
        other=other is not None,
        in_any_order=values.is_calm,
        streaming=streaming,
    )
    pipeline = replace(pipeline, steps=tuple(writer.steps()))
    is_sampled = is_sampled and values.is_calm and kind != "dict" and not streaming
    if pipeline.differing(is_sampled=is_sampled, figures=figures) is None:
        return None
    return shortest(pipeline, is_sampled=is_sampled)


def shortest(pipeline: Pipeline, *, is_sampled: bool) -> str:
    """A reproduction with as few steps and rows as still differ."""

    def differs(one: Pipeline) -> bool:
        return one.differing(is_sampled=is_sampled, figures=Figures()) is not None

    def with_steps(steps: list[str]) -> Pipeline:
        return replace(pipeline, steps=tuple(steps))

    pipeline = with_steps(shortened(list(pipeline.steps), lambda some: differs(with_steps(some))))
    for form in ("plain", *FORMS):
        if differs(simpler := replace(pipeline, form=form)):
            pipeline = simpler
            break
    smaller: Callable[[list[Any]], bool] = lambda some: differs(  # noqa: E731
        replace(pipeline, rows=tuple(some))
    )
    pipeline = replace(pipeline, rows=tuple(shortened(list(pipeline.rows), smaller)))
    over, other = pipeline.differing(is_sampled=is_sampled, figures=Figures()) or (None, None)
    steps = "\n".join(pipeline.steps)
    return (
        f"elements: {pipeline.kind}, with a schema: {pipeline.has_schema}, with {pipeline.other}, "
        f"streaming: {pipeline.streaming}, arrays: "
        f"{pipeline.form or f'forms of the seed {pipeline.seed}'}\n{steps}\nrows: "
        f"{list(pipeline.rows)!r}\nwith columns:    {over!r}\nwithout columns: {other!r}"
    )
