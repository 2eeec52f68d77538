"""Expressions of SQL with the values that they have in Beam SQL."""

import math
from datetime import date, datetime
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
from apache_beam.utils.timestamp import Timestamp


class Mixed(NamedTuple):
    """A row of the table of the expressions."""

    id: int
    i: int | None
    i4: np.int32
    i2: np.int16
    f: float
    g: np.float32
    nan: float
    s: str
    none: int | None
    t: Timestamp
    old: Timestamp
    day: date
    d: Decimal
    e: Decimal | None
    yes: bool
    a: list[int]
    empty: list[int]
    m: dict[str, int]
    x: bytes
    last: date
    leap: Timestamp


ROW = Mixed(
    id=7,
    i=-7,
    i4=np.int32(7),
    i2=np.int16(7),
    f=2.5,
    g=np.float32(0.5),
    nan=math.nan,
    s="abc",
    none=None,
    t=Timestamp(1710037815.25),
    old=Timestamp(-86400 * 365 - 0.5),
    day=date(2021, 2, 27),
    d=Decimal("2.5"),
    e=Decimal("-0.25"),
    yes=True,
    a=[1, 2],
    empty=[],
    m={"k": 7, "l": -2},
    x=b"\x0f\xff",
    last=date(2024, 1, 31),
    leap=Timestamp.from_rfc3339("2024-02-29T12:00:00Z"),
)


def at(text: str) -> str:
    return datetime.fromisoformat(text).isoformat(" ")


def dec(text: str) -> tuple[Any, str]:
    return Decimal, text


def real(number: float) -> str:
    return f"{number + 0.0:.13g}"


SPARK = frozenset({"spark"})
"""Engines of an expression that only Spark has."""

DIVISION = [
    ("id / 2", 3),
    ("-id / 2", -3),
    ("id / 2 / 2", 1),
    ("7 / (3 / 2)", 7),
    ("id / 2.0", dec("3.5")),
    ("id / f", real(2.8)),
    ("i2 / -2", -3),
    ("i4 / i2", 1),
    ("MOD(-id, 2)", -1),
    ("id % 4", 3),
    ("MOD(d, 2)", dec("0.5")),
    ("MOD(-d, 2)", dec("-0.5")),
    ("ROUND(id) / 2", 3),
    ("ROUND(i4) / 2", 3),
    ("ROUND(f) / 2", real(1.5)),
    ("TRUNCATE(id) / 2", 3),
    ("FLOOR(id) / 2", 3),
    ("CEIL(d) / 2", dec("1.5")),
    ("SIGN(f) / 2", real(0.5)),
    ("SIGN(id) / 2", 0),
    ("SIGN(d) / 2", dec("0.5")),
    ("ABS(-id) / 2", 3),
    ("ABS(-f) / 2", real(1.25)),
    ("CHAR_LENGTH(s) / 2", 1),
    ("POSITION('c' IN s) / 2", 1),
    ("CARDINALITY(a) / 3", 0),
    ("CARDINALITY(m) / 3", 0),
    ("m['k'] / 2", 3),
    ("a[2] / 3", 0),
    ("TIMESTAMPDIFF(DAY, TIMESTAMP '2024-03-01 00:00:00', t) / 2", 4),
    ("EXTRACT(YEAR FROM t) / 7", 289),
    ("YEAR(t) / 7", 289),
    ("CASE WHEN yes THEN id ELSE i2 END / 2", 3),
    ("CASE WHEN yes THEN 7 ELSE 2.5 END / 2", dec("3.5")),
    ("CASE WHEN yes THEN id ELSE f END / 2", real(3.5)),
    ("COALESCE(none, id) / 2", 3),
    ("COALESCE(none, 7.0) / 2", dec("3.5")),
    ("NULLIF(id, 1) / 2", 3),
    ("GREATEST(id, 2) / 2", 3),
    ("GREATEST(id, 2.5) / 2", dec("3.5")),
    ("LEAST(id, f) / 2", real(1.25)),
    ("GREATEST(id, none)", None),
    ("CAST(f AS INTEGER) / 2", 1),
    ("CAST(id AS DOUBLE) / 2", real(3.5)),
    ("(id + i2) / 4", 3),
    ("(id * 1.0) / 2", dec("3.5")),
    ("(id + f) / 2", real(4.75)),
    ("g / 2", real(0.25)),
    ("g / g", real(1)),
    ("SQRT(16) / 3", real(4 / 3)),
    ("POWER(id, 1) / 2", real(3.5)),
    ("1.0 / 3", dec("0.333333333333333333")),
    ("2.0 / 3", dec("0.666666666666666667")),
    ("d / 3", dec("0.833333333333333333")),
    ("d / e", dec("-10")),
    ("e / d", dec("-0.1")),
    ("1 / 3.0", dec("0.333333333333333333")),
    ("d * e", dec("-0.625")),
    ("CAST(0.0005 AS DECIMAL) * CAST(0.0005 AS DECIMAL)", dec("0.00000025")),
    ("d * id * 1.1", dec("19.25")),
    ("d + e + d + e", dec("4.5")),
    ("d - 1", dec("1.5")),
    ("1.5 * 1.5", dec("2.25")),
    ("d + f", real(5)),
    ("d * g", real(1.25)),
    ("9223372036854775808 / 2", dec("4611686018427387904")),
    ("id / 0.5e0", real(14)),
    ("PI / 2", real(math.pi / 2)),
    ("PI()", real(math.pi)),
]

