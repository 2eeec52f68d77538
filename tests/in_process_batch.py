"""As much of Spark as a batch pipeline asks for, in this process and without a JVM.

:class:`BatchRunner` runs each pipeline that is not a streaming one over DataFrames of Arrow
tables, in two partitions; the others as :mod:`in_process` does.
"""

import pickle
import zlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from itertools import starmap
from typing import Any
from unittest import mock

import pyarrow as pa
import pyarrow.compute as pc
from apache_beam.internal.cloudpickle import cloudpickle
from in_process import CORES, Spark

from sparkbeam import SparkRunner
from sparkbeam.batch.small_pipelines import roots_and_others
from sparkbeam.plan.join_payload import JoinSpec
from sparkbeam.plan.model import Plan
from sparkbeam.plan.small_sides import SmallSide
from sparkbeam.run.result import SparkPipelineResult
from sparkbeam.wire.rows import METRICS_TAG, SCHEMA
from sparkbeam.wire.timestamps import MIN_MICROS

Partitions = list[pa.Table]


@dataclass(frozen=True, eq=False)
class Column:
    """``functions.col``."""

    name: str

    def cast(self, kind: str) -> "Column":
        return self

    def __eq__(self, other: Any) -> Any:
        return self.name, [other]

    def isin(self, values: list[int]) -> Any:
        return self.name, values


class Frame:
    """A DataFrame."""

    def __init__(self, partitions: Callable[[], Partitions]) -> None:
        self._partitions = partitions

    def _each(self, change: Callable[[pa.Table], pa.Table]) -> "Frame":
        return Frame(lambda: [change(table) for table in self._partitions()])

    def mapInArrow(self, function: Any, schema: Any) -> "Frame":
        pickled = cloudpickle.dumps(function)

        def run(number: int, table: pa.Table) -> pa.Table:
            with mock.patch("sparkbeam.worker.batch.stage.partition_id", return_value=number):
                batches = pickle.loads(pickled)(iter(table.to_batches()))
                return pa.Table.from_batches(batches, SCHEMA)

        return Frame(lambda: list(starmap(run, enumerate(self._partitions()))))

    def unionAll(self, other: "Frame") -> "Frame":
        return Frame(lambda: self._partitions() + other._partitions())

    def where(self, condition: tuple[str, list[Any]]) -> "Frame":
        name, values = condition
        return self._each(lambda table: table.filter(pc.is_in(table[name], pa.array(values))))

    def select(self, *columns: str) -> "Frame":
        return self._each(lambda table: table.select(list(columns)))

    def repartition(self, *parts: Any) -> "Frame":
        count, name = parts if len(parts) == 2 else (CORES, *parts)
        return self._spread(name, count, lambda key: zlib.crc32(key or b""))

    def coalesce(self, count: int) -> "Frame":
        return Frame(lambda: [self.toArrow()])

    def repartitionById(self, count: int, column: Column) -> "Frame":
        return self._spread(column.name, count, int)

    def _spread(self, name: str, count: int, place: Callable[[Any], int]) -> "Frame":
        def partitions() -> Partitions:
            whole = pa.concat_tables(self._partitions())
            target = pa.array([place(value) % count for value in whole[name].to_pylist()])
            return [whole.filter(pc.equal(target, number)) for number in range(count)]

        return Frame(partitions)

    def sortWithinPartitions(self, *columns: str) -> "Frame":
        by = [(name, "ascending") for name in columns]
        return self._each(lambda table: table.sort_by(by))

    def persist(self) -> "Frame":
        kept: list[Partitions] = []

        def partitions() -> Partitions:
            if not kept:
                kept.append(self._partitions())
            return kept[0]

        frame = Frame(partitions)
        frame.unpersist = lambda: None  # type: ignore[attr-defined]
        return frame

    def toArrow(self) -> pa.Table:
        return pa.concat_tables(self._partitions())


