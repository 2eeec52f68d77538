"""Beam's ``SqlTransform``, without an expansion service.

A query runs in one of three ways:

- In windows and streams, or with dead letters: as steps of Beam (:mod:`.calcite_steps`,
  :mod:`.lowered`).
- In batch, over one table row by row: as such steps too, whose expressions run over columns.
- Any other in batch: by Spark SQL. The rows of PCollections are its tables, and its result is a
  source of the pipeline; see :mod:`sparkbeam.plan.queried_sources`.
"""

import re
from collections.abc import Mapping
from copy import copy
from typing import TYPE_CHECKING, Any

import apache_beam as beam
from apache_beam.options.pipeline_options import StandardOptions
from apache_beam.pipeline import Pipeline
from apache_beam.pvalue import PBegin, PCollection
from apache_beam.transforms.core import Windowing
from apache_beam.transforms.window import GlobalWindows
from pyspark.sql.types import StructType

from sparkbeam.common.arguments import one_of, shown
from sparkbeam.connectors import query_frames, resolve
from sparkbeam.connectors.problems import spark_cannot
from sparkbeam.errors import ConfigurationError, UnsupportedTransform
from sparkbeam.io.read import ReadFromSpark
from sparkbeam.io.write import to_table
from sparkbeam.plan.labels import applied_label
from sparkbeam.plan.spark_io import READ_URN, QueryFunction, ReadSpec
from sparkbeam.spark.session import SparkNotStartedError
from sparkbeam.upstream.external import arguments_of
from sparkbeam.upstream.spark import unlogged
from sparkbeam_sql.rows import SqlRows, decoded, is_whole, result_type
from sparkbeam_sql.user_functions import SqlFunction, builtins

if TYPE_CHECKING:
    from sparkbeam_sql.lowered import Lowered

_CALCITE = "calcite"
_SETTINGS = re.compile(r"\s*(?:SET\b[^;]*(?:;\s*|$))*", re.IGNORECASE)
_READ_TABLES = (
    "Read tables with transforms, such as managed.Read, ReadFromSpark or ReadFromParquet, and pass "
    "their rows by name: {'orders': orders} | SqlTransform(…)."
)


def replacing(transform: Any, pipeline: Pipeline) -> "SparkSql":
    """Return the transform that stands in for Beam's ``SqlTransform``."""
    return SparkSql(**arguments_of(transform))


def yaml_type(
    query: str, dialect: str | None = None, ddl: str | None = None, error_handling: Any = None
) -> Any:
    """Run a query in Beam SQL, in Calcite's dialect.

    Args:
        ddl: statements with SET, which have no effect.
        error_handling: not supported.
    """
    if error_handling is not None:
        raise ConfigurationError(
            "Sql: error_handling is not supported. Use MapToFields or Filter with language: python "
            "for the expressions that fail, or with_sql_dead_letters in a Python pipeline."
        )
    return "Sql" >> SparkSql(query, dialect, ddl)


def with_functions(transform: Any, functions: Mapping[str, SqlFunction]) -> "SparkSql":
    """Return the query of Beam's ``SqlTransform`` with functions.

    Raises:
        ConfigurationError: SQL has a function of the name of one of them.
    """
    from sparkbeam_sql import calcite_calls

    for function in functions.values():
        calcite_calls.check_name(function.name)
    return SparkSql(**arguments_of(transform), functions=functions)