NUMBERS = [
    ("ROUND(f)", real(3)),
    ("ROUND(-f)", real(-3)),
    ("ROUND(123.456, 1)", dec("123.5")),
    ("ROUND(f * 10.05, 1)", real(25.1)),
    ("ROUND(d, 0)", dec("3")),
    ("ROUND(125, -1)", 130),
    ("TRUNCATE(2.789e0, 1)", real(2.7)),
    ("TRUNCATE(-2.789e0, 1)", real(-2.7)),
    ("TRUNCATE(-f)", real(-2)),
    ("TRUNCATE(12.789, 2)", dec("12.78")),
    ("TRUNCATE(d)", dec("2")),
    ("TRUNCATE(1299, -2)", 1200),
    ("TRUNCATE(-1299, -2)", -1200),
    ("TRUNCATE(id, 2)", 7),
    ("TRUNCATE(f, i2 - 7)", real(2)),
    ("CEIL(f)", real(3)),
    ("FLOOR(-f)", real(-3)),
    ("CEIL(f * 1e300)", real(2.5e300)),
    ("FLOOR(d)", dec("2")),
    ("CEIL(e)", dec("0")),
    ("SIGN(-id)", -1),
    ("SIGN(-f)", real(-1)),
    ("SIGN(e)", dec("-1")),
    ("SIGN(0e0)", real(0)),
    ("ABS(i)", 7),
    ("SQRT(f + 13.5)", real(4)),
    ("POWER(2, 10)", real(1024)),
    ("EXP(0)", real(1)),
    ("LN(1)", real(0)),
    ("LN(f - f)", "-inf"),
    ("LN(-1)", "nan"),
    ("LN(none)", None),
    ("LOG10(1000)", real(3)),
    ("LOG10(0)", "-inf"),
    ("LOG10(100) / 3", real(2 / 3)),
    ("SIN(0)", real(0)),
    ("COS(0)", real(1)),
    ("TAN(0)", real(0)),
    ("ASIN(1)", real(math.pi / 2)),
    ("ACOS(2)", "nan"),
    ("ATAN(1)", real(math.pi / 4)),
    ("ATAN2(1, 1)", real(math.pi / 4)),
    ("COT(1)", real(1 / math.tan(1))),
    ("SINH(0)", real(0)),
    ("COSH(0)", real(1)),
    ("TANH(0)", real(0)),
    ("CBRT(27)", real(3)),
    ("DEGREES(PI)", real(180)),
    ("RADIANS(180)", real(math.pi)),
    ("IS_NAN(nan)", True),
    ("IS_NAN(f)", False),
    ("IS_NAN(CAST(none AS DOUBLE))", None),
    ("IS_INF(f / 1e-308 * 1e10)", True),
    ("GREATEST(1, 3, 2)", 3),
    ("LEAST('b', 'a')", "a"),
    ("GREATEST(f, nan)", "nan"),
    ("i2 + 1", 8),
    ("-d", dec("-2.5")),
    ("CAST(100 AS TINYINT) + 1", 101),
    ("i + 1", -6),
]