def joined(session: Any, left: Frame, right: Frame, spec: JoinSpec, *, repeatable: bool) -> Frame:
    """What stands for a join by Spark: ``batch.joining.joined``."""

    def pairs(lefts: pa.Table, rights: pa.Table) -> pa.Table:
        sides: tuple[dict[bytes, list[Any]], ...] = {}, {}
        rows: list[tuple[int, bytes | None, bytes | None, bytes | None, int]] = []
        nobody = None, 0
        for table, by_key in zip((lefts, rights), sides, strict=True):
            for tag, key, order, value in zip(
                *(table[name].to_pylist() for name in table.column_names), strict=True
            ):
                if tag == METRICS_TAG:
                    rows.append((tag, None, None, value, 0))
                else:
                    by_key.setdefault(key, []).append((value, order))
        for key in {*sides[0], *sides[1]}:
            on_left, on_right = (by_key.get(key, []) for by_key in sides)
            if spec.how in ("semi", "anti"):
                on_left = on_left if bool(on_right) is (spec.how == "semi") else []
                on_right = [nobody]
            if spec.how in ("left", "outer"):
                on_right = on_right or [nobody]
            if spec.how in ("right", "outer"):
                on_left = on_left or [nobody]
            rows += [
                (0, key, other, value, kind + 2 * of_other)
                for value, kind in on_left
                for other, of_other in on_right
            ]
        columns = [
            pa.array(column, kind)
            for column, kind in zip(
                zip(*rows, strict=True) if rows else [[]] * 5,
                (pa.int32(), pa.binary(), pa.binary(), pa.binary(), pa.int64()),
                strict=True,
            )
        ]
        return pa.table(columns, names=["tag", "key", "other", "value", "kinds"])

    def partitions() -> Partitions:
        sides = (side.repartition("key")._partitions() for side in (left, right))
        return [pairs(*tables) for tables in zip(*sides, strict=True)]

    return Frame(partitions)


class Look:
    """Stand-in for ``batch.side_probe.MeasuredSide``; each side is small."""

    def __init__(self, side: SmallSide, rows: Frame, limit: int, *, is_kept: bool) -> None:
        self.side = side
        self.rows = rows if is_kept else rows.persist()
        self.is_broadcast = False
        table = self.rows.toArrow()
        keys = table.filter(pc.not_equal(table["tag"], METRICS_TAG))["key"]
        self.keys = keys.combine_chunks().unique() if side.is_for_writers else None

    def release(self) -> None:
        pass


def read_table(tables: Partitions, columns: list[str], timestamp_column: str | None) -> Any:
    """What stands for the DataFrame of a source: ``batch.execution.frames.timed``."""

    def selected(table: pa.Table) -> pa.Table:
        times = pa.repeat(pa.scalar(MIN_MICROS, pa.int64()), table.num_rows)
        if timestamp_column is not None:
            times = table[timestamp_column].cast(pa.timestamp("us", "UTC")).cast(pa.int64())
        return table.select(columns).append_column("time", times)

    return Frame(lambda: list(map(selected, tables)))


class BatchSpark(Spark):
    """A session for pipelines of both kinds."""

    def range(self, start: int, end: int, step: int, count: int) -> Frame:
        numbers = range(start, end, step)
        return Frame(lambda: [pa.table({"id": [number]}) for number in numbers])


class BatchRunner(SparkRunner):
    """Runs each pipeline in process; it has ended when ``run`` returns, if it ever does.

    Args:
        drain: see :class:`SparkRunner`.
        looks: at the sides of joins for which less is read than for the other one, however little.
        small: bytes of rows up to which all stages of a pipeline run in one; None for none.
    """

    def __init__(
        self, *, drain: bool = False, looks: bool = False, small: int | None = None
    ) -> None:
        spark = BatchSpark()
        self._small = small
        if looks:
            spark.conf.set("spark.sql.adaptive.enabled", "true")
            spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "10MB")
        super().__init__(spark, drain=drain)

    def _start(self, plan: Plan, *rest: Any, **named: Any) -> SparkPipelineResult:
        if plan.streaming:
            return super()._start(plan, *rest, **named)
        functions = mock.Mock(col=Column)
        with (
            mock.patch("sparkbeam.worker.batch.small_pipeline.SMALL_BYTES", self._small),
            mock.patch(
                "sparkbeam.batch.execution.roots_and_others",
                (lambda _: None) if self._small is None else roots_and_others,
            ),
            mock.patch("sparkbeam.batch.exchange.sf", functions),
            mock.patch("sparkbeam.batch.execution.sf", functions),
            mock.patch("sparkbeam.batch.execution.joined", joined),
            mock.patch("sparkbeam.batch.execution.MeasuredSide", Look),
            mock.patch("sparkbeam.plan.small_sides._LEAST", 0),
            mock.patch("sparkbeam.plan.small_sides._TIMES_AS_MUCH", 1),
        ):
            result = super()._start(plan, *rest, **named)
            with suppress(Exception):
                result.wait_until_finish()
        return result
