"""Types of a database through ``ReadFromJdbc`` and ``WriteToJdbc``, which Beam's own tests name."""

import datetime
import re
import uuid
from collections.abc import Callable
from decimal import Decimal
from typing import Any, NamedTuple

import apache_beam as beam
import pytest
from apache_beam.io.jdbc import ReadFromJdbc, WriteToJdbc
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.utils.timestamp import Timestamp
from database_servers import Sql

from sparkbeam import PipelineFailed, SparkRunner

UUID = "123e4567-e89b-12d3-a456-426614174000"

READ: dict[str, tuple[str, str, Any]] = {
    "smallint": ("smallint", "-3", -3),
    "integer": ("integer", "2147483647", 2147483647),
    "bigint": ("bigint", "-9223372036854775808", -(2**63)),
    "real": ("real", "1.5", 1.5),
    "double": ("double precision", "0.1", 0.1),
    "boolean": ("boolean", "true", True),
    "char": ("char(5)", "'ab'", "ab   "),
    "varchar": ("varchar(9)", "'ü '", "ü "),
    "bytes": ("bytea", r"'\x00ff'", b"\x00\xff"),
    "date": ("date", "'1960-02-29'", datetime.date(1960, 2, 29)),
    "time": ("time", "'10:20:30.123456'", datetime.time(10, 20, 30, 123456)),
    "time with a zone": (
        "timetz",
        "'10:20:30+02'",
        datetime.time(10, 20, 30, tzinfo=datetime.timezone(datetime.timedelta(hours=2))),
    ),
    "timestamp": (
        "timestamp",
        "'2024-03-10 02:30:00.123456'",
        Timestamp.from_rfc3339("2024-03-10T02:30:00.123456Z"),
    ),
    "timestamp with a zone": (
        "timestamptz",
        "'2024-03-10 02:30:00.123456+02'",
        Timestamp.from_rfc3339("2024-03-10T00:30:00.123456Z"),
    ),
    "decimal": ("decimal(10,2)", "-1.23", Decimal("-1.23")),
    "decimal without a precision": (
        "numeric",
        "123456789012345678901234567890123456789012.5",
        Decimal("123456789012345678901234567890123456789012.5"),
    ),
    "uuid": ("uuid", f"'{UUID}'", UUID),
    "json": ("jsonb", """'{"a": 1}'""", '{"a": 1}'),
    "array of integers": ("integer[]", "'{1,NULL,3}'", [1, None, 3]),
    "array of texts": ("text[]", """'{"a b",NULL}'""", ["a b", None]),
    "array of decimals": ("numeric(6,2)[]", "'{1.5}'", [Decimal("1.50")]),
    "array of dates": ("date[]", "'{2020-01-01}'", [datetime.date(2020, 1, 1)]),
    "array of long decimals": ("numeric[]", "'{1.5,NULL}'", [Decimal("1.5"), None]),
    "array of arrays": ("integer[][]", "'{{1,2},{3,NULL}}'", [[1, 2], [3, None]]),
    "array of timestamps": ("timestamp[]", "'{1970-01-01 00:00:01}'", [Timestamp(1)]),
    "array of instants": ("timestamptz[]", "'{1970-01-01 00:00:01+00}'", [Timestamp(1)]),
    "array of times": ("time[]", "'{10:20,NULL}'", ["10:20:00", None]),
    "array of uuids": ("uuid[]", f"'{{{UUID}}}'", [UUID]),
    "array of booleans": ("boolean[]", "'{t}'", [True]),
    "money": ("money", "'1234.5'", "$1,234.50"),
    "interval": ("interval", "'1 year 3 hours'", "1 year 03:00:00"),
    "range": ("int4range", "'[1,5)'", "[1,5)"),
    "ranges": ("int4multirange", "'{[1,2)}'", "{[1,2)}"),
    "network": ("cidr", "'10.0.0.0/8'", "10.0.0.0/8"),
    "one bit": ("bit", "B'1'", True),
    "bits": ("bit(3)", "B'101'", "101"),
    "some bits": ("bit varying(5)", "B'101'", "101"),
    "xml": ("xml", "'<a/>'", "<a/>"),
    "oid": ("oid", "4000000000", Decimal(4000000000)),
    "point": ("point", "'(1,2)'", "(1,2)"),
    "search": ("tsvector", "'a b'", "'a' 'b'"),
    "enum": ("mood", "'happy'", "happy"),
    "array of enums": ("mood[]", "'{happy}'", ["happy"]),
    "domain": ("positive", "5", 5),
    "composite": ("pair", "'(1,a)'", "(1,a)"),
    "infinite float": ("real", "'-Infinity'", float("-inf")),
    "old date": ("date", "'0001-01-01'", datetime.date(1, 1, 1)),
    "late date": ("date", "'9999-12-31'", datetime.date(9999, 12, 31)),
    "old instant": (
        "timestamptz",
        "'1850-02-28 10:00:00.5+00'",
        Timestamp.from_rfc3339("1850-02-28T10:00:00.5Z"),
    ),
}
"""Type, literal and the value in a row."""

