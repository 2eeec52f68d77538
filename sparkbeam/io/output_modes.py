"""Output modes of :class:`.WriteToSpark`, with their data sources and requirements."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql import types as st

from sparkbeam.common import arguments
from sparkbeam.connectors import console
from sparkbeam.connectors.upserts import upserts_of, with_upserts
from sparkbeam.errors import ConfigurationError
from sparkbeam.plan.spark_io import APPEND, COMPLETE, UPDATE, WriteSpec
from sparkbeam.upstream.spark import is_connect

_KEYS = (
    st.BooleanType,
    st.IntegralType,
    st.DecimalType,
    st.StringType,
    st.BinaryType,
    st.DateType,
    st.TimestampType,
    st.TimestampNTZType,
)
_UNSORTED = frozenset(["map", "variant"])
_DIRECTIONS = {"asc": True, "desc": False}
_ONLY_APPENDED = frozenset(["kafka"])
_MEMORY = (
    "keeps its rows in the program that started Spark's own query. Use "
    "ForeachBatch(function, schema), whose function gets the rows as a DataFrame: it can write a "
    "table, frame.write.mode('append').saveAsTable('rows'), or collect them."
)

_OVER_CONNECT = (
    "output_mode='update' over JDBC needs the JVM of Spark's driver, which a session of Spark "
    "Connect cannot reach: use a classic session, output_mode='complete', or ForeachBatch."
)


def check(spec: WriteSpec, session: Callable[[], Any]) -> None:
    """Reject an output mode that the data source lacks.

    Args:
        spec: the user's, without a schema.
        session: returns the session of the pipeline.

    Raises:
        ConfigurationError: the data source does not support it, or an argument is missing.
    """
    problem = _problem(spec)
    if problem is None and spec.output_mode == UPDATE and not spec.table:
        upserts = upserts_of(spec.source)
        if upserts is not None and upserts.needs_jvm and is_connect(session()):
            problem = _OVER_CONNECT
    if problem is not None:
        raise ConfigurationError(problem)
    if spec.source == console.FORMAT:
        console.limits(spec.options)


def of_rows(spec: WriteSpec, schema: st.StructType, order_by: Sequence[str]) -> WriteSpec:
    """Return the spec of a sink with the schema and the order of its rows.

    Args:
        order_by: names of columns, optionally followed by a direction.

    Raises:
        ConfigurationError: the schema has no such column, or its values cannot be compared.
    """
    for name in spec.key:
        if not isinstance(column("key", schema, name).dataType, _KEYS):
            raise ConfigurationError(
                f"key: the column {arguments.shown(name)} has type "
                f"{schema[name].dataType.simpleString()}, which is not supported in a key: use a "
                "column of strings, bytes, integers, decimals, dates or timestamps."
            )
    order = tuple(_ordered(schema, text) for text in order_by)
    spec = replace(spec, schema=schema.json(), order_by=order)
    if not spec.is_complete:
        return spec
    return replace(spec, mode="overwrite", order_by=order or tuple((n, True) for n in spec.key))


def _ordered(schema: st.StructType, text: str) -> tuple[str, bool]:
    """Return a sort column, and whether it is ascending."""
    before, _, direction = text.strip().rpartition(" ")
    is_directed = direction.lower() in _DIRECTIONS and before and text not in schema.names
    name = before.rstrip() if is_directed else text
    if column("order_by", schema, name).dataType.typeName() in _UNSORTED:
        raise ConfigurationError(
            f"order_by: the column {arguments.shown(name)} has a type that cannot be sorted."
        )
    return name, _DIRECTIONS[direction.lower()] if is_directed else True


def _problem(spec: WriteSpec) -> str | None:
    mode = f"output_mode='{spec.output_mode}'"
    if spec.source == "memory":
        return f"Spark's format 'memory' {_MEMORY}"
    if spec.table and spec.source == console.FORMAT:
        return f"the format '{console.FORMAT}' is not supported with table=: omit one of them."
    if spec.output_mode == APPEND:
        return "key=… requires output_mode='update' or 'complete': set one." if spec.key else None
    if not spec.key:
        return f"{mode} needs key=[…], the columns that identify a row, such as key=['id']."
    if spec.mode != APPEND and (spec.output_mode, spec.mode) != (COMPLETE, "overwrite"):
        return f"mode='{spec.mode}' requires output_mode='append': omit it with {mode}."
    if spec.output_mode == COMPLETE and spec.source in _ONLY_APPENDED:
        return f"'{spec.format}' can only append rows: use output_mode='append', not {mode}."
    if spec.output_mode != UPDATE:
        return None
    upserts, tables = upserts_of(spec.source), with_upserts(of_tables=True)
    if spec.table:
        if spec.source in ("", *tables):
            return None
        named = " or ".join(tables) or "a data source with upserts, from a package"
        return f"{mode} with table= requires {named}, not '{spec.format}'."
    if spec.source == console.FORMAT:
        return None
    if upserts is None or upserts.write is None:
        able = ", ".join([*with_upserts(of_tables=False), console.FORMAT])
        able += f" and a table= of {' or '.join(tables)}" if tables else ""
        return (
            f"{arguments.shown(spec.format)[1:-1]} does not support {mode}, only {able} do: "
            "use one of these, output_mode='complete', or ForeachBatch(function, schema)."
        )
    missing = [name for name in upserts.required if not spec.option(name)]
    return (
        f"{mode} of '{spec.format}' needs the option '{missing[0]}': add it." if missing else None
    )


def column(argument: str, schema: st.StructType, name: str) -> st.StructField:
    """Return a column of a schema that an argument names.

    Raises:
        ConfigurationError: there is no such column.
    """
    if name not in schema.names:
        raise ConfigurationError(
            f"{argument}: the schema has no column {arguments.shown(name)}, "
            f"only {arguments.listed(schema.names)}."
        )
    return schema[name]
