"""``ReadFromJdbc`` and ``WriteToJdbc`` over Spark's JDBC source and sink."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Optional

import apache_beam as beam
from apache_beam.coders import RowCoder
from apache_beam.io import jdbc
from apache_beam.pvalue import PBegin, PCollection, PDone
from apache_beam.typehints.row_type import RowTypeConstraint
from apache_beam.typehints.schemas import named_tuple_from_schema, typing_to_runner_api
from pyspark.sql import types as st

from sparkbeam.common import arguments
from sparkbeam.common.display_text import shortened
from sparkbeam.common.step_errors import errors_naming
from sparkbeam.connectors import resolve
from sparkbeam.connectors.problems import spark_cannot
from sparkbeam.connectors.schemas import row_constraint, row_type, spark_field
from sparkbeam.errors import ConfigurationError
from sparkbeam.hooks.managed_config import SECRET_MANAGER, no_secret_manager
from sparkbeam.io.write import to_function, to_writer
from sparkbeam.plan.labels import applied_label
from sparkbeam.plan.row_types import schema_in
from sparkbeam.upstream.external import arguments_of, classpath_of
from sparkbeam_tables.catalog_reads import TableRows, reading
from sparkbeam_tables.database_client import StatementWriter
from sparkbeam_tables.database_inserts import InsertRows
from sparkbeam_tables.database_tables import TIME, DatabaseTable
from sparkbeam_tables.database_values import Fields, Typed
from sparkbeam_tables.databases import Database, check_statements

_BATCH = 1000
_MOST = (1 << 31) - 1


@dataclass(frozen=True)
class JdbcRead:
    """Arguments of a read.

    Attributes:
        table: the table; empty for a query.
        query: the query; empty for a table.
        fetch_size: the number of rows that are fetched at once; None for the default.
        partition_column: the column that divides the rows; None to read them in one task.
        partitions: the number of parts; None for the number of cores.
        spread: the rows are distributed over all workers once they are read.
        element_type: the NamedTuple class of the rows; None for one made of the columns.
    """

    database: Database
    table: str = ""
    query: str = field(default="", repr=False)
    fetch_size: int | None = None
    partition_column: str | None = None
    partitions: int | None = None
    spread: bool = False
    element_type: Any = None

    def __post_init__(self) -> None:
        """Raise a ConfigurationError if there is nothing to read, or a number is below 1."""
        if not self.table.strip() and not self.query.strip():
            raise ConfigurationError("table_name is empty: give the table, or a query.")
        _check_numbers(fetch_size=self.fetch_size, partitions=self.partitions)


@dataclass(frozen=True)
class JdbcWrite:
    """Arguments of a write.

    Attributes:
        table: the table; empty if there is a statement.
        statement: the SQL statement for a row; empty to insert it into the table.
        batch_size: the number of rows that are sent at once; None for the default.
    """

    database: Database
    table: str = ""
    statement: str = field(default="", repr=False)
    batch_size: int | None = None

    def __post_init__(self) -> None:
        """Raise a ConfigurationError if there is no table to write to, or a number is below 1."""
        if not self.table.strip() and not self.statement.strip():
            raise ConfigurationError("table_name is empty: give the table, or a statement.")
        _check_numbers(write_batch_size=self.batch_size)


def _check_numbers(**given: int | None) -> None:
    for name, value in given.items():
        if value is not None:
            arguments.whole_number(name, value, least=1, most=_MOST)


def read(transform: Any, pipeline: beam.Pipeline) -> "beam.PTransform[Any, Any]":
    """Return the replacement of a ``ReadFromJdbc``."""
    row = arguments_of(transform)
    given = _config(row)
    known = row["dataSchema"]
    kind = None if known is None else named_tuple_from_schema(schema_in(known))
    query = given.get("read_query")
    return ReadFromDatabase(
        JdbcRead(
            _database(given, classpath_of(transform)),
            "" if query else row["location"],
            query or "",
            given.get("fetch_size"),
            given.get("partition_column"),
            given.get("partitions"),
            bool(given.get("output_parallelization")),
            kind,
        )
    )


def write(transform: Any, pipeline: beam.Pipeline) -> "beam.PTransform[Any, Any]":
    """Return the replacement of a ``WriteToJdbc``."""
    row = arguments_of(transform)
    given = _config(row)
    return WriteToDatabase(
        JdbcWrite(
            _database(given, classpath_of(transform)),
            row["location"],
            given.get("write_statement") or "",
            given.get("write_batch_size"),
        )
    )


def _config(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments that Beam has encoded."""
    schema = typing_to_runner_api(jdbc.Config).row_type.schema
    found = RowCoder(schema).decode(row["config"])
    return {name: getattr(found, name) for name in found._fields}


def _database(given: Mapping[str, Any], classpath: Sequence[str]) -> Database:
    jars = [jar for jar in classpath if jar not in jdbc.DEFAULT_JDBC_CLASSPATH]
    jars += jars_of(given.get("driver_jars"))
    if given.get(SECRET_MANAGER):
        raise ConfigurationError(no_secret_manager(SECRET_MANAGER, "password"))
    most = given.get("max_connections")
    return Database(
        given["jdbc_url"],
        given.get("driver_class_name") or "",
        given.get("username") or "",
        given.get("password") or "",
        properties_of(given.get("connection_properties")),
        tuple(given.get("connection_init_sqls") or ()),
        tuple(jars),
        int(most) if most is not None and most > 0 else None,
    )


def properties_of(text: str | None) -> tuple[tuple[str, str], ...]:
    """Parse the properties of a connection, ``name=value;name=value``."""
    parts = [part.strip().partition("=") for part in (text or "").split(";") if part.strip()]
    return tuple((name.strip(), value.strip()) for name, _, value in parts)