TYPES = (
    "CREATE TYPE mood AS ENUM ('happy')",
    "CREATE DOMAIN positive AS int CHECK (VALUE > 0)",
    "CREATE TYPE pair AS (a int, b text)",
)

UNREADABLE: list[tuple[str, str, str]] = [
    ("numeric(10,2)", "'NaN'", "numeric has the value 'NaN'"),
    ("numeric", "'NaN'", "numeric has the value 'NaN'"),
    ("numeric", "'-Infinity'", "numeric has the value '-Infinity'"),
    ("numeric(6,2)[]", "'{1,NaN}'", "_numeric has the value 'NaN'"),
    ("numeric[]", "'{NaN}'", "_numeric has the value 'NaN'"),
    ("date", "'infinity'", "date has the value 'infinity'"),
    ("date", "'0044-03-15 BC'", "date has the value '0044-03-15 BC'"),
    ("date", "'12345-01-01'", "date has the value '12345-01-01'"),
    ("date[]", "'{-infinity}'", "_date has the value '-infinity'"),
    ("timestamp", "'infinity'", "timestamp has the value 'infinity'"),
    ("timestamp", "'0044-03-15 10:00 BC'", "timestamp has the value '0044-03-15 10:00:00 BC'"),
    ("timestamptz", "'-infinity'", "timestamptz has the value '-infinity'"),
    ("timestamptz", "'0044-03-15 10:00+00 BC'", "timestamptz has the value '0044-03-15 .* BC'"),
    ("timestamptz[]", "'{infinity}'", "_timestamptz has the value 'infinity'"),
]
"""Type, literal and the end of the message."""

OF_MARIADB: dict[str, tuple[str, str, Any]] = {
    "uuid": ("uuid", f"'{UUID}'", UUID),
    "address": ("inet6", "'::1'", "::1"),
    "enum": ("enum('a','long')", "'a'", "a"),
    "set": ("set('a','b','c')", "'a,b'", "a,b"),
    "char": ("char(5)", "'ab'", "ab"),
    "json": ("json", "'{}'", "{}"),
    "one bit": ("bit(1)", "1", True),
    "bits": ("bit(16)", "257", 257),
    "no bits": ("bit(9)", "0", 0),
    "year": ("year", "2024", 2024),
    "no year": ("year", "0", 0),
    "tiny": ("tinyint", "-5", -5),
    "boolean": ("boolean", "1", True),
    "unsigned tiny": ("tinyint unsigned", "255", 255),
    "unsigned": ("int unsigned", "4294967295", 4294967295),
    "unsigned big": ("bigint unsigned", "18446744073709551615", Decimal(18446744073709551615)),
    "date": ("date", "'1500-02-28'", datetime.date(1500, 2, 28)),
    "time": ("time(6)", "'10:20:30.123456'", datetime.time(10, 20, 30, 123456)),
    "moment": ("datetime(6)", "'1970-01-01 00:00:01.000001'", Timestamp(micros=1_000_001)),
    "no moment": ("datetime", "'0000-00-00 00:00:00'", None),
    "decimal": ("decimal(10,2)", "-1.5", Decimal("-1.50")),
    "long decimal": ("decimal(65,2)", "1.5", Decimal("1.50")),
    "binary": ("binary(3)", "'ab'", b"ab\0"),
}

UNREADABLE_OF_MARIADB: list[tuple[str, str, str]] = [
    ("date", "'0000-00-00'", "date has the value '0000-00-00'"),
    ("date", "'2024-00-10'", "date has the value '2024-00-10'"),
    ("bit(64)", "~0", "bit has the value 'b'1111"),
    ("time", "'-10:20:30'", "the column 'c' has the value '-10:20:30', which is not a time of day"),
]


def read(spark: Any, sql: Sql, check: Callable[[Any], None], **arguments: Any) -> None:
    with beam.Pipeline(SparkRunner(session=spark)) as p:
        given = {"table_name": "", **sql.server.arguments(), **arguments}
        assert_that(p | "Read" >> ReadFromJdbc(**given), check)