class SparkSql(beam.PTransform[Any, PCollection[Any]]):
    """A query in Beam SQL, in Calcite's dialect, over PCollections with schemas.

    The input of a single PCollection is the table ``PCOLLECTION``; those of a dictionary have its
    keys as names, and those of a tuple their numbers.

    Args:
        dialect: ``"calcite"``, or None.
        ddl: statements that set options of Beam's planner, which have no effect. External tables
            are not declared in SQL.
        functions: in Python, by their names in lower case.

    Raises:
        ConfigurationError: when it is created or applied: the query is not valid.
        UnsupportedTransform: when it is applied: a clause has no counterpart.
    """

    def __init__(
        self,
        query: str,
        dialect: str | None = None,
        ddl: str | None = None,
        functions: Mapping[str, SqlFunction] | None = None,
    ) -> None:
        super().__init__()
        self._functions = functions or {}
        self._query = query
        self._ddl = ddl
        self._applied = ""
        self._dead_letters = False
        if dialect is not None:
            one_of("dialect", dialect.lower() if isinstance(dialect, str) else dialect, (_CALCITE,))

    def default_label(self) -> str:
        return "SqlTransform"

    def with_dead_letters(self) -> "SparkSql":
        """Return the query with a second output, of the rows on which an expression fails."""
        found = copy(self)
        found._dead_letters = True
        return found

    def expand(self, inputs: Any) -> Any:
        from sparkbeam_sql import calcite
        from sparkbeam_sql.calcite_dialect import QueryRefused

        pipeline, tables = _tables(inputs)
        resolve.require_spark(pipeline, "SqlTransform")
        self._applied = applied_label(pipeline)
        try:
            if _SETTINGS.fullmatch(str(self._ddl or "")) is None:
                raise QueryRefused("ddl other than SET", _READ_TABLES)
            rows = {name: SqlRows.of(each, name) for name, each in tables.items()}
            types = {name: each.types for name, each in rows.items()}
            query = calcite.parse(self._query, types, self._functions)
            read = {name: rows[name] for name in query.tables}
            if self._dead_letters:
                lowered = self._lowered(pipeline, read)
                return lowered.result(self._steps(query, read), query.columns), lowered.failed()
            return self._result(pipeline, query, read)
        except QueryRefused as refused:
            raise UnsupportedTransform(
                self._applied, f"SQL on Spark does not support {refused.clause}.", refused.remedy
            ) from None
        except ConfigurationError as error:
            raise ConfigurationError(f"'{self._applied}': {error}") from None

    def _result(
        self, pipeline: Pipeline, query: Any, read: Mapping[str, SqlRows]
    ) -> PCollection[Any]:
        """Return the rows of a query."""
        from sparkbeam_sql.calcite import has_windows

        is_windowed = has_windows(query) or _is_windowed(pipeline, read)
        lower = self._steps if is_windowed else self._row_by_row
        steps = lower(query, read)
        if steps is not None:
            return self._lowered(pipeline, read).result(steps, query.columns)
        # Of its own tables Spark finds out itself which columns it needs.
        read = {
            name: each if _is_of_spark(each) else each.narrowed(query.reads)
            for name, each in read.items()
        }
        text = query.spark_sql({name: each.types for name, each in read.items()})
        try:
            found = self._analyzed(pipeline, text, read)
        except SparkNotStartedError as error:
            # The steps of windows have the types; not all that Spark runs has steps.
            try:
                return self._lowered(pipeline, read).result(self._steps(query, read), query.columns)
            except Exception:
                raise error from None
        schema = StructType()
        for name, field in zip(query.columns, found.fields, strict=True):
            schema.add(name, field.dataType, field.nullable)
        return self._queried(pipeline, text, read, schema)

    def _analyzed(self, pipeline: Pipeline, text: str, read: Mapping[str, SqlRows]) -> StructType:
        session = resolve.session_of(pipeline)
        schemas = [each.schema for each in read.values()]
        with spark_cannot("analyze the query", "", ()), unlogged():
            return query_frames.schema_of(session, text, schemas, self._of_spark(text))

    def _queried(
        self, pipeline: Pipeline, text: str, read: Mapping[str, SqlRows], schema: StructType
    ) -> PCollection[Any]:
        schemas = {name: query_frames.timed(each.schema) for name, each in read.items()}
        cells = {
            f"{at:04}": each.encoded() | f"Table {name}" >> _Table(schemas[name])
            for at, (name, each) in enumerate(read.items())
        }
        spec = ReadSpec(
            query=text,
            columns=tuple(schema.names),
            inputs=tuple(each.json() for each in schemas.values()),
            functions=self._of_spark(text),
        )
        result = (cells or pipeline) | "Query" >> _Query(spec, result_type(schema))
        return decoded(result, schema, read.values())

    def _of_spark(self, query: str) -> tuple[QueryFunction, ...]:
        given = (function.of_spark(self._applied) for function in self._functions.values())
        return (*given, *builtins(query, self._applied))

    def _aliases(self) -> dict[str, SqlFunction]:
        return {each.alias: each for each in self._functions.values()}

    def _steps(self, query: Any, read: Mapping[str, SqlRows]) -> Any:
        from sparkbeam_sql.calcite_steps import steps_of

        return steps_of(query, {name: each.kinds for name, each in read.items()}, self._aliases())

    def _row_by_row(self, query: Any, read: Mapping[str, SqlRows]) -> Any:
        """Return the steps of a query that looks at one row at a time; None for another.

        None too for rows of Spark's, and for functions of the user, whose results Spark's types
        limit. Other rows would be kept, go to Spark and come back.
        """
        from sparkbeam_sql.calcite_dialect import QueryRefused
        from sparkbeam_sql.steps import Scan

        if self._functions or any(map(_is_of_spark, read.values())):
            return None
        try:
            steps = self._steps(query, read)
        except QueryRefused:
            return None
        return steps if isinstance(steps.step, Scan) else None

    def _lowered(self, pipeline: Pipeline, read: Mapping[str, SqlRows]) -> "Lowered":
        from sparkbeam_sql.lowered import Lowered

        tables = {name: each.pcollection for name, each in read.items()}
        return Lowered(pipeline, tables, self._aliases(), dead_letters=self._dead_letters)


