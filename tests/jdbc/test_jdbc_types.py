"""Types of a database through ``ReadFromJdbc`` and ``WriteToJdbc``, which Beam's own tests name."""

import datetime
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

from sparkbeam import SparkRunner

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
}
"""Type, literal and the value in a row."""


def read(spark: Any, sql: Sql, check: Callable[[Any], None], **arguments: Any) -> None:
    with beam.Pipeline(SparkRunner(session=spark)) as p:
        given = {"table_name": "", **sql.server.arguments(), **arguments}
        assert_that(p | "Read" >> ReadFromJdbc(**given), check)


def test_each_type_is_read_exactly(spark: Any, postgresql: Sql) -> None:
    """Every column has a value and a null, in one table."""
    columns = [f"c{number} {kind}" for number, (kind, _, _) in enumerate(READ.values())]
    postgresql(f"CREATE TABLE typed ({', '.join(columns)})")
    postgresql(f"INSERT INTO typed VALUES ({', '.join(value for _, value, _ in READ.values())})")
    postgresql("INSERT INTO typed (c0) VALUES (NULL)")
    expected = {name: value for name, (_, _, value) in READ.items()}

    def check(rows: list[Any]) -> None:
        values, nulls = sorted(rows, key=lambda row: row.c0 is None)
        assert dict(zip(expected, values, strict=True)) == expected
        assert set(nulls) == {None}

    read(spark, postgresql, check, table_name="typed")


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


@pytest.mark.part(3)
@pytest.mark.parametrize("kind", ["bigint", "numeric(10,2)", "date", "timestamp", "timestamptz"])
def test_rows_are_divided_by_a_column_and_none_is_lost(
    spark: Any, postgresql: Sql, kind: str
) -> None:
    """Nor one with a null, nor one at a bound."""
    number = kind in ("bigint", "numeric(10,2)")
    value = "n * 0.75" if number else "timestamp '2020-01-01 00:00:00.5' + n * interval '8 hours'"
    postgresql(
        f"CREATE TABLE divided AS SELECT n, ({value})::{kind} AS c FROM generate_series(1, 50) n"
    )
    postgresql("INSERT INTO divided VALUES (51, NULL)")
    try:
        read(
            spark,
            postgresql,
            lambda rows: equal_to([*range(1, 52)])([row.n for row in rows]),
            table_name="divided",
            partition_column="c",
            partitions=4,
        )
    finally:
        postgresql("DROP TABLE divided")
