"""Values of columns in a cell each, and the encodings of keys, are what coders make of elements."""

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam import coders
from apache_beam.coders.coders import DeterministicFastPrimitivesCoderV2
from bids import Bid
from hypothesis import given
from hypothesis import strategies as st

from sparkbeam.columns import Shape, shape_of
from sparkbeam.columns.python_types import shape_in_arrow
from sparkbeam.worker.row_formats.encoded_keys import EncodedKeys
from sparkbeam.worker.row_formats.row_cells import RowCells
from sparkbeam.worker.value_columns import column_of

ANY = coders.FastPrimitivesCoder()
KEYS = DeterministicFastPrimitivesCoderV2(ANY, "a key")
PAIR = coders.TupleCoder([coders.VarIntCoder(), coders.StrUtf8Coder()])
BIDS = pa.array(
    [{"user": "zoë", "price": None, "ratio": math.nan}, {"user": "", "price": 1, "ratio": 0.0}]
)
NESTED = pa.array([{"a": 1, "b": {"c": None}}, None, {"a": None}])
DATED = {
    "day": date(2020, 1, 1),
    "at": datetime(2020, 1, 1, tzinfo=UTC),
    "amount": Decimal("1.50"),
    "name": b"\0",
}


def shaped(array: pa.Array, kind: Any = None) -> tuple[pa.Array, Shape]:
    return array, shape_in_arrow(array.type) if kind is dict else shape_of(array.type, kind)


def there_and_back(coder: coders.Coder, array: pa.Array, shape: Shape) -> list[Any]:
    """The values of cells that another process reads."""
    cells = RowCells(coder).encode(array, shape)
    assert cells is not None
    found: list[Any] = [None] * len(array)
    for column, places in RowCells(coder).decode(cells):
        assert column.shape == shape
        rows = range(len(array)) if places is None else places.tolist()
        for at, value in zip(rows, column.values(), strict=True):
            found[at] = value
    return found


KEPT: dict[str, tuple[coders.Coder, pa.Array, Any]] = {
    "narrow ints": (coders.VarIntCoder(), pa.array([0, -5], pa.int16()), None),
    "narrow floats": (coders.FloatCoder(), pa.array([0.5, math.nan], pa.float32()), None),
    "a dictionary of text": (ANY, pa.array(["a", None, "b"]).dictionary_encode(), None),
    "large text": (ANY, pa.array(["a", None, ""], pa.large_string()), None),
    "rows of a coder": (coders.registry.get_coder(Bid), BIDS, Bid),
    "rows in a pair": (
        coders.TupleCoder([coders.BooleanCoder(), coders.registry.get_coder(Bid)]),
        pa.StructArray.from_arrays([pa.array([True, False]), BIDS], ["0", "1"]),
        tuple[bool, Bid],
    ),
    "rows of any coder": (ANY, BIDS, Bid),
    "Rows": (ANY, BIDS, beam.Row),
    "dicts with None among them": (
        ANY,
        pa.array([{"a": 1, "b": {"c": None}}, None, {"a": None}]),
        dict,
    ),
    "dates and decimals": (ANY, pa.array([DATED, None, DATED]), dict),
    "times of rows": (ANY, pa.array([{"at": datetime(2020, 1, 1)}] * 2), beam.Row),
    "None": (ANY, pa.nulls(3), None),
    "empty dicts": (ANY, pa.array([{}, None, {}], pa.struct([])), dict),
}


@pytest.mark.parametrize("name", KEPT)
def test_values_come_back(name: str) -> None:
    coder, array, kind = KEPT[name]
    for part in (array, array.slice(1)):
        some, shape = shaped(part, kind)
        expected = column_of(some, shape).values()
        assert list(map(repr, there_and_back(coder, some, shape))) == list(map(repr, expected))


