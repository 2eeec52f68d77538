"""The engines of SQL: Spark, expressions for each row, and Beam's transforms in windows."""

import pickle
import tempfile
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any, get_type_hints

import apache_beam as beam
import numpy as np
from apache_beam.testing.util import assert_that
from apache_beam.transforms.window import FixedWindows, GlobalWindows, TimestampedValue
from apache_beam.utils.timestamp import Timestamp
from in_process_batch import BatchRunner

from sparkbeam.connectors.query_frames import queried, timed
from sparkbeam.connectors.schemas import without_none
from sparkbeam_sql.calcite import parse
from sparkbeam_sql.calcite_steps import steps_of
from sparkbeam_sql.lowered import Lowered
from sparkbeam_sql.rows import SqlRows
from sparkbeam_sql.user_functions import builtins

Rows = list[tuple[Any, ...]]


def same(value: Any) -> Any:
    """Return a value in a form that is equal to the same one of another engine."""
    if isinstance(value, list | tuple):
        return [same(each) for each in value]
    if isinstance(value, dict):
        return {key: same(each) for key, each in value.items()}
    if isinstance(value, bytes | bytearray):
        return bytes(value)
    if isinstance(value, Decimal):
        return Decimal, f"{value.normalize() + 0:f}"
    if isinstance(value, float | np.floating):
        # The last digits of powers are those of a library in C, and of another one in Java.
        return float, f"{float(value) + 0.0:.13g}"
    if isinstance(value, Timestamp | datetime):
        time = value.to_utc_datetime() if isinstance(value, Timestamp) else value
        return time.replace(tzinfo=None).isoformat(" ")
    return value.item() if isinstance(value, np.generic) else value


def shown(value: Any) -> str:
    """Return the text of a value that :func:`same` has returned, in tables of results."""
    match value:
        case None:
            return "NULL"
        case (kind, text) if kind is Decimal:
            return f"{text} decimal"
        case (kind, text) if kind is float:
            return f"{text} double"
        case list():
            return f"[{', '.join(map(shown, value))}]"
        case dict():
            return f"{{{', '.join(f'{key}: {shown(each)}' for key, each in value.items())}}}"
    return repr(value)


def alike(rows: Any) -> Rows:
    """Return rows in an order, with values as by :func:`same`."""
    return sorted((tuple(map(same, row)) for row in rows), key=repr)


def by_spark(spark: Any, query: str, kind: Any, rows: Sequence[Any]) -> Rows:
    """Return the result of a query by Spark over one table."""
    table = _table(beam.Pipeline(runner=BatchRunner()), kind, rows)
    types = {"PCOLLECTION": table.types}
    parsed = parse(query, types)
    text = parsed.spark_sql(types)
    data = [(*map(_to_spark, row), 0) for row in rows]
    frame = spark.createDataFrame(data, timed(table.schema)) if parsed.tables else None
    found = queried(spark, text, [frame] if parsed.tables else [], builtins(text, "Query"))
    return alike(row[:-1] for row in found.collect())


def _to_spark(value: Any) -> Any:
    if isinstance(value, Timestamp):
        return value.to_utc_datetime()
    return value.item() if isinstance(value, np.generic) else value


def _table(
    pipeline: beam.Pipeline, kind: Any, rows: Sequence[Any], *, numpy: bool = False
) -> SqlRows:
    created = pipeline | beam.Create(rows).with_output_types(kind)
    if numpy:
        created |= beam.Map(_with_numpy_scalars).with_output_types(kind)
    return SqlRows.of(created, "PCOLLECTION")


def _with_numpy_scalars(row: Any) -> Any:
    """Return a row with scalars of the NumPy types that its fields name or correspond to."""
    types = {bool: np.bool_, int: np.int64, float: np.float64}
    hints = get_type_hints(type(row))
    return type(row)(*map(partial(_as_numpy, types), hints.values(), row))


def _as_numpy(types: Mapping[type, type], hint: Any, value: Any) -> Any:
    kind = without_none(hint)[0]
    kind = types.get(kind, kind)
    is_scalar = isinstance(kind, type) and issubclass(kind, np.generic)
    return kind(value) if is_scalar and value is not None else value


def by_steps(
    query: str, kind: Any, rows: Sequence[Any], *, windows: bool = False, numpy: bool = False
) -> Rows:
    """Return the result of a query by steps of Beam.

    Args:
        query: the query.
        kind: the type of the rows.
        rows: the rows.
        windows: all rows are in one window of a second.
        numpy: numbers and truth values of the rows are NumPy scalars.
    """
    with tempfile.TemporaryDirectory() as folder:
        pipeline = beam.Pipeline(runner=BatchRunner())
        table = _table(pipeline, kind, rows, numpy=numpy)
        parsed = parse(query, {"PCOLLECTION": table.types})
        steps = steps_of(parsed, {"PCOLLECTION": table.kinds})
        given = _in_window(table.pcollection) if windows else table.pcollection
        result = Lowered(pipeline, {"PCOLLECTION": given}).result(steps, parsed.columns)
        path = Path(folder) / "rows"
        everything = result | "All" >> beam.WindowInto(GlobalWindows())
        assert_that(everything, lambda found: path.write_bytes(pickle.dumps(alike(found))) and None)
        pipeline.run().wait_until_finish()
        found: Rows = pickle.loads(path.read_bytes())
    for row in found:
        for value, each in zip(steps.values, row, strict=True):
            assert value.nullable or each is not None, (query, value)
    return found


def _in_window(rows: Any) -> Any:
    stamped = rows | "Stamp" >> beam.Map(lambda row: TimestampedValue(row, 5)).with_output_types(
        rows.element_type
    )
    return stamped | "Window" >> beam.WindowInto(FixedWindows(1))


Engine = Callable[[str, Any, Sequence[Any]], Rows]
"""Function of a query, the type of the rows, and the rows."""


def engines(spark: Any) -> dict[str, Engine]:
    """Return the engines by name, without Spark if there is no session."""
    of_spark: dict[str, Engine] = {"spark": partial(by_spark, spark)} if spark is not None else {}
    return of_spark | {
        "rows": by_steps,
        "numpy": partial(by_steps, numpy=True),
        "windows": partial(by_steps, windows=True),
    }