def check_types(spark: Any, sql: Sql, types: dict[str, tuple[str, str, Any]]) -> None:
    """Read a table with a column of each type, with a row of values and one of nulls."""
    columns = [f"c{number} {kind} NULL" for number, (kind, _, _) in enumerate(types.values())]
    sql(f"CREATE TABLE typed ({', '.join(columns)})")
    sql(f"INSERT INTO typed VALUES ({', '.join(value for _, value, _ in types.values())})")
    sql("INSERT INTO typed (c0) VALUES (NULL)")
    expected = {name: value for name, (_, _, value) in types.items()}

    def check(rows: list[Any]) -> None:
        values, nulls = sorted(rows, key=lambda row: row.c0 is None)
        found = dict(zip(expected, values, strict=True))
        assert {name: value for name, value in found.items() if value != expected[name]} == {}
        assert set(nulls) == {None}

    read(spark, sql, check, table_name="typed")


def check_unreadable(spark: Any, sql: Sql, types: list[tuple[str, str, str]]) -> None:
    """Read values that rows do not have, each of which fails."""
    for number, (kind, value, message) in enumerate(types):
        sql(f"CREATE TABLE wrong{number} (id int, c {kind})")
        sql(f"INSERT INTO wrong{number} VALUES (1, {value})")
        found = "no error"
        try:
            read(spark, sql, lambda rows: None, table_name=f"wrong{number}")
        except PipelineFailed as error:
            found = str(error)
        if "time of day" not in message:
            message = f"^Step 'Read' failed: the column 'c' of type {message}.*that casts the"
        assert re.search(message, found), (kind, value, found)


def test_each_type_is_read_exactly(spark: Any, postgresql: Sql) -> None:
    """Every column has a value and a null, in one table."""
    for statement in TYPES:
        postgresql(statement)
    check_types(spark, postgresql, READ)


def test_a_value_that_rows_do_not_have_is_an_error_with_step_column_and_remedy(
    spark: Any, postgresql: Sql
) -> None:
    check_unreadable(spark, postgresql, UNREADABLE)


@pytest.mark.long("a server of its own; test_managed_databases.py reads types of it")
def test_types_of_mariadb_are_read_exactly_or_named(spark: Any, mariadb: Sql) -> None:
    mariadb("SET sql_mode = 'ALLOW_INVALID_DATES'")
    check_types(spark, mariadb, OF_MARIADB)
    check_unreadable(spark, mariadb, UNREADABLE_OF_MARIADB)


class Typed(NamedTuple):
    """A row of every type that Python has for a column."""

    number: int
    ratio: float | None
    flag: bool
    name: str | None
    content: bytes
    day: datetime.date | None
    at: datetime.time
    moment: Timestamp
    instant: Timestamp | None
    price: Decimal | None
    id: Any
    document: str | None
    prices: list[Decimal]
    names: list[str]


TYPED = [
    Typed(
        -(2**63),
        0.1,
        True,
        "ü'\"\\\n",
        b"\x00\xff",
        datetime.date(1960, 2, 29),
        datetime.time(10, 20, 30, 123456),
        Timestamp.from_rfc3339("2024-03-10T02:30:00.123456Z"),
        Timestamp.from_rfc3339("1905-03-10T02:30:00.000001Z"),
        Decimal("12345678901234567890123456789012345678901234567890.12"),
        uuid.UUID(UUID),
        '{"a": 1}',
        [Decimal("1.5"), Decimal(-2)],
        ['a "b', "c,{}\\", ""],
    ),
    Typed(
        1,
        None,
        False,
        None,
        b"",
        None,
        datetime.time(0),
        Timestamp(0),
        None,
        None,
        None,
        None,
        [],
        [],
    ),
]
TABLE = """CREATE TABLE {} (number bigint, ratio double precision, flag boolean, name text,
    content bytea, day date, "At" time, moment timestamp, instant timestamptz, price numeric,
    id uuid, document jsonb, prices numeric[], names text[], more text DEFAULT 'kept')"""


def test_each_type_is_written_exactly_by_the_position_of_its_field(
    spark: Any, postgresql: Sql
) -> None:
    postgresql(TABLE.format("written"))
    with beam.Pipeline(SparkRunner(session=spark)) as p:
        rows = p | beam.Create(TYPED).with_output_types(Typed)
        _ = rows | WriteToJdbc("written", **postgresql.server.arguments())
    postgresql("SET TimeZone = 'UTC'")
    found = postgresql.rows("SELECT * FROM written ORDER BY number")
    assert found == [
        (
            "-9223372036854775808",
            "0.1",
            "t",
            "ü'\"\\\n",
            r"\x00ff",
            "1960-02-29",
            "10:20:30.123456",
            "2024-03-10 02:30:00.123456",
            "1905-03-10 02:30:00.000001+00",
            "12345678901234567890123456789012345678901234567890.12",
            UUID,
            '{"a": 1}',
            "{1.5,-2}",
            r'{"a \"b","c,{}\\",""}',
            "kept",
        ),
        (
            *("1", None, "f", None, r"\x", None, "00:00:00", "1970-01-01 00:00:00"),
            *(None, None, None, None, "{}", "{}", "kept"),
        ),
    ]


