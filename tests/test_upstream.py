"""What the runner assumes of the inside of Beam and of Spark: each has a test that names it."""

import _thread
import ast
import functools
import inspect
import logging
import os
import pickle
import random
import subprocess
import threading
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, NamedTuple

import apache_beam as beam
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from apache_beam import coders
from apache_beam.coders import coder_impl
from apache_beam.internal import pickler
from apache_beam.io import fileio, iobase
from apache_beam.metrics import Metrics
from apache_beam.metrics.cells import CounterCell, DistributionCell
from apache_beam.metrics.metricbase import MetricName
from apache_beam.options.pipeline_options import PipelineOptions, StandardOptions, TypeOptions
from apache_beam.pipeline import PipelineVisitor
from apache_beam.portability import common_urns
from apache_beam.pvalue import AsDict, AsList, AsSingleton
from apache_beam.runners.interactive.interactive_runner import InteractiveRunner
from apache_beam.runners.pipeline_context import PipelineContext
from apache_beam.runners.worker import bundle_processor, opcounters, operations, statesampler
from apache_beam.testing.test_stream import TestStream
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms import (
    combiners,
    core,
    environments,
    external,
    external_transform_provider,
    managed,
    trigger,
    userstate,
)
from apache_beam.transforms.core import Windowing
from apache_beam.transforms.window import FixedWindows, GlobalWindow, IntervalWindow
from apache_beam.typehints import row_type
from apache_beam.typehints.arrow_type_compatibility import PyarrowBatchConverter
from apache_beam.typehints.batch import BatchConverter
from apache_beam.typehints.row_type import RowTypeConstraint
from apache_beam.typehints.schemas import typing_from_runner_api, typing_to_runner_api
from apache_beam.utils.counters import CounterFactory
from apache_beam.utils.timestamp import MAX_TIMESTAMP, MIN_TIMESTAMP, Timestamp
from apache_beam.utils.windowed_value import WindowedValue
from command import python
from in_process import StreamingRunner
from in_process_batch import BatchRunner
from own_sources import sources
from py4j import java_gateway  # type: ignore[import-untyped]
from py4j.protocol import Py4JNetworkError  # type: ignore[import-untyped]
from pyarrow import parquet
from waiting import until

import sparkbeam
from sparkbeam.common.entry_points import REPLACEMENTS, registered
from sparkbeam.errors import PipelineFailed
from sparkbeam.plan.pruning import last_applied
from sparkbeam.spark import jvm_output
from sparkbeam.spark.jvm_output import is_of_others
from sparkbeam.upstream import beam as of_beam
from sparkbeam.upstream import beam_batches as of_batches
from sparkbeam.upstream import beam_file_sinks as of_file_sinks
from sparkbeam.upstream import beam_files as of_files
from sparkbeam.upstream import external as of_external
from sparkbeam.upstream import option_views, signatures
from sparkbeam.upstream import parquet as of_parquet
from sparkbeam.upstream import scans as of_scans
from sparkbeam.upstream import spark as of_spark
from sparkbeam.upstream.dofn_handover import HandingPickler, InProcessPickle, copied
from sparkbeam.upstream.sampler import Sampler

OF_THE_LANGUAGE = {"_replace", "_fields", "_field_defaults", "_make", "_asdict", "_exit", "_fmt"}
_TIME: Any = beam.DoFn.TimestampParam


def dofns_of(p: beam.Pipeline) -> list[Any]:
    """The DoFns of a pipeline, in the order in which they have been applied."""
    found: list[Any] = []

    class Visitor(beam.pipeline.PipelineVisitor):
        def visit_transform(self, node: Any) -> None:
            if isinstance(node.transform, beam.ParDo):
                found.append(node.transform.dofn)

    p.visit(Visitor())
    return found


def unpickled(dofns: list[Any]) -> list[Any]:
    """DoFns as a worker gets them."""
    return [pickler.loads(pickler.dumps(fn)) for fn in dofns]


class TestNoReachElsewhere:
    """Private names of others are in the two modules for that alone."""

    @pytest.fixture
    def trees(self) -> dict[str, ast.Module]:
        return {name: ast.parse(path.read_text()) for name, path in sources().items()}

    @pytest.fixture
    def own(self, trees: dict[str, ast.Module]) -> set[str]:
        """All names that the package gives to something."""
        names = set()
        for tree in trees.values():
            for node in ast.walk(tree):
                match node:
                    case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                        names.add(name)
                    case ast.Name(id=name, ctx=ast.Store()):
                        names.add(name)
                    case ast.Attribute(attr=name, value=ast.Name(id="self"), ctx=ast.Store()):
                        names.add(name)
                    case ast.Constant(value=str(name)) if name.startswith("_"):
                        names.add(name)  # In __slots__.
        return names

    def test_no_private_attribute_is_another_s(
        self, trees: dict[str, ast.Module], own: set[str]
    ) -> None:
        found = [
            f"{file}:{node.lineno}: {ast.unparse(node)}"
            for file, tree in trees.items()
            if "upstream" not in file.replace(".", "/").split("/")
            for node in ast.walk(tree)
            if isinstance(node, ast.Attribute)
            and node.attr.startswith("_")
            and not node.attr.startswith("__")
            and node.attr not in own | OF_THE_LANGUAGE
        ]
        assert found == []

    def test_no_private_name_is_imported(self, trees: dict[str, ast.Module]) -> None:
        found = [
            f"{file}:{node.lineno}: {node.module}"
            for file, tree in trees.items()
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom)
            and (node.module or "").split(".")[0] in ("apache_beam", "pyspark", "py4j")
            and any(
                part.startswith("_")
                for part in (*(node.module or "").split("."), *(alias.name for alias in node.names))
            )
        ]
        assert found == []


def doubled(n: int) -> int:
    return 2 * n


class Pair(NamedTuple):
    left: int
    right: int


def typed(n: int) -> bool:
    return n > 1


class Batched(beam.DoFn):
    def process_batch(self, batch: pa.Table) -> Iterator[pa.Table]:
        yield batch

    def infer_output_type(self, input_type: Any) -> Any:
        return input_type


def filtering(fn: Any) -> Any:
    return beam.Filter(fn).dofn.process


def view(of: Any, *given: Any) -> Any:
    numbers = beam.Pipeline() | beam.Create([1])
    return of(numbers, *given).to_runner_api(PipelineContext()).view_fn.payload


TIMES = functools.partial(lambda number, factor=2: number * factor)
ROW: Any = row_type.RowTypeConstraint.from_fields([("at", Timestamp), ("one", int)])
READ: Any = typing_from_runner_api(typing_to_runner_api(ROW))
PARTS: Any = coders.registry.get_coder(ROW)
COUNTER: Any = Metrics.counter("some", "seen")
DISTRIBUTION: Any = Metrics.distribution("some", "sizes")
BAG = core.DoFn.StateParam(userstate.BagStateSpec("bag", beam.coders.VarIntCoder()))