TEXTS = [
    ("LOWER('ABC')", "abc"),
    ("UPPER(s)", "ABC"),
    ("INITCAP('hello wORLD-x1y é_z')", "Hello World-X1y é_Z"),
    ("INITCAP(CAST(NULL AS VARCHAR))", None),
    ("CHAR_LENGTH(s)", 3),
    ("CHARACTER_LENGTH(s)", 3),
    ("LENGTH(x)", 2),
    ("s || '-' || CAST(id AS VARCHAR)", "abc-7"),
    ("s || CAST(NULL AS VARCHAR)", None),
    ("CONCAT(s, '-', s)", "abc-abc"),
    ("POSITION('b' IN s)", 2),
    ("POSITION('world' IN 'helloworldworld' FROM 7)", 11),
    ("POSITION('o' IN 'hello world' FROM 6)", 8),
    ("POSITION('o' IN 'hello world' FROM -4)", 8),
    ("POSITION('o' IN 'hello world' FROM -5)", 5),
    ("POSITION('z' IN s FROM 2)", 0),
    ("POSITION('a' IN s FROM 9)", 0),
    ("SUBSTRING(s FROM 2)", "bc"),
    ("SUBSTRING(s FROM 2 FOR 1)", "b"),
    ("SUBSTRING(s FROM 0 FOR 2)", "a"),
    ("SUBSTRING(s FROM -1 FOR 3)", "a"),
    ("SUBSTRING(s FROM -5)", "abc"),
    ("SUBSTRING(s FROM -5 FOR 2)", ""),
    ("SUBSTRING(s FROM none)", None),
    ("SUBSTRING(s FROM none FOR 2)", None),
    ("SUBSTRING(s FROM 2 FOR none)", None),
    ("SUBSTRING(s FROM CHAR_LENGTH(s) FOR 5)", "c"),
    ("SUBSTRING(s, 2, 1)", "b"),
    ("TRIM(BOTH 'a' FROM s)", "bc"),
    ("TRIM(LEADING 'eh' FROM 'hehe__hehe')", "__hehe"),
    ("TRIM(TRAILING FROM 'a ')", "a"),
    ("REPLACE(s, 'b', '{}')", "a{}c"),
    ("OVERLAY('w3333333rce' PLACING 'resou' FROM 3)", "w3resou3rce"),
    ("OVERLAY('w3333333rce' PLACING 'resou' FROM 3 FOR 7)", "w3resouce"),
    ("LPAD(s, 5, 'xy')", "xyabc"),
    ("LPAD(s, 4)", " abc"),
    ("RPAD(s, 7, 'xy')", "abcxyxy"),
    ("RPAD(s, 2)", "ab"),
    ("REVERSE(s)", "cba"),
    ("STARTS_WITH(s, 'ab')", True),
    ("ENDS_WITH(s, 'ab')", False),
    ("s LIKE 'a%'", True),
    ("s NOT LIKE '_b_'", False),
    (r"'a\b' LIKE 'a\b'", True),
    ("'a%b' LIKE 'a!%b' ESCAPE '!'", True),
    ("s SIMILAR TO 'a(b|c)+'", True),
    ("s SIMILAR TO 'b%'", False),
    ("s || '\\n' SIMILAR TO 'a%c'", False),
    (r"'it''s \n {x}'", r"it's \n {x}"),
    ("X'0f'", b"\x0f"),
    ("x'0FfF' = x", True),
    ("TO_HEX(x)", "0fff"),
    ("UPPER(TO_HEX(x)) || LOWER(TO_HEX(x))", "0FFF0fff"),
    ("FROM_HEX('0fFF')", b"\x0f\xff"),
    ("MD5('a')", bytes.fromhex("0cc175b9c0f1b6a831c399e269772661")),
    ("TO_HEX(MD5(X'61'))", "0cc175b9c0f1b6a831c399e269772661"),
    ("SHA1('a')", bytes.fromhex("86f7e437faa5a7fce15d1ddcb9eaeaea377667b8")),
    ("TO_HEX(SHA256('é'))", "4a99557e4033c3539de2eb65472017cad5f9557f7a0625a09f1c3f6e2ba69c4c"),
    ("LENGTH(SHA512(s))", 64),
    ("MD5(CAST(NULL AS VARCHAR))", None),
]