def _is_windowed(pipeline: Pipeline, read: Mapping[str, SqlRows]) -> bool:
    """Return whether a query is about panes of windows, or a stream."""
    if pipeline.options.view_as(StandardOptions).streaming:
        return True
    inputs = [each.pcollection for each in read.values()]
    return not all(each.is_bounded and is_whole(each) for each in inputs)


def _is_of_spark(rows: SqlRows) -> bool:
    """Return whether rows may be those of a DataFrame, as Spark has it."""
    maker = rows.pcollection.producer
    return maker is None or isinstance(maker.transform, ReadFromSpark | _Query)


class _Table(beam.PTransform[PCollection[Any], PCollection[Any]]):
    def __init__(self, schema: StructType) -> None:
        super().__init__()
        self._schema = schema

    def expand(self, rows: PCollection[Any]) -> PCollection[Any]:
        return to_table(rows, self._schema)


class _Query(beam.PTransform[Any, PCollection[Any]]):
    """A query of tables by Spark."""

    def __init__(self, spec: ReadSpec, element_type: Any) -> None:
        super().__init__()
        self._spec = spec
        self._element_type = element_type

    def expand(self, tables: Any) -> PCollection[Any]:
        pipeline, _ = _tables(tables)
        return PCollection(pipeline, element_type=self._element_type, is_bounded=True)

    def get_windowing(self, inputs: Any) -> Windowing:
        return Windowing(GlobalWindows())

    def to_runner_api_parameter(self, unused_context: Any) -> tuple[str, bytes]:
        return READ_URN, self._spec.pack()


def _tables(inputs: Any) -> tuple[Pipeline, dict[str, PCollection[Any]]]:
    """Return the pipeline and the PCollections by the names of their tables."""
    if isinstance(inputs, Pipeline):
        return inputs, {}
    if isinstance(inputs, PBegin):
        return inputs.pipeline, {}
    if isinstance(inputs, PCollection):
        return inputs.pipeline, {"PCOLLECTION": inputs}
    named = inputs.items() if isinstance(inputs, Mapping) else enumerate(inputs)
    tables = {str(name): each for name, each in named}
    for name, each in tables.items():
        if not isinstance(each, PCollection):
            raise ConfigurationError(f"Input {shown(name)} of SqlTransform is not a PCollection.")
    (pipeline,) = {each.pipeline for each in tables.values()}
    if len(tables) == 1:
        tables["PCOLLECTION"] = next(iter(tables.values()))
    return pipeline, tables