KNOWN: list[tuple[Any, Any, Any]] = [
    (of_beam.function_of_map, beam.Map(doubled).dofn.process, doubled),
    (of_beam.function_of_map, beam.Map(TIMES, factor=3).dofn.process, TIMES),
    (of_beam.function_of_map, beam.FlatMap(doubled).dofn.process, None),
    (of_beam.function_of_filter, filtering(typed), typed),
    (of_beam.function_of_filter, filtering(bool), bool),
    (of_beam.function_of_filter, beam.FlatMap(doubled).dofn.process, None),
    (of_beam.function_of_filter, None, None),
    *((of_beam.is_filled_in, name, True) for name in core.DoFn.DoFnProcessParams),
    *((of_beam.is_filled_in, name, True) for name in (BAG, core.DoFn.BundleContextParam(list))),
    *((of_beam.is_filled_in, default, False) for default in (None, 3, (), doubled, int)),
    (of_beam.function_of_combine, core.CombineFn.maybe_from_callable(sum, True), sum),
    (of_beam.function_of_combine, core.CombineFn.maybe_from_callable(sum, False), sum),
    (of_beam.function_of_combine, combiners.CountCombineFn(), None),
    (of_beam.top_of_one, combiners.TopCombineFn(1), "largest"),
    (of_beam.top_of_one, combiners.Largest(1), "largest"),
    (of_beam.top_of_one, combiners.Smallest(1), "smallest"),
    (of_beam.top_of_one, combiners.TopCombineFn(1, reverse=True), "smallest"),
    (of_beam.top_of_one, combiners.Largest(2), None),
    (of_beam.top_of_one, combiners.TopCombineFn(1, len), None),
    (of_beam.top_of_one, combiners.Sample(), None),
    (of_beam.updated_metric, COUNTER.inc, (CounterCell, MetricName("some", "seen"), 1)),
    (of_beam.handles_batches, Batched(), True),
    (of_beam.handles_batches, core.CallableWrapperDoFn(doubled), False),
    (of_beam.is_generated, READ.user_type, True),
    (of_beam.is_generated, Pair, False),
    (of_beam.is_of_timestamps, PARTS.components[0], True),
    (of_beam.is_of_timestamps, PARTS.components[1], False),
    (of_beam.shows_one_element, view(AsSingleton), True),
    (of_beam.shows_one_element, view(AsSingleton, 0), True),
    (of_beam.shows_one_element, view(AsList), False),
    (of_beam.shows_one_element, view(AsDict), False),
    (of_beam.global_window_mapping, IntervalWindow(0, 10), GlobalWindow()),
    (of_beam.TRANSFORMS.__contains__, common_urns.primitives.PAR_DO.urn, True),
    (of_beam.WINDOW_FNS.__contains__, common_urns.fixed_windows.urn, True),
]
"""A function of ours, what of Beam's it is asked for, and what it answers."""


@pytest.mark.parametrize(
    ("function", "made", "expected"),
    KNOWN,
    ids=[f"{at} {row[0].__name__}" for at, row in enumerate(KNOWN)],
)
def test_what_beam_makes_is_known(function: Any, made: Any, expected: Any) -> None:
    assert function(made) == expected