CASTS = [
    ("CAST(d AS VARCHAR)", "2.5"),
    ("CAST(e AS VARCHAR)", "-.25"),
    ("CAST(d - d AS VARCHAR)", "0"),
    ("CAST(d * 40 AS VARCHAR)", "100"),
    ("CAST(1.50 AS VARCHAR)", "1.50"),
    ("CAST(0.5 AS VARCHAR)", ".5"),
    ("CAST(CAST(d AS DECIMAL(10, 2)) AS VARCHAR)", "2.50"),
    ("CAST(CAST(100 AS DECIMAL(5)) AS VARCHAR)", "100"),
    ("CAST(9223372036854775808 AS VARCHAR)", "9223372036854775808"),
    ("CAST(f AS VARCHAR)", "2.5"),
    ("CAST(f * 40 AS VARCHAR)", "100.0"),
    ("CAST(f - f AS VARCHAR)", "0E0"),
    ("CAST(1e300 AS VARCHAR)", "1.0E300"),
    ("CAST(-1.25e-5 AS VARCHAR)", "-1.25E-5"),
    ("CAST(1e7 AS VARCHAR)", "1.0E7"),
    ("CAST(1234567.5e0 AS VARCHAR)", "1234567.5"),
    ("CAST(0.001e0 AS VARCHAR)", "0.001"),
    ("CAST(nan AS VARCHAR)", "NaN"),
    ("CAST(f / 1e-308 * 1e10 AS VARCHAR)", "Infinity"),
    ("CAST(g AS VARCHAR)", "0.5"),
    ("CAST(CAST(0.1 AS FLOAT) AS VARCHAR)", "0.1"),
    ("CAST(yes AS VARCHAR)", "TRUE"),
    ("CAST(NOT yes AS VARCHAR(2))", "FA"),
    ("CAST(s AS VARCHAR(2))", "ab"),
    ("CAST(s AS CHAR(5))", "abc  "),
    ("CAST(id AS CHAR)", "7"),
    ("CAST(i2 AS VARCHAR)", "7"),
    ("CAST(t AS VARCHAR)", "2024-03-10 02:30:15.25"),
    ("CAST(leap AS VARCHAR)", "2024-02-29 12:00:00"),
    ("CAST(day AS VARCHAR)", "2021-02-27"),
    ("CAST(none AS VARCHAR)", None),
    ("CAST(id AS DECIMAL)", dec("7")),
    ("CAST(1.005 AS DECIMAL(10, 2))", dec("1.01")),
    ("CAST('-12.345' AS DECIMAL(10, 2))", dec("-12.35")),
    ("CAST(1.0000000000000000019 AS DECIMAL)", dec("1.000000000000000002")),
    ("CAST(f AS INTEGER)", 2),
    ("CAST(-f AS INTEGER)", -2),
    ("CAST(' 12 ' AS BIGINT)", 12),
    ("CAST(f AS FLOAT)", real(2.5)),
    ("CAST(' true ' AS BOOLEAN)", True),
    ("CAST('False' AS BOOLEAN)", False),
    ("CAST(0 AS BOOLEAN)", False),
    ("CAST(d AS BOOLEAN)", True),
    ("CAST(t AS DATE)", date(2024, 3, 10)),
    ("CAST(day AS TIMESTAMP)", at("2021-02-27")),
    ("CAST('2024-02-03 04:05:06.7' AS TIMESTAMP)", at("2024-02-03 04:05:06.700000")),
    ("CAST(SUBSTRING('x2024-02-03', 2) AS DATE)", date(2024, 2, 3)),
    ("DATE '2021-02-27' = day", True),
]