def jars_of(text: str | None) -> list[str]:
    """Parse the archives of a driver, ``jar,jar``."""
    return [part.strip() for part in (text or "").split(",") if part.strip()]


class ReadFromDatabase(beam.PTransform[PBegin, PCollection[Any]]):
    """Reads the rows of a table or a query."""

    def __init__(self, arguments: JdbcRead) -> None:
        super().__init__()
        self._arguments = arguments

    def expand(self, pbegin: PBegin) -> PCollection[Any]:
        pipeline = pbegin.pipeline
        label = applied_label(pipeline)
        with errors_naming(label):
            frame, texts = self._frame(resolve.session_of(pipeline), label)
        options = tuple(self._arguments.database.options().items())
        rows = pbegin | "Read" >> reading(pipeline, TableRows(frame), options)
        kind = self._arguments.element_type
        if kind is not None:
            with errors_naming(label):
                typed = _of_class(kind, frame.schema, texts)
            rows = rows | "Convert" >> beam.Map(typed).with_output_types(kind)
        elif texts:
            output = _with_texts(row_type(frame.schema), texts)
            rows = rows | "Convert" >> beam.Map(Typed(texts)).with_output_types(output)
        return rows | "Spread" >> beam.Reshuffle() if self._arguments.spread else rows

    def _frame(self, session: Any, label: str) -> tuple[Any, dict[str, str]]:
        given = self._arguments
        query = given.query.strip().rstrip(";")
        source = f"({query}\n) rows_of_query" if query else given.table
        options = tuple(given.database.options().items())
        given.database.prepare(session)
        what = "the query" if query else f"the table {arguments.shown(source)}"
        with spark_cannot(f"read {what}", "jdbc", options):
            check_statements(session, given.database)
            return DatabaseTable(given.database, source).frame(
                session,
                step=label,
                fetch_size=given.fetch_size,
                partition_column=given.partition_column,
                partitions=given.partitions,
            )


def _with_texts(rows: RowTypeConstraint, texts: Mapping[str, str]) -> RowTypeConstraint:
    """Return the type of rows whose texts are converted."""
    # A coder of Beam's would round times of day to milliseconds.
    kinds: dict[str, Any] = dict(rows._fields)
    for name, kind in texts.items():
        kinds[name] = Any if kind == TIME else Optional[Decimal]  # noqa: UP045
    return RowTypeConstraint.from_fields([*kinds.items()])


def _of_class(kind: Any, schema: st.StructType, texts: Mapping[str, str]) -> Typed:
    """Return the function from rows of columns to those of a NamedTuple class."""
    if len(kind._fields) != len(schema):
        raise ConfigurationError(
            f"schema has {len(kind._fields)} fields ({arguments.listed(kind._fields)}), but the "
            f"rows have {len(schema)} columns ({arguments.listed(schema.names)})."
        )
    return Typed(texts, kind)


class WriteToDatabase(beam.PTransform[PCollection[Any], PDone]):
    """Writes rows into a table, or with a statement."""

    def __init__(self, arguments: JdbcWrite) -> None:
        super().__init__()
        self._arguments = arguments

    def expand(self, rows: PCollection[Any]) -> PDone:
        given = self._arguments
        with errors_naming(applied_label(rows.pipeline)):
            kinds = kinds_of(rows.element_type)
            if given.statement or given.database.init_sqls:
                return self._by_statement(rows, tuple(kinds))
            columns = [_column(name, kind, given.database.scheme) for name, kind in kinds.items()]
        texts = frozenset(column.name for column, is_text in columns if is_text)
        if texts:
            rows = rows | "Texts" >> beam.Map(Fields(tuple(kinds), texts))
        return to_function(
            rows,
            st.StructType([column for column, _ in columns]),
            InsertRows(given.database, given.table, given.batch_size),
            "jdbc",
            tuple(given.database.options().items()),
        )

    def _by_statement(self, rows: PCollection[Any], names: tuple[str, ...]) -> PDone:
        given = self._arguments
        marks = ", ".join("?" * len(names))
        writer = StatementWriter(
            given.database.url,
            (given.database.user, given.database.password),
            given.database.properties,
            given.database.init_sqls,
            given.statement or f"INSERT INTO {given.table} VALUES ({marks})",
            names,
            given.batch_size or _BATCH,
        )
        writer.check()
        return to_writer(rows, writer, tuple(given.database.options().items()))


def kinds_of(element_type: Any) -> dict[str, Any]:
    """Return the types of a row's fields.

    Raises:
        ConfigurationError: the type has none.
    """
    rows = row_constraint(element_type)
    if rows is None:
        raise ConfigurationError(
            f"The elements are of type {shortened(str(element_type), 100)}, but a table needs rows "
            "with a schema: use beam.Row(…) or a NamedTuple, with with_output_types(…)."
        )
    return dict(rows._fields)


def _column(name: str, kind: Any, scheme: str) -> tuple[st.StructField, bool]:
    """Return the column of a field, and whether its values become texts."""
    found = spark_field(name, kind)
    if found is None:
        return st.StructField(name, st.StringType()), True
    if isinstance(found.dataType, (st.MapType, st.StructType)):
        raise ConfigurationError(
            f"The field {arguments.shown(name)} is of type {shortened(str(kind), 60)}, but tables "
            "have no column of that type: write it as a string, for example with json.dumps."
        )
    if isinstance(found.dataType, st.ArrayType):
        if scheme != "postgresql":
            raise ConfigurationError(
                f"The field {arguments.shown(name)} is a list, but only PostgreSQL has arrays: "
                "write it as a string, for example with json.dumps."
            )
        return st.StructField(name, st.StringType()), True
    return found, False