class TestUserCode:
    """Without these, steps run as Beam's own do, slower, or a Create is one task's."""

    def test_a_filter_and_a_combine_are_known_behind_a_pickle(self) -> None:
        fn = pickler.loads(pickler.dumps(beam.Filter(typed).dofn))
        assert of_beam.function_of_filter(fn.process) is not None
        combine = core.CombineFn.maybe_from_callable(sum, False)
        assert of_beam.function_of_combine(pickler.loads(pickler.dumps(combine))) is sum
        assert of_beam.updated_metric(DISTRIBUTION.update).cell is DistributionCell

    def test_the_function_in_a_map_is_found_behind_a_pickle(self) -> None:
        fn = pickler.loads(pickler.dumps(beam.Map(doubled).dofn))
        found = of_beam.function_of_map(fn.process)
        assert found is not None
        assert found(3) == 6

    def test_what_a_cogroupbykey_ends_with_is_known(self) -> None:
        p = beam.Pipeline()
        sides = {name: p | name >> beam.Create([(1, name)]) for name in ("left", "right")}
        _ = sides | beam.CoGroupByKey() | beam.MapTuple(lambda key, group: key)
        found = [of_beam.collecting_of_cogroup(fn.process) for fn in unpickled(dofns_of(p))]
        (collect,) = [one for one in found if one is not None]
        group = collect((1, iter([("right", 2), ("right", 3)])))
        assert group == (1, {"left": [], "right": [2, 3]})
        assert of_beam.collecting_of_cogroup(None) is None
        tags = [of_beam.tags_of_cogroup(fn.process) for fn in unpickled(dofns_of(p))]
        assert [one for one in tags if one is not None] == [("left", "right")]
        assert of_beam.tags_of_cogroup(None) is None

    def test_what_makes_the_tuples_of_a_cogroupbykey_is_known(self) -> None:
        p = beam.Pipeline()
        sides = [p | name >> beam.Create([(1, name)]) for name in ("left", "right")]
        _ = tuple(sides) | "tuple" >> beam.CoGroupByKey()
        _ = dict(enumerate(sides)) | "dict" >> beam.CoGroupByKey()
        found = [of_beam.tuples_of_cogroup(fn.process) for fn in unpickled(dofns_of(p))]
        assert [one for one in found if one is not None] == [("0", "1")]
        assert of_beam.tuples_of_cogroup(None) is None

    def test_the_function_of_a_create_is_known(self) -> None:
        p = beam.Pipeline()
        p | beam.Create([1, 5]) | beam.Map(doubled)
        first, *_, last = dofns_of(p)
        assert (of_beam.is_of_create(first), of_beam.is_of_create(last)) == (True, False)
        assert of_beam.values_of_create(first) == 2

    def test_a_global_combine_begins_with_pairs(self) -> None:
        assert list(of_beam.KeyWithNone().process(3)) == [(None, 3)]

    def test_the_combine_fns_in_a_tuple_are_found(self) -> None:
        count = combiners.CountCombineFn()
        several = of_beam.parts_of_tuple(combiners.TupleCombineFn(sum, count))
        assert several is not None
        assert [of_beam.function_of_combine(fn) for fn in several.combine_fns] == [sum, None]
        assert several.combine_fns[1] is count
        assert not several.is_of_one
        of_one = of_beam.parts_of_tuple(combiners.SingleInputTupleCombineFn(count))
        assert of_one == ([count], True)
        assert of_beam.parts_of_tuple(count) is None

    def test_the_functions_of_a_group_by_are_found_behind_a_pickle(self) -> None:
        p = beam.Pipeline()
        group = beam.GroupBy("left", double=lambda pair: pair.left * 2)
        _ = p | beam.Create([Pair(3, 4)]) | group.aggregate_field("right", sum, "total")
        functions = [of_beam.function_of_map(fn.process) for fn in unpickled(dofns_of(p))]
        found = [(of_beam.aggregation_of(function), function) for function in functions]
        ((parts, function),) = [one for one in found if one[0] is not None]
        assert parts is not None
        assert function is not None
        pair = Pair(3, 4)
        key = parts.key_type(*(one(pair) for one in parts.keys))
        assert (key, [one(pair) for one in parts.values]) == function(pair)
        assert key._fields == ("left", "double")

    def test_the_functions_of_a_select_are_found_behind_a_pickle(self) -> None:
        p = beam.Pipeline()
        select = beam.Select("left", lambda pair: -pair.left, double=lambda pair: pair.left * 2)
        _ = p | beam.Create([Pair(3, 4)]) | select
        functions = [of_beam.function_of_map(fn.process) for fn in unpickled(dofns_of(p))]
        found = [(of_beam.fields_of_select(function), function) for function in functions]
        ((fields, function),) = [one for one in found if one[0] is not None]
        assert fields is not None
        assert function is not None
        row = {name: one(Pair(3, 4)) for name, one in fields.items()}
        assert row == {"left": 3, "arg01": -3, "double": 6}
        assert function(Pair(3, 4)).as_dict() == row

    def test_what_dofns_of_batches_take_and_make_is_known(self) -> None:
        class Made(beam.DoFn):
            @beam.DoFn.yields_batches
            def process(self, element: int) -> Iterator[list[int]]:
                yield [element]

            def infer_output_type(self, input_type: Any) -> Any:
                return int

        batched, made = Batched(), Made()
        beam.ParDo(batched).infer_batch_converters(Pair)
        beam.ParDo(made).infer_batch_converters(int)
        found = of_batches.batching_of(pickler.loads(pickler.dumps(batched)))
        assert found is not None
        assert isinstance(found.taken, PyarrowBatchConverter)
        assert found.taken == found.made
        assert found[2:] == (False, False, True)
        assert of_batches.schema_of_batches(found.taken).names == ["left", "right"]
        found = of_batches.batching_of(made)
        assert found is not None
        assert (found.taken, *found[2:4]) == (None, True, True)
        assert of_batches.batching_of(core.CallableWrapperDoFn(doubled)) is None

    def test_the_types_of_batches_are_known(self) -> None:
        def converter(element: Any, batch: Any) -> Any:
            return BatchConverter.from_typehints(element_type=element, batch_type=batch)

        assert of_batches.type_of_batches(converter(int, pa.Array)) == pa.int64()
        assert of_batches.dtype_of_batches(converter(float, pd.Series)) is np.float64
        dtypes = of_batches.dtypes_of_batches(converter(Pair, pd.DataFrame))
        assert dtypes == {"left": np.int64, "right": np.int64}

    def test_classes_of_the_results_of_groupby_are_known(self) -> None:
        grouping = beam.GroupBy(key="key").aggregate_field("value", sum, "total")
        made = of_beam.named_tuple_class("Result", ("key", "total"))
        assert made is of_beam.named_tuple_class("Result", ("key", "total"))
        assert made(1, 2) == (1, 2)
        names = grouping.expand.__code__.co_consts
        code = next(one for one in names if "_dynamic_named_tuple" in getattr(one, "co_names", ()))
        assert code.co_freevars == ("result_fields",)

    @pytest.mark.parametrize("text", ["1.50", "-7", "0E-30", "1E+40", "9" * 400, f"-0.{'1' * 50}"])
    def test_decimals_of_any_length_are_encoded_as_beam_encodes_short_ones(self, text: str) -> None:
        kind = RowTypeConstraint.from_fields([("price", Decimal)])
        coder = coders.registry.get_coder(kind)
        row = coder.decode(coder.encode(beam.Row(price=Decimal(text))))
        assert str(row.price) == text
        if len(text) < 28:
            exact = coders.DecimalCoder().encode(Decimal(text))
            assert exact == coder_impl.DecimalCoderImpl().encode(Decimal(text))

    def test_what_is_gathered_for_parquet_is_known(self) -> None:
        schema = pa.schema([("left", pa.int64())])

        def parquet(size: int) -> Any:
            written = beam.io.WriteToParquet("unwritten", schema, size, record_batch_size=2)
            p = beam.Pipeline()
            _ = p | beam.Create([{"left": 1}]) | written
            gathering = [fn for fn in dofns_of(p) if of_parquet.row_groups_of(fn) is not None]
            return gathering[-1]

        fn = parquet(20)
        groups = of_parquet.row_groups_of(fn)
        assert groups is not None
        assert (groups.schema, groups.batch_rows) == (schema, 2)
        _ = list(fn.process({"left": 1}, GlobalWindow()))
        assert groups.full() is None
        groups.add(pa.record_batch([pa.array([2, 3])], schema=schema), GlobalWindow())
        table = groups.full()
        assert table is not None
        assert table["left"].to_pylist() == [1, 2, 3]
        assert list(fn.finish_bundle()) == []
        assert of_parquet.row_groups_of(core.CallableWrapperDoFn(doubled)) is None

    @pytest.mark.parametrize(
        ("given", "option", "temporary"),
        [(None, None, "/out"), ("/given", "/option", "/given"), (None, "/option", "/option")],
    )
    def test_a_write_to_files_has_a_folder_for_temporary_files(
        self, given: str | None, option: str | None, temporary: str
    ) -> None:
        transform = fileio.WriteToFiles("/out", temp_directory=given, shards=3)
        options = PipelineOptions([f"--temp_location={option}"] if option else [])
        write = of_file_sinks.files_write(transform, options)
        assert (write.path, write.temporary, write.shards) == ("/out", temporary, 3)
        assert write.destination("element") is None
        assert isinstance(write.sink(None), fileio.TextSink)

    def test_names_of_files_are_those_that_beam_gives_them(self) -> None:
        sink: Any = beam.io.WriteToText(
            "/out/words", ".txt", shard_name_template="-W-V-SS-NN"
        )._sink
        for window in (IntervalWindow(0, 10), GlobalWindow()):
            of_beam = sink._get_final_name(1, 2, window)
            assert of_file_sinks.final_name(sink, window, 1, 2) == of_beam

    def test_a_write_has_windows_by_its_frequency(self) -> None:
        sink: Any = beam.io.WriteToText("/out/words", triggering_frequency=7)._sink
        p = beam.Pipeline()
        numbers = p | TestStream()
        windowed = of_file_sinks.windowed(iobase.WriteImpl(sink), numbers)
        assert windowed.windowing.windowfn == FixedWindows(7)

    def test_parts_of_files_are_the_same_for_another_source(self, tmp_path: Path) -> None:
        for name in "ab":
            table = pa.table({"left": [1, 2, 3], "right": [f"{name}{n}" for n in (1, 2, 3)]})
            parquet.write_table(table, tmp_path / f"{name}.parquet", row_group_size=2)
        source: Any = beam.io.ReadFromParquetBatched(f"{tmp_path}/*.parquet")._source
        by_row_groups: Any = of_parquet.row_group_source(source)
        whole = of_files.divided(by_row_groups)
        assert whole is not None
        fewer = by_row_groups.reading(frozenset(["right"]), of_parquet.parquet_schema(source))
        assert fewer is not None

        def read(fn: of_files.DividedRead) -> list[Any]:
            found = []
            parts = pickler.roundtrip(fn).process(None)
            for (_, (restriction, _)), size in parts:
                tables = restriction.source().read(restriction.range_tracker())
                found.append((size, [table.to_pylist() for table in tables]))
            return found

        before, after = read(whole), read(whole.reading(fewer))
        assert [size for size, _ in after] == [size for size, _ in before]
        for (_, tables), (_, others) in zip(before, after, strict=True):
            rows = [[{"left": 0, "right": row["right"]} for row in table] for table in tables]
            assert others == rows
        assert read(whole) == before