_FLOORS = {
    # Unit: the floor and the ceiling of 2024-03-10 02:30:15.25, and of 1968-12-31 23:59:59.5.
    "MICROSECOND": (
        "2024-03-10 02:30:15.250000", "2024-03-10 02:30:15.250000",
        "1968-12-31 23:59:59.500000", "1968-12-31 23:59:59.500000",
    ),
    "MILLISECOND": (
        "2024-03-10 02:30:15.250000", "2024-03-10 02:30:15.250000",
        "1968-12-31 23:59:59.500000", "1968-12-31 23:59:59.500000",
    ),
    "SECOND": (
        "2024-03-10 02:30:15", "2024-03-10 02:30:16", "1968-12-31 23:59:59", "1969-01-01",
    ),
    "MINUTE": ("2024-03-10 02:30:00", "2024-03-10 02:31:00", "1968-12-31 23:59:00", "1969-01-01"),
    "HOUR": ("2024-03-10 02:00:00", "2024-03-10 03:00:00", "1968-12-31 23:00:00", "1969-01-01"),
    "DAY": ("2024-03-10", "2024-03-11", "1968-12-31", "1969-01-01"),
    "WEEK": ("2024-03-10", "2024-03-17", "1968-12-29", "1969-01-05"),
    "MONTH": ("2024-03-01", "2024-04-01", "1968-12-01", "1969-01-01"),
    "QUARTER": ("2024-01-01", "2024-04-01", "1968-10-01", "1969-01-01"),
    "YEAR": ("2024-01-01", "2025-01-01", "1968-01-01", "1969-01-01"),
    "DECADE": ("2020-01-01", "2030-01-01", "1960-01-01", "1970-01-01"),
    "CENTURY": ("2001-01-01", "2101-01-01", "1901-01-01", "2001-01-01"),
    "MILLENNIUM": ("2001-01-01", "3001-01-01", "1001-01-01", "2001-01-01"),
}  # fmt: skip
_DAYS = {
    # The floor and the ceiling of 2021-02-27, a Saturday.
    "DAY": ("2021-02-27", "2021-02-27"),
    "WEEK": ("2021-02-21", "2021-02-28"),
    "MONTH": ("2021-02-01", "2021-03-01"),
    "QUARTER": ("2021-01-01", "2021-04-01"),
    "YEAR": ("2021-01-01", "2022-01-01"),
    "DECADE": ("2020-01-01", "2030-01-01"),
    "CENTURY": ("2001-01-01", "2101-01-01"),
    "MILLENNIUM": ("2001-01-01", "3001-01-01"),
}
_PARTS = {
    # Parts of 2024-03-10 02:30:15.25, a Sunday, and of 1968-12-31 23:59:59.5, a Tuesday.
    "MILLENNIUM": (3, 2),
    "CENTURY": (21, 20),
    "DECADE": (202, 196),
    "YEAR": (2024, 1968),
    "ISOYEAR": (2024, 1969),
    "QUARTER": (1, 4),
    "MONTH": (3, 12),
    "WEEK": (10, 1),
    "DAY": (10, 31),
    "DOW": (1, 3),
    "ISODOW": (7, 2),
    "DOY": (70, 366),
    "HOUR": (2, 23),
    "MINUTE": (30, 59),
    "SECOND": (15, 59),
    "MILLISECOND": (15250, 59500),
    "MICROSECOND": (15250000, 59500000),
    "EPOCH": (1710037815, -31536000),
}
TIMES = [
    *(
        (f"{name}({column} TO {unit})", at(ends[2 * which + (name == "CEIL")]))
        for unit, ends in _FLOORS.items()
        for which, column in enumerate(("t", "old"))
        for name in ("FLOOR", "CEIL")
    ),
    *(
        (f"{name}(day TO {unit})", date.fromisoformat(ends[name == "CEIL"]))
        for unit, ends in _DAYS.items()
        for name in ("FLOOR", "CEIL")
    ),
    *(
        (f"EXTRACT({unit} FROM {column})", parts[which])
        for unit, parts in _PARTS.items()
        for which, column in enumerate(("t", "old"))
    ),
    ("CEIL(FLOOR(t TO CENTURY) TO CENTURY)", at("2001-01-01")),
    ("FLOOR(DATE '1965-03-01' TO DECADE)", date(1960, 1, 1)),
    ("EXTRACT(YEAR FROM day)", 2021),
    ("EXTRACT(DOW FROM day)", 7),
    ("EXTRACT(EPOCH FROM day)", 1614384000),
    ("YEAR(t)", 2024),
    ("QUARTER(t)", 1),
    ("MONTH(day)", 2),
    ("WEEK(t)", 10),
    ("WEEK(day)", 8),
    ("DAYOFMONTH(t)", 10),
    ("DAYOFWEEK(t)", 1),
    ("DAYOFYEAR(t)", 70),
    ("HOUR(t)", 2),
    ("MINUTE(t)", 30),
    ("SECOND(t)", 15),
    ("t + INTERVAL '1' HOUR", at("2024-03-10 03:30:15.250000")),
    ("t - INTERVAL '90' SECOND", at("2024-03-10 02:28:45.250000")),
    ("t + INTERVAL - '1' HOUR", at("2024-03-10 01:30:15.250000")),
    ("leap + INTERVAL '1' YEAR", at("2025-02-28 12:00:00")),
    ("leap - INTERVAL '1' MONTH", at("2024-01-29 12:00:00")),
    ("last + INTERVAL '1' MONTH", date(2024, 2, 29)),
    ("last + INTERVAL '2' DAY", date(2024, 2, 2)),
    ("TIMESTAMPADD(MINUTE, 3, t)", at("2024-03-10 02:33:15.250000")),
    ("TIMESTAMPADD(WEEK, -1, t)", at("2024-03-03 02:30:15.250000")),
    ("TIMESTAMPADD(QUARTER, 1, CAST(last AS TIMESTAMP))", at("2024-04-30")),
    ("TIMESTAMPADD(YEAR, -1, leap)", at("2023-02-28 12:00:00")),
    ("TIMESTAMPADD(SQL_TSI_MONTH, 13, last)", date(2025, 2, 28)),
    ("TIMESTAMPADD(DAY, id, day)", date(2021, 3, 6)),
    ("TIMESTAMPADD(HOUR, 2, day)", at("2021-02-27 02:00:00")),
    ("TIMESTAMPADD(MONTH, none, t)", None),
    ("TIMESTAMPDIFF(DAY, TIMESTAMP '2024-03-01 00:00:00', t)", 9),
    ("TIMESTAMPDIFF(SECOND, t, old) / 1000", -1741573),
    ("TIMESTAMPDIFF(HOUR, day, TIMESTAMP '2021-02-27 01:59:59')", 1),
    ("TIMESTAMPDIFF(WEEK, day, DATE '2021-03-12')", 1),
    ("TIMESTAMPDIFF(MONTH, last, DATE '2024-02-29')", 1),
    ("TIMESTAMPDIFF(MONTH, last, DATE '2024-02-28')", 0),
    ("TIMESTAMPDIFF(MONTH, DATE '2024-02-29', last)", -1),
    ("TIMESTAMPDIFF(MONTH, t, TIMESTAMP '2024-04-10 02:30:15')", 0),
    ("TIMESTAMPDIFF(QUARTER, DATE '2023-01-31', last)", 4),
    ("TIMESTAMPDIFF(YEAR, leap, TIMESTAMP '2025-02-28 11:59:59')", 0),
    ("TIMESTAMPDIFF(YEAR, leap, TIMESTAMP '2025-02-28 12:00:00')", 1),
    ("TIMESTAMPDIFF(YEAR, TIMESTAMP '1981-01-19 01:01:58', TIMESTAMP '1979-01-19 01:01:58')", -2),
    ("TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '2024-03-10 02:30:15', t)", 250000),
    ("t > TIMESTAMP '2024-03-10 02:30:00'", True),
    ("t + INTERVAL '1:30' HOUR TO MINUTE", at("2024-03-10 04:00:15.250000"), SPARK),
    ("EXTRACT(SECOND FROM t + INTERVAL '1.5' SECOND)", 16, SPARK),
    ("day < t", True),
]