@pytest.mark.parametrize(
    ("array", "kind"),
    [
        (pa.array([[1], [2]]), None),
        (pa.array([1 << 63], pa.uint64()), None),
        (pa.array([{"x" * 300: 1}]), dict),
    ],
)
def test_what_no_cell_holds_stays_with_elements(array: pa.Array, kind: Any) -> None:
    assert RowCells(ANY).encode(*shaped(array, kind)) is None


def test_values_of_other_types_stay_with_elements() -> None:
    assert RowCells(coders.FloatCoder()).encode(*shaped(pa.array([1]))) is None


INTS = st.integers(-(1 << 63), (1 << 63) - 1)
VALUES = st.fixed_dictionaries(
    {
        "i": st.none() | INTS,
        "f": st.none() | st.floats(),
        "s": st.none() | st.text(st.characters(exclude_categories=["Cs"])),
        "y": st.none() | st.binary(),
        "b": st.none() | st.booleans(),
    }
)
TYPE = pa.struct(
    [
        ("i", pa.int64()),
        ("f", pa.float64()),
        ("s", pa.string()),
        ("y", pa.binary()),
        ("b", pa.bool_()),
    ]
)


@given(st.lists(st.none() | VALUES, min_size=1), st.lists(st.integers(), min_size=1))
def test_dicts_come_back_from_cells_of_several_kinds(dicts: list[Any], numbers: list[int]) -> None:
    cells = RowCells(ANY)
    wholes = pa.array([number % 1000 for number in numbers])
    mixed = [cells.encode(*shaped(pa.array(dicts, TYPE), dict)), cells.encode(*shaped(wholes))]
    found: dict[int, Any] = {}
    for column, places in cells.decode(pa.concat_arrays(mixed)):
        assert places is not None
        found |= zip(places.tolist(), column.values(), strict=True)
    expected = [*pa.array(dicts, TYPE).to_pylist(), *wholes.to_pylist()]
    assert [repr(found[at]) for at in range(len(expected))] == list(map(repr, expected))


def are_encoded(coder: coders.Coder, array: pa.Array, kind: Any = None) -> None:
    keys, shape = shaped(array, kind)
    encode = coder.get_impl().encode_nested
    expected = list(map(encode, column_of(keys, shape).values()))
    assert EncodedKeys(coder).of(keys, shape).to_pylist() == expected


@given(st.lists(st.none() | VALUES, min_size=1))
def test_keys_are_encoded_as_their_coder_does(dicts: list[Any]) -> None:
    rows = pa.array(dicts, TYPE)
    for at, part in enumerate(TYPE):
        array = rows.flatten()[at]
        are_encoded(KEYS, array)
        are_encoded(ANY, array)
        if at != TYPE.get_field_index("y"):
            are_encoded(KEYS, array.cast(part.type).dictionary_encode())
    pairs = pa.StructArray.from_arrays(rows.flatten()[:3], ["0", "1", "2"], mask=rows.is_null())
    are_encoded(KEYS, pairs, tuple)


@given(
    st.lists(
        st.tuples(st.integers(-(1 << 63), (1 << 63) - 1), st.text("aé", max_size=200)), min_size=1
    )
)
def test_keys_of_one_type_are_encoded_as_their_coder_does(pairs: list[tuple[int, str]]) -> None:
    numbers, texts = map(pa.array, zip(*pairs, strict=True))
    are_encoded(coders.VarIntCoder(), numbers)
    are_encoded(coders.StrUtf8Coder(), texts)
    are_encoded(coders.BytesCoder(), texts.cast(pa.binary()))
    are_encoded(coders.FloatCoder(), pa.array([math.nan, -0.0, math.inf]))
    are_encoded(coders.BooleanCoder(), pa.array([True, False]))
    are_encoded(PAIR, pa.StructArray.from_arrays([numbers, texts], ["0", "1"]), tuple)


def test_other_keys_are_encoded_by_their_coder() -> None:
    are_encoded(KEYS, BIDS, Bid)
    are_encoded(KEYS, pa.array([1 << 63], pa.uint64()))
    are_encoded(coders.FloatCoder(), pa.array([1, 2]))