class TestPipelines:
    """Without these, a pipeline is refused, or its checkpoint is another's."""

    def test_the_step_that_knows_the_default_of_a_combine_is_known(self) -> None:
        pipeline = beam.Pipeline()
        _ = pipeline | beam.Create([1]) | beam.CombineGlobally(sum)
        found = {}

        class Looking(PipelineVisitor):
            def visit_transform(self, applied: Any) -> None:
                fn = getattr(applied.transform, "fn", None)
                found[applied.full_label] = of_beam.injects_default(getattr(fn, "process", None))

        pipeline.visit(Looking())
        assert [label for label, known in found.items() if known] == [
            "CombineGlobally(sum)/InjectDefault"
        ]

    def test_no_step_is_taken_for_it_where_beam_has_none_of_that_name(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(of_beam, "_CODE_OF_INJECTING", None)
        for step in (beam.Map(len), beam.Map(str.upper), beam.Map(lambda x: x)):
            assert not of_beam.injects_default(step.fn.process)
        assert not of_beam.injects_default(None)

    def test_a_transform_is_applied_for_a_while(self) -> None:
        pipeline = beam.Pipeline()
        numbers = pipeline | beam.Create([1])
        before, known = pipeline.to_runner_api(), {*pipeline.applied_labels}
        for _ in range(2):
            with of_beam.applied_for_now(numbers, "Create" >> beam.Map(doubled)):
                proto = pipeline.to_runner_api()
                applied = proto.components.transforms[last_applied(proto)]
                assert applied.unique_name == "Create_"
            after = pipeline.to_runner_api().components
            assert after.transforms.keys() == before.components.transforms.keys()
            assert pipeline.applied_labels == known


class TestStates:
    """Without these, a DoFn with map states fails in a worker of another runner, not before."""

    def test_the_runner_below_an_interactive_one_is_found(self) -> None:
        runner = sparkbeam.SparkRunner()
        assert of_beam.runner_below(InteractiveRunner(runner)) is runner
        assert of_beam.runner_below(runner) is runner

    def test_a_par_do_is_looked_at_when_it_is_applied(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(core.ParDo, "expand", core.ParDo.expand)
        seen = []
        of_beam.before_par_dos(lambda par_do, pcoll: seen.append((par_do.label, pcoll.pipeline)))
        p = beam.Pipeline()
        _ = p | beam.Create([1]) | "Double" >> beam.Map(doubled)
        assert seen[-1] == ("Double", p)


class MadeIn:
    """Notes in which threads it comes out of a pickle."""

    threads: ClassVar[set[str]] = set()

    def __getstate__(self) -> str:
        return "of a worker"

    def __setstate__(self, state: str) -> None:
        self.threads.add(threading.current_thread().name)


class Unreachable:
    """Does not come out of a pickle in time."""

    def __getstate__(self) -> int:
        return os.getpid()

    def __setstate__(self, state: int) -> None:
        if threading.current_thread() is not threading.main_thread():
            raise TimeoutError("no way")


class Locked(beam.CombineFn):
    """A sum whose parts all need what ``setup`` has made."""

    lock: Any = None

    def setup(self) -> None:
        assert self.lock is None
        self.lock = (one for one in range(1))

    def create_accumulator(self) -> int:
        assert self.lock
        return 0

    def add_input(self, accumulator: int, element: int) -> int:
        assert self.lock
        return accumulator + element

    def merge_accumulators(self, accumulators: Any) -> int:
        assert self.lock
        return sum(accumulators)

    def extract_output(self, accumulator: int) -> int:
        assert self.lock
        return accumulator

    def teardown(self) -> None:
        self.lock = None


def test_py4j_is_not_heard_of_a_jvm_that_has_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(_: str) -> None:
        try:
            raise Py4JNetworkError("gone")
        except Py4JNetworkError as error:
            record = java_gateway.logger.makeRecord(
                "py4j",
                logging.ERROR,
                java_gateway.__file__,
                1,
                "No answer",
                (),
                exc_info=(type(error), error, error.__traceback__),
            )
            heard.append(is_of_others(record))

    heard: list[bool] = []
    client = SimpleNamespace(address="a", port="1", garbage_collect_object=failing)
    monkeypatch.setattr(jvm_output, "_STARTED", [])
    getattr(java_gateway, of_spark.RELEASE)(client, "o1")
    failing("o1")
    assert heard == [False, True]
    with subprocess.Popen(["sleep", "60"]) as process:
        monkeypatch.setattr(jvm_output, "_STARTED", [process])
        failing("o1")
        process.kill()
        failing("o1")
    assert heard[2:] == [True, False]


_COUNT = userstate.ReadModifyWriteStateSpec("count", beam.coders.VarIntCoder())


class SamplerThreads:
    """Threads of a sampler; other tests leave some of their own that come and go."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, sampler: Sampler) -> None:
        self._started: list[Any] = []
        self._ended: list[Any] = []
        start = _thread.start_new_thread

        def counted(run: Any, arguments: Any, *more: Any) -> int:
            def noted() -> None:
                run(*arguments)
                self._ended.append(run)

            if run != sampler.run:
                return start(run, arguments, *more)
            self._started.append(run)
            return start(noted, ())

        monkeypatch.setattr(_thread, "start_new_thread", counted)

    def running(self) -> int:
        return len(self._started) - len(self._ended)


class TestBundles:
    """Without these, no bundle runs."""

    def test_a_bundle_has_other_parts_for_a_while(self) -> None:
        theirs = bundle_processor.BeamTransformFactory, statesampler.StateSampler

        class Factory(bundle_processor.BeamTransformFactory):
            def __init__(self, *arguments: Any) -> None:
                assert not arguments

        with of_beam.parts_of_bundles(
            Factory, bundle_processor.StateBackedSideInputMap, statesampler.StateSampler
        ):
            make: Any = bundle_processor.BeamTransformFactory
            assert isinstance(make(), Factory)
        assert (bundle_processor.BeamTransformFactory, statesampler.StateSampler) == theirs

    def test_the_sampler_of_a_processor_ends_with_its_last_bundle(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        sampler = Sampler("", CounterFactory())
        threads = SamplerThreads(monkeypatch, sampler)
        for _ in range(20):
            sampler.start()
            assert statesampler.get_current_tracker() is sampler
            assert sampler.get_info().tracked_thread is threading.current_thread()
            sampler.stop_if_still_running()
            assert statesampler.get_current_tracker() is None
            sampler.reset()
        until(lambda: threads.running() == 0)

    def test_no_bundle_waits_for_the_sampler_of_the_one_before(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        awake = threading.Event()
        monkeypatch.setattr(statesampler.StateSampler, "run", lambda _: awake.wait(), raising=False)
        sampler = Sampler("", CounterFactory())
        threads = SamplerThreads(monkeypatch, sampler)
        for _ in range(3):
            sampler.start()
            sampler.stop_if_still_running()
            sampler.reset()
        assert threads.running() <= 1
        awake.set()
        until(lambda: threads.running() == 0)

    def test_the_sampler_takes_the_times_of_each_bundle(self) -> None:
        sampler = Sampler("", CounterFactory())
        state: Any = sampler.scoped_state("step", "process")
        for _ in range(3):
            sampler.start()
            with state:
                while not state.nsecs:
                    pass
            sampler.stop_if_still_running()
            sampler.reset()
            assert not state.nsecs

    @pytest.mark.parametrize("name", ["BeamTransformFactory", "StateBackedSideInputMap"])
    def test_the_bundle_processor_asks_its_module_for_a_part(self, name: str) -> None:
        functions = (
            bundle_processor.BundleProcessor.create_execution_tree,
            bundle_processor._create_pardo_operation,
        )
        assert any(f"{name}(" in inspect.getsource(function) for function in functions)

    def test_a_bundle_processor_gets_dofns_without_a_pickle(self) -> None:
        handing = HandingPickler()
        value = object()
        assert handing.loads(handing.dumps(value)) is value
        assert handing.loads(pickler.dumps([1])) == [1]
        for module in (bundle_processor, operations):
            assert module.pickler is pickler

    def test_what_is_handed_on_is_copied_by_who_can_make_another(self) -> None:
        value = [1]
        assert copied(pickler.dumps(value)) == copied(InProcessPickle(value)) == value
        assert copied(InProcessPickle(value)) is not value
        assert copied(InProcessPickle(threading.Lock(), lambda: [2])) == [2]

    @pytest.mark.parametrize("runner", [BatchRunner, StreamingRunner])
    def test_a_combine_fn_may_set_up_what_cannot_be_pickled(self, runner: Any) -> None:
        with beam.Pipeline(runner()) as p:
            counts = p | beam.Create([("a", 1), ("a", 2), ("b", 3)]) | beam.CombinePerKey(Locked())
            assert_that(counts, equal_to([("a", 3), ("b", 3)]))

    def test_another_thread_gets_a_pickle_meanwhile(self) -> None:
        handing = HandingPickler()
        with ThreadPoolExecutor(1) as pool:
            assert pickler.loads(pool.submit(handing.dumps, [1]).result()) == [1]

    def test_operations_are_made_in_the_thread_that_runs_them(self) -> None:
        with beam.Pipeline(BatchRunner()) as p:
            _ = p | beam.Create([1]) | beam.Map(lambda x, _: x, MadeIn())
        assert MadeIn.threads <= {threading.main_thread().name, "sparkbeam-bundle"}

    def test_an_operation_that_cannot_be_made_fails_its_task(self) -> None:
        with pytest.raises(PipelineFailed) as failure, beam.Pipeline(BatchRunner()) as p:
            _ = p | beam.Create([1]) | beam.Map(lambda x, _: x, Unreachable())
        assert isinstance(failure.value.__cause__, TimeoutError)

    def test_a_worker_compares_the_version_of_the_pipeline(self, monkeypatch: Any) -> None:
        compared = []

        def compare(submitted: str, own: str) -> bool:
            compared.append((submitted, own))
            return False

        monkeypatch.setattr(bundle_processor, "_environments_compatible", compare)
        with (
            pytest.raises(PipelineFailed, match="not compatible"),
            beam.Pipeline(BatchRunner()) as p,
        ):
            _ = p | beam.Create([1]) | beam.Map(str)
        version = environments.sdk_base_version_capability()
        assert {*compared} == {(version, version)}

    def test_the_operations_of_a_bundle_get_no_pickles(self, monkeypatch: Any) -> None:
        pickled: list[Any] = []
        monkeypatch.setattr(
            "sparkbeam.upstream.dofn_handover.pickler",
            SimpleNamespace(dumps=pickled.append, loads=pickler.loads),
        )
        with beam.Pipeline(BatchRunner()) as p:
            _ = p | beam.Create([1]) | beam.Map(lambda x: x + 1) | beam.Reshuffle() | beam.Map(str)
            _ = p | "More" >> beam.Create([1]) | beam.CombineGlobally(sum)
        assert not pickled

    def test_options_of_a_pipeline_of_ours_are_parsed_once(self, monkeypatch: Any) -> None:
        parsed: list[type] = []
        parse: Any = vars(TypeOptions)["_add_argparse_args"].__func__

        def counted(cls: type, parser: Any) -> None:
            parsed.append(cls)
            parse(cls, parser)

        options = PipelineOptions([])
        pipeline = beam.Pipeline(BatchRunner(), options=options)
        first = pipeline | beam.Create([1])
        monkeypatch.setattr(TypeOptions, "_add_argparse_args", classmethod(counted))
        _ = first | beam.Map(str) | beam.Map(len)
        assert len(parsed) <= 1
        view = options.view_as(TypeOptions)
        view.pipeline_type_check = False
        assert not options.view_as(TypeOptions).pipeline_type_check
        assert pickle.loads(pickle.dumps(options)).view_as(TypeOptions) is not view
        pipeline.run().wait_until_finish()
        assert options.view_as(TypeOptions) is not view

    def test_options_of_other_pipelines_are_parsed_by_beam(self) -> None:
        class Compared(PipelineOptions):
            __hash__ = None  # type: ignore[assignment]

            def __eq__(self, other: object) -> bool:
                return isinstance(other, PipelineOptions)

        ours, others = Compared([]), PipelineOptions([])
        option_views.remember(ours)
        for options, is_kept in ((ours, True), (others, False)):
            views = [options.view_as(StandardOptions) for _ in range(2)]
            assert (views[0] is views[1]) is is_kept
            assert options.view_as(Compared) is not options.view_as(Compared)

    def test_options_are_freed_with_their_views(self) -> None:
        options = PipelineOptions([])
        option_views.remember(options)
        options.view_as(StandardOptions)
        left, known = weakref.ref(options), len(option_views._known)
        del options
        assert left() is None
        assert len(option_views._known) == known - 1

    def test_methods_of_beam_are_inspected_once_while_a_pipeline_of_ours_is_built(self) -> None:
        class Own(core.DoFn):
            def process(self, element: Any, more: Any = None) -> Any:
                yield element

        inspected: list[Any] = []

        def inspect(function: Any) -> Any:
            inspected.append(function)
            return core.get_function_args_defaults(function)

        is_building = True
        found = signatures.remembering(inspect, lambda: is_building)
        for _ in range(2):
            assert found(Own().start_bundle) == ([], [])
            assert found(core.DoFn.process) == (["self", "element"], [])
            assert found(core.DoFn().process) == (["element"], [])
            assert found(Own().process) == (["element", "more"], [None])
        assert len(inspected) == 3 + 2, "those of users each time"
        is_building = False
        assert found(core.DoFn.process) == (["self", "element"], [])
        assert len(inspected) == 6

    def test_dofns_are_searched_for_state_once_while_a_pipeline_of_ours_is_built(self) -> None:
        class Searched(beam.DoFn):
            def process(self, element: Any, count: Any = beam.DoFn.StateParam(_COUNT)) -> Any:
                yield element

        searched: list[str] = []

        def search(dofn: Any) -> Any:
            searched.append(type(dofn).__name__)
            return userstate.get_dofn_specs(dofn)

        is_building = True
        found = signatures.remembering_stateless(search, lambda: is_building)
        plain, stateful = beam.DoFn(), Searched()
        for _ in range(2):
            assert found(plain) == (set(), set())
            assert found(stateful) == ({_COUNT}, set())
        assert searched == ["DoFn", "Searched", "Searched"]
        is_building = False
        found(plain)
        assert len(searched) == 4
        left = weakref.ref(plain)
        del plain
        assert left() is None

    def test_beam_measures_elements_by_chance_of_its_own(self) -> None:
        with of_beam.parts_of_bundles(
            bundle_processor.BeamTransformFactory, bundle_processor.StateBackedSideInputMap, Sampler
        ):
            pass
        assert opcounters.random is not random
        assert callable(opcounters.random.randint)

    def test_measuring_has_a_file_of_its_own(self) -> None:
        assert Path(opcounters.__file__).name.startswith(Path(of_beam.MODULE_OF_COUNTERS).stem)

    def test_a_stream_is_emptied(self) -> None:
        stream = coder_impl.create_OutputStream()
        stream.write(b"x")
        of_beam.clear(stream)
        assert stream.get() == b""

    def test_callbacks_are_taken_instead_of_called(self) -> None:
        called: list[str] = []
        finalizer = core._BundleFinalizerParam()
        finalizer.register(lambda: called.append("x"))
        (callback,) = of_beam.finalizer_callbacks(lambda: finalizer.finalize_bundle())
        assert called == []
        callback()
        finalizer.finalize_bundle()
        assert called == ["x", "x"]

    def test_callbacks_of_another_thread_are_called_meanwhile(self) -> None:
        called: list[str] = []
        finalizer = core._BundleFinalizerParam()
        finalizer.register(lambda: called.append("x"))

        def elsewhere() -> None:
            thread = threading.Thread(target=lambda: finalizer.finalize_bundle())
            thread.start()
            thread.join()

        assert of_beam.finalizer_callbacks(elsewhere) == []
        assert called == ["x"]


class TestTriggers:
    """Without these, no trigger but the default fires in streaming."""

    @pytest.mark.parametrize(
        ("kind", "made"),
        [
            (of_beam.ListTag, trigger.GeneralTriggerDriver.ELEMENTS),
            (of_beam.CombiningTag, trigger.AfterCount.COUNT_TAG),
        ],
    )
    def test_the_tags_of_state(self, kind: type, made: Any) -> None:
        assert isinstance(made, kind)

    def test_the_tag_of_a_hold(self) -> None:
        assert of_beam.HoldTag("hold", None).tag == "hold"

    def test_a_driver_makes_a_last_pane(self) -> None:
        windowing = Windowing(
            FixedWindows(10),
            trigger.Repeatedly(trigger.AfterCount(2)),
            trigger.AccumulationMode.DISCARDING,
        )
        driver = trigger.create_trigger_driver(windowing)
        state, window = trigger.InMemoryUnmergedState(), IntervalWindow(0, 10)
        element = WindowedValue("x", MIN_TIMESTAMP, (window,))
        assert not list(driver.process_elements(state, [element], MIN_TIMESTAMP, MIN_TIMESTAMP))
        pane = of_beam.last_pane(driver, state, window, MAX_TIMESTAMP)
        assert pane.value == ["x"]
        assert pane.pane_info.is_last


class TestSpark:
    """Without these, what the functions say of themselves."""

    def test_batch_imports_nothing_that_an_old_pyspark_lacks(self) -> None:
        new = "pyspark.sql.datasource", "pyspark.sql.streaming"
        program = (
            "import builtins\n"
            "given = builtins.__import__\n"
            "def checked(name, globals=None, *rest, **named):\n"
            "    place = (globals or {}).get('__name__', '')\n"
            f"    if place.startswith('sparkbeam') and name.startswith({new}):\n"
            "        raise ImportError(f'{name} in {place}')\n"
            "    return given(name, globals, *rest, **named)\n"
            "builtins.__import__ = checked\n"
            "import sparkbeam.io, sparkbeam.runner.spark_runner, sparkbeam.worker.batch.stage\n"
        )
        python("-c", program)

    def test_pyspark_makes_a_user_defined_type_of_what_a_schema_says(self) -> None:
        from pyspark.sql import types

        said = {"type": "udt", "class": None, "pyClass": "nowhere.Kind", "sqlType": "long"}
        field = {"name": "x", "type": said, "nullable": True, "metadata": {}}
        with of_spark.no_foreign_types() as met:
            found = types.StructType.fromJson({"type": "struct", "fields": [field]})
        assert (met, found["x"].dataType) == (["nowhere.Kind"], types.LongType())
        with pytest.raises(ImportError):
            types.UserDefinedType.fromJson(said)

    def test_a_partition_is_named_by_what_is_hashed_to_it(self) -> None:
        # As Spark says: SELECT hash(0), hash(1), hash(42).
        assert [of_spark.murmur3(n) for n in (0, 1, 42)] == [933211791, -559580957, 29417773]
        numbers = of_spark.hashed_to(7)
        assert [of_spark.murmur3(n) % 7 for n in numbers] == list(range(7))

    def test_a_row_of_unknown_size_keeps_spark_from_broadcasting_at_once(self, spark: Any) -> None:
        def joined(one: Any, other: Any) -> str:
            return str(one.join(other, "id")._jdf.queryExecution().sparkPlan())

        def with_one() -> Any:
            return spark.range(3).unionAll(of_spark.of_unknown_size(spark))

        assert of_spark.of_unknown_size(spark).toArrow().to_pylist() == [{"id": 0}]
        assert "BroadcastHashJoin" in joined(spark.range(3), spark.range(3))
        assert "SortMergeJoin" in joined(with_one(), with_one())

    def test_a_dataframe_knows_how_large_it_is_believed_to_be(self, spark: Any) -> None:
        assert of_spark.estimated_bytes(spark.range(1000)) == 8000
        assert of_spark.estimated_bytes(None) is None

    def test_the_table_that_a_dataframe_shows(self, spark: Any) -> None:
        """Without it the console shows nothing."""
        table = "+---+\n|id |\n+---+\n|0  |\n+---+\nonly showing top 1 row"
        assert of_spark.drawn(spark.range(2), 1, 0) == table

    def test_a_database_is_reached_as_spark_reaches_it(self, spark: Any) -> None:
        """Without it no rows are updated over JDBC."""
        options = {"URL": "jdbc:derby:memory:upstream;create=true", "dbtable": "t"}
        with of_spark.jdbc_connection(spark, options) as (connection, quote):
            assert connection.createStatement().execute("VALUES 1")
            assert quote("a b") == '"a b"'

    def test_a_plan_tells_which_files_it_reads(self, spark: Any, tmp_path: Path) -> None:
        path = str(tmp_path / "rows")
        spark.range(3).selectExpr("id", "array(id) AS ids", "now() AS at").write.parquet(path)
        rows = spark.read.parquet(path)
        scan = of_scans.parquet_scan(
            rows.selectExpr("ids", "id AS number", "5 AS five", "unix_micros(at) AS micros")
        )
        assert scan is not None
        assert scan.columns == (
            of_scans.ScannedColumn("ids", ""),
            of_scans.ScannedColumn("id", "long"),
            None,
            of_scans.ScannedColumn("at", "timestamp", in_micros=True),
        )
        stats = {str(file): file.stat() for file in Path(path).glob("*.parquet")}
        assert {file.path: file.size for file in scan.files} == {
            name: stat.st_size for name, stat in stats.items()
        }
        assert {file.modified for file in scan.files} == {
            stat.st_mtime_ns // 1_000_000 for stat in stats.values()
        }
        assert not scan.is_table
        assert of_scans.parquet_scan(rows.where("id > 1").select("id")) is None
        assert of_scans.parquet_scan(None) is None

    def test_a_session_tells_its_settings_and_which_one_it_is(self, spark: Any) -> None:
        assert of_scans.sql_settings(spark)["spark.sql.session.timeZone"] == "UTC"
        assert of_scans.sql_settings(None) == {}
        assert of_scans.task_bytes(spark) == 128 << 20
        assert of_scans.hadoop_setting(spark, "no.such.setting") is None
        assert of_scans.same_session(spark, spark.range(1).sparkSession)
        assert not of_scans.same_session(spark, spark.newSession())

    def test_a_session_knows_what_a_stage_has_shuffled(self, spark: Any) -> None:
        spark.sparkContext.setJobGroup("of a test", "")
        spark.range(1000).repartition(2).toArrow()
        tracker = spark.sparkContext.statusTracker()
        jobs = [tracker.getJobInfo(id) for id in tracker.getJobIdsForGroup("of a test")]
        found = [of_spark.stage_data(spark, id) for job in jobs for id in job.stageIds]
        assert sum(stage["written_bytes"] for stage in found) > 0
        (reader,) = (stage for stage in found if stage["read_bytes"])
        assert (reader["tasks"], reader["is_done"]) == (2, True)
        assert 0 < reader["median_bytes"] <= reader["largest_bytes"] <= reader["read_bytes"]

    def test_a_session_knows_the_plans_of_what_has_run(self, spark: Any) -> None:
        spark.sparkContext.setJobGroup("of another test", "")
        spark.range(1000).repartition(2).toArrow()
        tracker = spark.sparkContext.statusTracker()
        jobs = [tracker.getJobInfo(id) for id in tracker.getJobIdsForGroup("of another test")]
        stages = frozenset(id for job in jobs for id in job.stageIds)
        (plan,) = of_spark.executed_plans(spark, stages)
        assert "Exchange" in plan
        assert of_spark.executed_plans(spark, frozenset()) == []

    def test_listeners_take_events_in_the_form_of_the_event_log(self, spark: Any) -> None:
        spark.range(1).count()
        base = "org.apache.spark.sql.execution.ui.SparkListenerSQL"
        node = {"nodeName": "n", "simpleString": "s", "children": [], "metadata": {}, "metrics": []}
        described = {"physicalPlanDescription": "the plan", "sparkPlanInfo": node}
        start = {"description": "of a test", "details": "", "modifiedConfigs": {}, "time": 1}
        id = 1 << 40
        for kind, content in (
            ("ExecutionStart", {"rootExecutionId": id, "jobTags": [], **start, **described}),
            ("AdaptiveExecutionUpdate", {**described, "physicalPlanDescription": "done"}),
            ("ExecutionEnd", {"time": 5, "errorMessage": "it failed"}),
        ):
            of_spark.post_event(spark, {"Event": f"{base}{kind}", "executionId": id, **content})
        store = spark._jsparkSession.sharedState().statusStore()

        def is_over() -> bool:
            found = store.execution(id)
            return bool(found.isDefined() and found.get().completionTime().isDefined())

        until(is_over)
        found = store.execution(id).get()
        assert (found.description(), found.physicalPlanDescription()) == ("of a test", "done")
        assert found.errorMessage().get() == "it failed"

    def test_the_gateway_of_the_driver(self) -> None:
        assert of_spark.has_jvm() in (True, False)

    def test_the_context_takes_a_gateway(self) -> None:
        from pyspark import SparkContext

        names = SparkContext._ensure_initialized.__code__.co_varnames
        assert {"gateway", "conf"} <= set(names)

    def test_a_local_server_of_connect_takes_a_free_port(self) -> None:
        from pyspark.sql.connect.client import core
        from pyspark.sql.connect.session import SparkSession

        before = set(os.environ)
        with of_spark.free_connect_port():
            (variable,) = set(os.environ) - before
        assert variable not in os.environ
        starts = SparkSession._start_connect_server
        # Older ones have no more than one class of it.
        builder: Any = getattr(core, "DefaultChannelBuilder", core.ChannelBuilder)
        assert all(
            f'"{variable}" in os.environ' in inspect.getsource(f)
            for f in (starts, builder.default_port)
        )

    @pytest.mark.skipif(
        not of_spark.has_pandas_state(), reason="streaming pipelines do not run here"
    )
    def test_the_messages_of_map_states(self) -> None:
        from pyspark.sql.streaming import stateful_processor
        from pyspark.sql.streaming.stateful_processor_api_client import StatefulProcessorApiClient

        class Client:
            _stateful_processor_api_client = StatefulProcessorApiClient.__new__(
                StatefulProcessorApiClient
            )

        client: Any = Client._stateful_processor_api_client
        client.sockfile, client.pickleSer = "file", "serializer"
        state = stateful_processor.MapState(Client(), "name")  # type: ignore[arg-type]
        assert of_spark.state_client(state) == ("name", "file", "serializer")

    def test_a_task_s_stream_is_found_by_its_name(self) -> None:
        source = "def main(outfile):\n    return find()\n"
        module: dict[str, Any] = {"__name__": "pyspark.worker", "find": of_spark.output_of_task}
        exec(source, module)
        assert module["main"]("the stream") == "the stream"

    def test_the_jvm_of_a_session_is_a_process_with_a_heap(self, spark: Any) -> None:
        process = of_spark.jvm_process(spark)
        assert process is not None
        assert process.poll() is None
        assert of_spark.heap_bytes(spark) > 100 << 20

    def test_the_server_of_accumulators_prints_no_lost_connection(
        self, spark: Any, capsys: pytest.CaptureFixture[str]
    ) -> None:
        of_spark.hush_accumulators(spark)
        server = spark.sparkContext._accumulatorServer
        for error, printed in ((EOFError("gone"), False), (ValueError("odd"), True)):
            try:
                raise error
            except Exception:
                server.handle_error(None, ("localhost", 1))
            assert (str(error) in capsys.readouterr().err) is printed

    def test_pyspark_s_worker_has_that_name(self) -> None:
        from pyspark import worker

        assert "outfile" in inspect.unwrap(worker.main).__code__.co_varnames

    @pytest.mark.parametrize(
        ("pattern", "text"),
        [
            (of_spark.MISSING_SOURCE, "[DATA_SOURCE_NOT_FOUND] Failed to find the data source"),
            (
                of_spark.OTHER_PLAN,
                "There are [2] sources in the checkpoint offsets and now there are [3] sources",
            ),
            (of_spark.OTHER_PLAN, "[STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA]"),
            (of_spark.MISSING_TABLE, "[TABLE_OR_VIEW_NOT_FOUND] The table or view `no` cannot be"),
            (of_spark.OTHER_VIEW, "`v` is not a temp view of streaming logical plan, please use"),
            (
                of_spark.STARTED_AT_ONCE,
                "SparkConcurrentModificationException: Multiple streaming queries are concurrently "
                "using file:/tmp/checkpoint/metadata.",
            ),
            (
                of_spark.STARTED_AT_ONCE,
                "Multiple streaming queries are concurrently using metadata. FileAlreadyExists",
            ),
            (of_spark.OTHER_VERSION, "java.lang.NoSuchMethodError: 'void x.Y.z()'"),
            (of_spark.OTHER_VERSION, "terminated with exception: 'void x.Y.<init>(x.Z)' SQLSTATE"),
        ],
    )
    def test_texts(self, pattern: Any, text: str) -> None:
        assert pattern.search(text)


class TestCrossLanguage:
    """Without these, transforms of other languages download archives before they are refused."""

    def test_all_of_them_ask_for_a_service_in_one_place(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked: list[Any] = []

        def check(pipeline: Any, constructed: Any) -> None:
            assert constructed is None
            asked.append(pipeline)
            raise LookupError

        kind = external.ExternalTransform
        provider = external_transform_provider.ExternalTransformProvider
        monkeypatch.setattr(kind, "service", staticmethod(kind.service))
        monkeypatch.setattr(provider, "__init__", provider.__init__)
        of_external.before_services(check)
        pipeline = beam.Pipeline()
        for transform in (
            kind("a", b"", "localhost:9"),
            external.SchemaAwareExternalTransform("a", "localhost:9"),
            external.JavaExternalTransform("A", "localhost:9").of(),
        ):
            assert of_external.is_external(transform)
            with pytest.raises(LookupError):
                _ = pipeline | transform
        assert asked == [pipeline] * 3

    def test_the_arguments_of_a_constructor_are_replaced(self) -> None:
        class Kind(beam.PTransform[Any, Any]):
            def __init__(self, first: Any, second: Any = 5) -> None:
                self.given = first, second

        def doubled(name: str, given: Any) -> Any:
            assert name == "Kind"
            return {at: 2 * value for at, value in given.items()}

        of_external.before_constructor(Kind, doubled)
        of_external.before_constructor(Kind, doubled)
        assert [Kind(1).given, Kind(1, second=2).given] == [(2, 5), (2, 4)]

    def test_their_urns_are_found(self) -> None:
        read = managed.Read(managed.ICEBERG, config={})
        assert "iceberg" in of_external.urn_of(read)
        assert of_external.urn_of(external.ExternalTransform("a", b"", "b:9")) == "a"
        assert not of_external.urn_of(beam.Create([1]))


def test_spark_replaces_files_of_a_checkpoint_without_checksums(spark: Any, tmp_path: Path) -> None:
    """Else a micro-batch that runs again could keep the state of its first run."""
    java: Any = of_spark.jvm(spark)
    conf = java.org.apache.hadoop.conf.Configuration()
    for name, value in of_spark.WITHOUT_CHECKSUMS.items():
        conf.set(name, value)
    package = java.org.apache.spark.sql.execution.streaming.checkpointing
    managers = getattr(getattr(package, "CheckpointFileManager$"), "MODULE$")
    path = java.org.apache.hadoop.fs.Path(f"file://{tmp_path}/1.changelog")
    manager = managers.create(path.getParent(), conf)

    def write(content: bytes, *, over: bool) -> None:
        file = manager.createAtomic(path, over)
        file.write(bytearray(content))
        file.close()

    write(b"first", over=True)
    write(b"second", over=True)
    with pytest.raises(Exception, match="FileAlreadyExistsException"):
        write(b"third", over=False)
    assert (tmp_path / "1.changelog").read_bytes() == b"second"
    assert not any(tmp_path.glob("*.crc"))


def test_dead_letters_come_from_the_parts_that_are_replaced() -> None:
    handler = beam.Map(str).with_exception_handling(main_tag="here").transform
    kind = type(handler)
    assert f"{kind.__module__}.{kind.__qualname__}" in registered(REPLACEMENTS)
    assert handler._main_tag == "here"
    assert isinstance(handler._fn, beam.DoFn)
    pcoll = beam.Pipeline() | beam.Create([1])
    assert isinstance(handler._build_pardo(pcoll), beam.ParDo)
    assert callable(handler._post_process_result)


class TestParserOfSql:
    """Without these, Calcite's POSITION and the types of its functions are sqlglot's own."""

    def test_an_operand_and_a_type(self) -> None:
        sqlglot = pytest.importorskip("sqlglot")
        from sqlglot.optimizer.annotate_types import annotate_types

        from sparkbeam_sql.calcite_dialect import Calcite
        from sparkbeam_sql.upstream import with_type

        tree = sqlglot.parse_one("SELECT POSITION('a' IN b FROM c + 1)", dialect=Calcite)
        assert tree.selects[0].args["position"].sql() == "c + 1"
        tree = sqlglot.parse_one("SELECT FLOOR(a), IF(a, b)", dialect=Calcite)
        assert [call.meta["col"] for call in tree.selects] == [12, 19]
        whole = sqlglot.exp.DataType.build("INT")
        rule = {"annotator": lambda annotator, node: with_type(annotator, node, whole)}
        tree = sqlglot.parse_one("SELECT MD5(a)")
        typed = annotate_types(tree, expression_metadata={sqlglot.exp.MD5: rule})
        assert typed.selects[0].find(sqlglot.exp.MD5).type.sql() == "INT"
