"""Results are the same whether columns that nobody looks at are read or not."""

from pathlib import Path
from typing import Any, NamedTuple

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.testing.util import assert_that, equal_to
from hypothesis import given
from hypothesis import strategies as st
from in_process_batch import BatchRunner
from noting import found, note, values
from whole import examples

from sparkbeam import SparkRunner
from sparkbeam.io import ReadFromSpark

pytestmark = pytest.mark.blocks(reason="Beam's own operations get no columns")

TABLE = pa.table(
    {
        "a": pa.array([1, 2, 3, 2**62, -5] * 20),
        "b": pa.array(["x", None, "", "zoë", "x"] * 20),
        "c": pa.array([0.5, -0.0, None, 2.0, 1.0] * 20),
        "d": pa.array([None, 1, 2, 3, 4] * 20),
        "e": pa.array([True, False, True, False, True] * 20),
    }
)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("files")
    pq.write_table(TABLE, folder / "a.parquet")
    other = TABLE.select(TABLE.column_names[::-1]).append_column("f", TABLE["a"])
    pq.write_table(other, folder / "b.parquet", row_group_size=30)
    return f"{folder}/*.parquet"


Names = dict[str, str]
"""By what expression of ``x`` one gets a value, and what it is: a column, or ``made``."""


Chain = tuple[list[str] | None, list[tuple[str, str]]]
"""The columns that the user has chosen; and kinds of steps, with the text of their functions.

The first one gets a dict.
"""


@st.composite
def chains(draw: st.DrawFn) -> Chain:
    columns: list[str] | None = draw(st.permutations(TABLE.column_names))
    assert columns is not None
    columns = columns[: draw(st.integers(2, 5))] if draw(st.booleans()) else None
    names: Names = {f"x['{name}']": name for name in columns or TABLE.column_names}
    made = []
    for _ in range(draw(st.integers(1, 3))):
        if draw(st.booleans()):
            made.append(("Filter", draw(conditions(names))))
        parts = [draw(parts_of(names)) for _ in range(draw(st.integers(1, 4)))]
        match draw(st.sampled_from(["tuple", "dict", "nested"])):
            case "dict":
                texts = [f"'k{at}': {text}" for at, (text, _) in enumerate(parts)]
                function = f"{{{', '.join(texts)}}}"
                names = {f"x['k{at}']": kind for at, (_, kind) in enumerate(parts)}
            case "tuple":
                function = f"({''.join(f'{text}, ' for text, _ in parts)})"
                names = {f"x[{at}]": kind for at, (_, kind) in enumerate(parts)}
            case _:
                function = f"(1, ({''.join(f'{text}, ' for text, _ in parts)}))"
                names = {f"x[1][{at}]": kind for at, (_, kind) in enumerate(parts)}
        made.append(("Map", function))
        if draw(st.booleans()):
            made.append(("Reshuffle", ""))
        if draw(st.booleans()):
            made.append(("Flatten", draw(conditions(names))))
    made.append(("Map", f"({draw(parts_of(names))[0]}, {draw(parts_of(names))[0]})"))
    return columns, made


@st.composite
def parts_of(draw: st.DrawFn, names: Names) -> tuple[str, str]:
    """A value, and what it is."""
    text = draw(st.sampled_from(sorted(names)))
    match draw(st.integers(0, 4)), names[text]:
        case 0, "a" | "d" | "c":
            return f"({text} * 4)", "made"
        case 1, kind if kind != "made":
            return f"({text} if {draw(conditions(names))} else {text})", kind
        case 2, "b":
            return f"(0 if {text} is None else 1)", "a"
        case 3, _:
            return "1", "a"
    return text, names[text]


@st.composite
def conditions(draw: st.DrawFn, names: Names) -> str:
    text = draw(st.sampled_from(sorted(names)))
    match names[text]:
        case "a":
            return f"{text} > 1"
        case "e":
            return text
    return f"{text} is not None"


def results(files: str, chain: Chain, *options: str) -> list[str] | str:
    found.clear()
    columns, steps = chain
    p = beam.Pipeline(BatchRunner(), argv=list(options))
    rows: Any = p | beam.io.ReadFromParquet(files, columns=columns)
    for number, (kind, text) in enumerate(steps):
        function = eval(f"lambda x: {text}") if text else None
        match kind:
            case "Reshuffle":
                rows = rows | f"step {number}" >> beam.Reshuffle()
            case "Flatten":
                some = rows | f"branch {number}" >> beam.Filter(function)
                rows = (some, rows) | f"step {number}" >> beam.Flatten()
            case _:
                rows = rows | f"step {number}" >> getattr(beam, kind)(function)
    _ = rows | "note" >> beam.Map(note)
    result: Any = p.run()
    try:
        result.wait_until_finish()
    except Exception as error:
        return type(error).__name__
    return sorted(repr(value) for value, *_ in found)


@examples(12)
@given(chains())
def test_what_is_not_read_makes_no_difference(files: str, chain: Chain) -> None:
    assert results(files, chain) == results(files, chain, "--columns=off")


def test_of_a_file_with_other_columns_all_are_read(tmp_path: Path) -> None:
    table = TABLE.select(["a", "b"]).slice(0, 2)
    other = table.append_column("c", pa.array([1, 2]))
    for number, one in enumerate((table, other, table.select(["a"]))):
        pq.write_table(one, tmp_path / f"{number}.parquet")
    read = beam.io.ReadFromParquet(f"{tmp_path}/*.parquet")
    look = beam.Map(lambda row: (row["a"], row.get("c", 0), "b" in row))
    assert sorted(values(lambda p: p | read | look)) == [
        *((1, 0, False), (1, 0, True), (1, 1, True)),
        *((2, 0, False), (2, 0, True), (2, 2, True)),
    ]


class Pair(NamedTuple):
    number: int
    text: str | None


def test_rows_of_spark_come_without_the_columns_that_nobody_looks_at(
    spark: Any, tmp_path: Path
) -> None:
    path = str(tmp_path / "rows")
    rows = [(1, "a", 2**62), (2, "b", 5), (3, None, None)]
    spark.createDataFrame(rows, "id long, name string, number long").write.parquet(path)
    with beam.Pipeline(SparkRunner(spark)) as p:
        read = [p | f"{n}" >> ReadFromSpark("parquet", {"path": path}) for n in range(3)]
        some = read[0] | beam.Filter(lambda row: row.number is not None)
        by_elements = some | beam.Map(lambda row: (row.id, row.number * 4))
        assert_that(by_elements, equal_to([(1, 2**64), (2, 20)]), "by elements")
        ones = read[1] | "without columns" >> beam.Map(lambda row: 1)
        assert_that(ones | beam.CombineGlobally(sum), equal_to([3]), "count")
        few = read[2] | "few" >> beam.Filter(lambda row: row.id < 3)
        pairs = [
            one | label >> beam.Map(lambda row: Pair(row.id, row.name)).with_output_types(Pair)
            for label, one in (("all pairs", read[2]), ("few pairs", few))
        ]
        texts = pairs | beam.Flatten() | beam.Reshuffle() | beam.Map(lambda pair: pair.text)
        assert_that(texts, equal_to(["a", "b", None, "a", "b"]), "texts")