class Renamed(NamedTuple):
    """Beam's rows of a schema that a program gives."""

    renamed_id: int
    renamed_day: datetime.date | None
    renamed_at: Any


def test_a_given_schema_names_the_fields_by_position(spark: Any, postgresql: Sql) -> None:
    postgresql("CREATE TABLE named (id int, day date, at time)")
    postgresql("INSERT INTO named VALUES (1, '2020-01-02', '10:20'), (2, NULL, NULL)")
    expected = [
        Renamed(1, datetime.date(2020, 1, 2), datetime.time(10, 20)),
        Renamed(2, None, None),
    ]

    def check(rows: list[Any]) -> None:
        equal_to(expected)(rows)
        assert {type(row).__name__ for row in rows} == {"Renamed"}

    read(spark, postgresql, check, table_name="named", schema=Renamed)


def test_rows_that_were_read_are_rows_to_be_written(spark: Any, postgresql: Sql) -> None:
    postgresql("CREATE TABLE a (n numeric, d date, t time, ts timestamp, i int[])")
    postgresql("INSERT INTO a VALUES (1.5, '2020-01-02', '10:20', '2020-01-02 03:04', '{1,2}')")
    postgresql("CREATE TABLE b (LIKE a)")
    with beam.Pipeline(SparkRunner(session=spark)) as p:
        rows = p | ReadFromJdbc("a", **postgresql.server.arguments())
        _ = rows | WriteToJdbc("b", **postgresql.server.arguments())
    assert postgresql.rows("SELECT * FROM a EXCEPT SELECT * FROM b") == []
    assert len(postgresql.rows("SELECT * FROM b")) == 1


DIVIDED: dict[str, tuple[str, list[str]]] = {
    "bigint": ("n", []),
    "numeric(10,2)": ("n * 0.75", []),
    "float8": ("n * 0.75", ["NaN", "Infinity", "-Infinity"]),
    "date": ("date '2020-01-01' + n", []),
    "timestamp": ("timestamp '2020-01-01 00:00:00.5' + n * interval '8 hours'", []),
    "timestamptz": ("timestamp '2020-01-01 00:00:00.5' + n * interval '8 hours'", []),
}
"""Values of a number, and others, by the type of the column."""


@pytest.mark.part(3)
@pytest.mark.parametrize("kind", DIVIDED)
def test_rows_are_divided_by_a_column_and_none_is_lost(
    spark: Any, postgresql: Sql, kind: str
) -> None:
    """Nor one with a null, nor one at a bound, nor one without a finite value."""
    value, others = DIVIDED[kind]
    postgresql(
        f"CREATE TABLE divided AS SELECT n, ({value})::{kind} AS c FROM generate_series(1, 50) n"
    )
    postgresql("INSERT INTO divided VALUES (51, NULL)")
    for number, other in enumerate(others, 52):
        postgresql(f"INSERT INTO divided VALUES ({number}, '{other}')")
    try:
        with beam.Pipeline(SparkRunner(session=spark)) as p:
            given = {"partition_column": "c", "partitions": 4, **postgresql.server.arguments()}
            rows = p | ReadFromJdbc("divided", **given) | beam.Map(lambda row: row.n)
            assert_that(rows, equal_to([*range(1, 52 + len(others))]))
    finally:
        postgresql("DROP TABLE divided")


@pytest.mark.part(3)
@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("numeric", ["1", "NaN"]),
        ("numeric(9,2)", ["NaN"]),
        ("date", ["2020-01-01", "2020-01-03", "infinity"]),
        ("date", ["12345-01-01"]),
        ("timestamp", ["2020-01-01 00:00:00", "0044-03-15 10:00:00 BC"]),
    ],
)
def test_a_column_that_divides_rows_is_named_with_a_value_that_they_do_not_have(
    spark: Any, postgresql: Sql, kind: str, values: list[str]
) -> None:
    postgresql("DROP TABLE IF EXISTS divided")
    postgresql(f"CREATE TABLE divided (c {kind})")
    for value in values:
        postgresql(f"INSERT INTO divided VALUES ('{value}')")
    given = {"table_name": "divided", "partition_column": "c", "partitions": 2}
    message = (
        f"^Step 'Read' failed: the column 'c' of type {kind[:4]}.* has the value '{values[-1]}'"
    )
    with pytest.raises(PipelineFailed, match=message):
        read(spark, postgresql, lambda rows: None, **given)
