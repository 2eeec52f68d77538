"""Joins whose sides are columns, all or in part, for whichever runner; workers import it."""

import math
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq
from apache_beam.transforms.window import (
    FixedWindows,
    SlidingWindows,
    TimestampedValue,
)
from equijoins import texts

from sparkbeam import Join
from sparkbeam.plan.join_payload import HOWS

LEFTS, RIGHTS = 150, 60


class Sale(NamedTuple):
    """A row of the left side."""

    id: int
    price: float


beam.coders.registry.register_coder(Sale, beam.coders.RowCoder)


def table(count: int, factor: int) -> pa.Table:
    """Rows with values of all kinds; a third of them have one key."""
    ids = [7 if n % 3 == 0 else n * factor % 50 for n in range(count)]
    ratios = [math.nan, -0.0, 0.0, math.inf, 1.5]
    return pa.table(
        {
            "id": pa.array(ids, pa.int32()),
            "text": [f"zoë {id}" * (id % 3) for id in ids],
            "ratio": [ratios[id % 5] for id in ids],
            "flag": [id % 2 == 0 for id in ids],
            "maybe": [None if id % 4 == 0 else id - 300 for id in ids],
            "number": range(count),
        }
    )


def written(folder: Path) -> None:
    """Writes both tables."""
    pq.write_table(table(LEFTS, 3), folder / "left.parquet")
    pq.write_table(table(RIGHTS, 1), folder / "right.parquet")


Sides = Callable[[Any, Any], tuple[Any, Any]]
CREATED = [{"id": 7, "text": "made"}, {"id": None}, {"id": 7.0}, {"id": "7"}, {}]


def with_created(rows: Any, other: Any) -> tuple[Any, Any]:
    created = rows.pipeline | f"{rows}: made" >> beam.Create(CREATED, reshuffle=False)
    return (rows, created) | f"{rows}: both" >> beam.Flatten(), other


def as_sales(rows: Any, other: Any) -> tuple[Any, Any]:
    sales = rows | f"{rows}: sales" >> beam.Map(
        lambda row: Sale(row["id"], row["number"] * 0.5)
    ).with_output_types(Sale)
    return sales, other


def as_rows(rows: Any, other: Any) -> tuple[Any, Any]:
    made = rows | f"{rows}: rows" >> beam.Map(
        lambda row: beam.Row(id=row["id"], text=row["text"])
    ).with_output_types(beam.row_type.RowTypeConstraint.from_fields([("id", int), ("text", str)]))
    return made, other


def as_tuples(rows: Any, other: Any) -> tuple[Any, Any]:
    made = rows | f"{rows}: tuples" >> beam.Map(
        lambda row: (row["number"], row["ratio"], row["id"])
    )
    return made, other


def none_of(rows: Any, other: Any) -> tuple[Any, Any]:
    return rows | f"{rows}: none" >> beam.Filter(lambda row: row["id"] < 0), other


def in_windows(window_fn: Any) -> Sides:
    def sides(rows: Any, other: Any) -> tuple[Any, Any]:
        found = []
        for side in (rows, other):
            timed = side | f"{side}: at" >> beam.Map(
                lambda row: TimestampedValue(row, row["number"] * 0.25)
            )
            found.append(timed | f"{side}: into" >> beam.WindowInto(window_fn))
        return found[0], found[1]

    return sides


def swapped(sides: Sides) -> Sides:
    def both(rows: Any, other: Any) -> tuple[Any, Any]:
        right, left = sides(other, rows)
        return left, right

    return both


KINDS: dict[str, tuple[Sides, Any]] = {
    "dicts": (lambda *sides: sides, "id"),
    "text": (lambda *sides: sides, "text"),
    "floats": (lambda *sides: sides, "ratio"),
    "None": (lambda *sides: sides, "maybe"),
    "pairs": (lambda *sides: sides, lambda row: (row["id"], row["maybe"])),
    "bools and ints": (lambda *sides: sides, {"l": "flag", "r": "id"}),
    "mixed": (with_created, lambda row: row.get("id")),
    "mixed right": (swapped(with_created), lambda row: row.get("id")),
    "sales": (as_sales, "id"),
    "sales right": (swapped(as_sales), "id"),
    "rows": (as_rows, "id"),
    "tuples": (as_tuples, {"l": lambda row: row[2], "r": "id"}),
    "none": (none_of, "id"),
    "none right": (swapped(none_of), "id"),
    "fixed": (in_windows(FixedWindows(10)), "id"),
    "sliding": (in_windows(SlidingWindows(10, 5)), "text"),
}


def chosen(key: Any, left: Any, right: Any) -> Any:
    """What can be computed over columns."""
    return key, left, right


def joins(
    p: beam.Pipeline, folder: Path, only: str, hows: Iterable[str]
) -> Iterator[tuple[str, Any]]:
    """Joins by their labels."""
    for kind, (sides, on) in KINDS.items():
        for how in hows:
            label = f"{kind}, {how}"
            if only not in label:
                continue
            lefts, rights = (
                p | f"{label}: {side}" >> beam.io.ReadFromParquet(str(folder / f"{side}.parquet"))
                for side in ("left", "right")
            )
            left, right = sides(lefts, rights)
            yield label, {"l": left, "r": right} | label >> Join(on=on, how=how, result=chosen)


def results(
    runner: Any, folder: Path, only: str, *options: str, hows: Iterable[str] = HOWS
) -> dict[str, list[str]]:
    """What comes out of all of them, in any order."""
    return texts(runner, folder, lambda p: joins(p, folder, only, hows), *options)