CONDITIONS = [
    ("a[1]", 1),
    ("a[3]", None),
    ("a[0]", None),
    ("a[-1]", None),
    ("a[a[2]]", 2),
    ("empty[1]", None),
    ("m['k']", 7),
    ("m['z']", None),
    ("ARRAY[10, 20][2]", 20),
    ("MAP['x', 5]['x']", 5, SPARK),
    ("CARDINALITY(a)", 2),
    ("CARDINALITY(empty)", 0),
    ("CARDINALITY(m)", 2),
    ("CARDINALITY(ARRAY['a', 'b', 'c'])", 3),
    ("ELEMENT(ARRAY[5])", 5),
    ("ELEMENT(empty)", None),
    ("id IS DISTINCT FROM NULL", True),
    ("none IS NOT DISTINCT FROM NULL", True),
    ("CASE WHEN s = 'abc' THEN 1 ELSE 2 END", 1),
    ("CASE id WHEN 7 THEN 'a' END", "a"),
    ("COALESCE(NULLIF(id, 7), 3)", 3),
    ("NULLIF(s, 'abc')", None),
    ("nan = nan", False),
    ("nan <> nan", True),
    ("nan > f", False),
    ("f <= nan", False),
    ("nan BETWEEN f AND f", False),
    ("NOT (nan > CAST(none AS DOUBLE))", None),
    ("d = 2.5", True),
    ("d > f", False),
    ("d BETWEEN 2 AND 3", True),
    ("(id, s) IN ((1, 'x'), (7, 'abc'))", True),
    ("(id, s) IN ((7, 'x'), (1, 'abc'))", False),
    ("(id, none) IN ((7, 1))", None),
    ("(id, none) IN ((8, 1))", False),
    ("(id, s) NOT IN ((7, 'abc'))", False),
    ("ROW(id, s) = ROW(7, 'abc')", True),
    ("(id, s) <> (7, 'abc')", False),
    ("id IN (1, 7)", True),
    ("none IN (1, 7)", None),
    ("id NOT IN (1, NULL)", None),
]


