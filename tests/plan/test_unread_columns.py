"""Results are the same whether columns that nobody looks at are read or not."""

from typing import Any

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from in_process_batch import BatchRunner
from noting import found, note
from whole import examples

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
    return f"{folder}/*.parquet"


Names = dict[str, str]
"""By what expression of ``x`` one gets a value, and what it is: a column, or ``made``."""


@st.composite
def steps(draw: st.DrawFn) -> list[tuple[str, str]]:
    """Kinds of steps, and the text of their functions; the first one gets a dict."""
    names: Names = {f"x['{name}']": name for name in TABLE.column_names}
    made = []
    for _ in range(draw(st.integers(1, 3))):
        if draw(st.booleans()):
            made.append(("Filter", draw(conditions(names))))
        parts = [draw(values(names)) for _ in range(draw(st.integers(1, 4)))]
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
    made.append(("Map", f"({draw(values(names))[0]}, {draw(values(names))[0]})"))
    return made


@st.composite
def values(draw: st.DrawFn, names: Names) -> tuple[str, str]:
    """A value, and what it is."""
    text = draw(st.sampled_from(sorted(names)))
    match draw(st.integers(0, 4)), names[text]:
        case 0, "a" | "d" | "c":
            return f"({text} + 1)", "made"
        case 1, kind if kind != "made":
            return f"({text} if {draw(conditions(names))} else {text})", kind
        case 2, "b":
            return f"(0 if {text} is None else 1)", "a"
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


def results(files: str, chain: list[tuple[str, str]], *options: str) -> list[str] | str:
    found.clear()
    p = beam.Pipeline(BatchRunner(), argv=list(options))
    rows: Any = p | beam.io.ReadFromParquet(files)
    for number, (kind, text) in enumerate(chain):
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
@given(steps())
def test_what_is_not_read_makes_no_difference(files: str, chain: list[tuple[str, str]]) -> None:
    assert results(files, chain) == results(files, chain, "--columns=off")