GROUPS: dict[str, list[tuple[Any, ...]]] = {
    "division": DIVISION,
    "numbers": NUMBERS,
    "texts": TEXTS,
    "casts": CASTS,
    "times": TIMES,
    "conditions": CONDITIONS,
}
"""Expressions over :data:`ROW`, their values, and the engines that have them if not all do."""


class Item(NamedTuple):
    """A row of the table of the aggregates."""

    n: int
    n4: np.int32
    x: float
    d: Decimal
    z: int | None
    k: str
    t: Timestamp
    a: list[int]
    m: dict[str, int]


ITEMS = [
    Item(
        n=n,
        n4=np.int32(n),
        x=float(n),
        d=Decimal(n),
        z=z,
        k="k",
        t=Timestamp(n * 100000),
        a=[1] * (at % 3),
        m={"k": n},
    )
    for at, (n, z) in enumerate([(1, 1), (4, 1), (7, 2), (13, None), (5, 2), (10, None), (17, 5)])
]

AGGREGATES: list[tuple[Any, ...]] = [
    ("COUNT(*)", 7),
    ("COUNT(z)", 5),
    ("COUNT(DISTINCT z)", 3),
    ("SUM(n)", 57),
    ("SUM(n4) / 2", 28),
    ("SUM(x)", real(57)),
    ("SUM(d)", dec("57")),
    ("SUM(DISTINCT z)", 8),
    ("SUM(DISTINCT x)", real(57)),
    ("SUM(DISTINCT d * 0)", dec("0")),
    ("SUM(DISTINCT z) FILTER (WHERE n > 16)", 5),
    ("SUM(z) FILTER (WHERE n > 100)", None),
    ("SUM(DISTINCT z) FILTER (WHERE n > 100)", None),
    ("AVG(n)", 8),
    ("AVG(-n)", -8),
    ("AVG(n4)", 8),
    ("AVG(n) / 3", 2),
    ("AVG(z)", 2),
    ("AVG(DISTINCT z)", 2),
    ("AVG(DISTINCT x)", real(57 / 7)),
    ("AVG(n) FILTER (WHERE n > 4)", 10),
    ("AVG(n) FILTER (WHERE n > 100)", None),
    ("AVG(x)", real(57 / 7)),
    ("AVG(d)", dec("8.142857142857142857")),
    ("AVG(DISTINCT d)", dec("8.142857142857142857")),
    ("AVG(n / 2)", 3),
    ("AVG(n * 1.0)", dec("8.142857142857142857")),
    ("AVG(ROUND(x / 2))", real(31 / 7)),
    ("AVG(ROUND(n / 2))", 3),
    ("AVG(SIGN(x) * 0.5e0)", real(0.5)),
    ("AVG(m['k'])", 8),
    ("AVG(a[1])", 1),
    ("AVG(CARDINALITY(a))", 0),
    ("AVG(TIMESTAMPDIFF(DAY, TIMESTAMP '1970-01-01 00:00:00', t))", 9),
    ("AVG(EXTRACT(YEAR FROM t))", 1970),
    ("AVG(CHAR_LENGTH(k))", 1),
    ("AVG(CASE WHEN n > 4 THEN n ELSE 0 END)", 7),
    ("AVG(COALESCE(z, 0))", 1),
    ("MIN(z)", 1),
    ("MAX(d)", dec("17")),
    ("MAX(n) / 2", 8),
    ("ANY_VALUE(k)", "k"),
    ("ANY_VALUE(z) FILTER (WHERE n > 16)", 5),
    ("ANY_VALUE(z) FILTER (WHERE n > 100)", None),
    ("VAR_POP(n)", 26),
    ("VAR_SAMP(n)", 30),
    ("VARIANCE(n4)", 30),
    ("VAR_POP(n) / 4", 6),
    ("VAR_POP(x)", real(26.408163265306122)),
    ("VAR_SAMP(x)", real(30.80952380952381)),
    ("ROUND(VAR_POP(d), 6)", dec("26.408163")),
    ("STDDEV_POP(n)", 5),
    ("STDDEV_SAMP(n)", 5),
    ("STDDEV(n)", 5),
    ("STDDEV_POP(x)", real(math.sqrt(26.408163265306122))),
    ("STDDEV(x)", real(math.sqrt(30.80952380952381))),
    ("VAR_POP(z)", 2),
    ("VAR_POP(n) FILTER (WHERE n < 2)", 0),
    ("VAR_SAMP(n) FILTER (WHERE n < 2)", None),
    ("VAR_SAMP(x) FILTER (WHERE n > 100)", None),
    ("COVAR_POP(n, n4)", 26, SPARK),
    ("COVAR_SAMP(n, n)", 30, SPARK),
    ("COVAR_POP(x, x)", real(26.408163265306122), SPARK),
    ("COVAR_POP(-n, n)", -26, SPARK),
]
"""Aggregates over :data:`ITEMS`, likewise."""
