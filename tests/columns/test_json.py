"""JSON that functions parse: over columns it has the values of ``json.loads``, or is refused."""

import json
import math
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from in_python import BYTES, STR, called, refusal, written
from whole import examples

from sparkbeam.columns import (
    Compiled,
    DataDependent,
    FallBack,
    RecordShape,
    Refused,
    ResultKind,
    compile_function,
)
from sparkbeam.columns.python_types import Shape
from sparkbeam.columns.python_values import values_of


def in_two_steps(text: Any) -> Any:
    click = json.loads(text)
    if click["ok"]:
        return click["user"], click["price"]
    return click["user"], None


def on_one_path(text: Any) -> Any:
    return json.loads(text)["price"] if len(text) > 70 else -1.5


def on_two_paths(text: Any) -> Any:
    user = json.loads(text)["user"] if len(text) % 3 else "none"
    return user if len(text) % 2 else None


def yields(text: Any) -> Any:
    click = json.loads(text)
    if "note" in click:
        yield click["user"], click["note"]
    yield click["user"], click["item"]["name"]


LOADS: Any = json.loads
FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "all of it": lambda text: json.loads(text),
    "an item": lambda text: json.loads(text)["user"],
    "a nested item": lambda text: json.loads(text)["item"]["id"],
    "a nested object": lambda text: json.loads(text)["item"],
    "a list": lambda text: json.loads(text)["sizes"],
    "an item of a list": lambda text: json.loads(text)["sizes"][0],
    "two items": in_two_steps,
    "an optional item": lambda text: (json.loads(text)["user"], json.loads(text).get("note")),
    "an item with a default": lambda text: (len(text), json.loads(text).get("note", "-")),
    "a key that is nowhere": lambda text: (json.loads(text)["ok"], json.loads(text).get("no", 1)),
    "a test for a key": lambda text: ("note" in json.loads(text), json.loads(text)["ok"]),
    "a test for a nested object": lambda text: json.loads(text)["item"] is None,
    "a number of keys": lambda text: len(json.loads(text)),
    "an object and an item": lambda text: (json.loads(text), json.loads(text).get("note")),
    "its truth": lambda text: 1 if json.loads(text) else 0,
    "a merged object": lambda text: {**json.loads(text), "new": 1},
    "a number to compute with": lambda text: json.loads(text)["price"] * 2 + 1,
    "on one path": on_one_path,
    "on one path, for another one": on_two_paths,
}


def over(function: Callable[..., Any], texts: list[Any], form: ResultKind) -> list[Any] | None:
    """The results over columns with the positions of the elements; None if they are refused."""
    shape: Shape = STR if isinstance(texts[0], str) else BYTES
    block = pa.array(texts, pa.string() if shape == STR else pa.binary())
    found = compile_function(function, shape, form=form)
    assert isinstance(found, DataDependent)
    try:
        compiled = found.compiled_for(block)
        if isinstance(compiled, Refused):
            return None
        output = compiled.evaluate(block)
    except FallBack:
        return None
    output.values.validate(full=True)
    rows = range(len(texts)) if output.rows is None else output.rows.tolist()
    return list(zip(rows, values_of(output.values, compiled.result), strict=True))


def is_taken(function: Callable[..., Any], texts: list[Any]) -> bool:
    """Return whether a function runs over columns; if so, it must give what a call gives."""
    form = ResultKind.FLAT if function is yields else ResultKind.MAP
    found = over(function, texts, form)
    if found is None:
        return False
    expected = called(function, texts, form)
    assert not isinstance(expected, Exception), f"it raises {expected!r}"
    assert written(found) == written(expected)
    return True


def click(number: int, **others: Any) -> dict[str, Any]:
    return {
        "user": f"u{number % 7} é",
        "price": number / 8,
        "count": number - 3,
        "ok": number % 3 == 0,
        "item": {"id": number % 5, "name": 'a "quoted" \\ name'},
        "sizes": [number, number + 1],
        **others,
    }


ALIKE = [click(number, note="n") for number in range(60)]


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize(
    "write",
    [
        lambda value: json.dumps(value),
        lambda value: json.dumps(value).encode(),
        lambda value: json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode(),
        lambda value: "  " + json.dumps(value) + " \t",
    ],
)
def test_objects_of_one_type_are_columns(name: str, write: Callable[[Any], Any]) -> None:
    assert is_taken(FUNCTIONS[name], [write(value) for value in ALIKE])


def test_results_of_a_generator_are_columns() -> None:
    assert is_taken(yields, [json.dumps(value) for value in ALIKE])


@pytest.mark.parametrize(
    ("name", "are_columns"),
    [
        ("an optional item", True),
        ("an item with a default", True),
        ("a test for a key", True),
        ("two items", True),
        ("all of it", False),
        ("a number of keys", False),
        ("an object and an item", False),
    ],
)
def test_some_objects_may_lack_a_key(name: str, are_columns: bool) -> None:
    values = [click(n, note="n") if n % 2 else click(n) for n in range(60)]
    assert is_taken(FUNCTIONS[name], [json.dumps(one) for one in values]) == are_columns


ODD = [
    *('{"user": 1}', "{}", "", "null", "3", "[]", "[{}]", '{"user": "x"', "not JSON", "\x00"),
    *('{"user": "a"}{"user": "b"}', '{"user": "a"}\n{"user": "b"}', '{"user":\n"a"}'),
    "\ufeff" + json.dumps(click(1)),
    json.dumps(click(1)) + " {}",
    json.dumps(click(1))[:-1] + ', "user": "last wins"}',
    json.dumps(click(1))[:-1] + ', "us\\u0065r": "last wins"}',
    json.dumps(click(1))[:-1] + ', "other": [NaN, -Infinity]}',
    json.dumps(click(1))[:-1] + ', "other": [Inf]}',
    json.dumps(click(1))[:-1] + ', "other": -NaN}',
    json.dumps(click(1))[:-1] + ', "other": ' + "[" * 3000 + "]" * 3000 + "}",
    json.dumps(click(1))[:-1] + ', "other": ' + "9" * 5000 + "}",
    json.dumps(click(1))[:-1] + ', "no": 5}',
    json.dumps(click(1))[:-1] + ', "n\\u006f": 5}',
    json.dumps(click(1))[:-1] + ', "other": "\t"}',
    json.dumps(dict(reversed(click(1, note="n").items()))),
    json.dumps(click(1, price=2)),
    json.dumps(click(1, price=2)).replace("price", "pr\\u0069ce"),
    json.dumps(click(1, price=2.0)),
    json.dumps(click(1, price=-0.0)),
    json.dumps(click(1, price=math.nan)),
    json.dumps(click(1, price=math.inf)),
    json.dumps(click(1)).replace("0.125", "1e400"),
    json.dumps(click(1)).replace("0.125", "1e-400"),
    json.dumps(click(1)).replace("0.125", "01"),
    json.dumps(click(1, price=None)),
    json.dumps(click(1, price=True)),
    json.dumps(click(1, price="0.5")),
    json.dumps(click(1, count=2**63)),
    json.dumps(click(1, ok=1)),
    json.dumps(click(1, user="\ud800")),
    json.dumps(click(1, user="\U0001f600 \x00\u2028")),
    json.dumps(click(1, user="2024-01-01T00:00:00Z")),
    json.dumps(click(1, user=None)),
    json.dumps(click(1, note=None)),
    json.dumps(click(1, note=3)),
    json.dumps(click(1, item=None)),
    json.dumps(click(1, item={})),
    json.dumps(click(1, item={"id": 1})),
    json.dumps(click(1, item={"id": 1, "name": "", "note": ""})),
    json.dumps(click(1, item=[1])),
    json.dumps(click(1, sizes=[])),
    json.dumps(click(1, sizes=[None, 1])),
    json.dumps(click(1, sizes=[1.0])),
    json.dumps(click(1, sizes={"a": 1})),
]


@pytest.mark.part(4)
@pytest.mark.parametrize("number", range(len(ODD)))
def test_one_odd_text_among_others_is_no_difference(number: int) -> None:
    texts = [json.dumps(value) for value in ALIKE[:40]]
    texts.insert(33, ODD[number])
    encoded = [text.encode(errors="surrogatepass") for text in texts]
    for function in FUNCTIONS.values():
        is_taken(function, texts)
        is_taken(function, encoded)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-32", "latin-1"])
def test_bytes_may_be_in_another_encoding(encoding: str) -> None:
    texts = [json.dumps(value, ensure_ascii=False).encode(encoding) for value in ALIKE]
    for function in FUNCTIONS.values():
        assert not is_taken(function, texts)


def test_floats_without_a_fraction_are_columns() -> None:
    texts = [json.dumps(click(number, price=float(number))) for number in range(200)]
    assert is_taken(FUNCTIONS["two items"], texts)
    texts[77] = json.dumps(click(77, price=77))
    assert not is_taken(FUNCTIONS["two items"], texts)


def test_values_of_a_type_that_differs_are_columns_if_they_are_not_read() -> None:
    texts = [json.dumps(click(n, note=n if n % 2 else [{"a": n}])) for n in range(60)]
    assert is_taken(FUNCTIONS["two items"], texts)
    assert not is_taken(FUNCTIONS["all of it"], texts)


def test_a_function_is_compiled_for_a_few_types_of_json() -> None:
    found = compile_function(FUNCTIONS["an item"], STR)
    assert isinstance(found, DataDependent)
    blocks = [pa.array([json.dumps({"user": 1, f"k{at}": 1})]) for at in range(30)]
    results = [found.compiled_for(block) for block in blocks[:20]]
    assert all(isinstance(one, Compiled) for one in results)
    with pytest.raises(FallBack, match="many types"):
        found.compiled_for(blocks[20])
    assert found.compiled_for(blocks[0]) is results[0]


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda text: json.loads(text, parse_float=str), "keyword arguments"),
        (lambda text: LOADS(text, None), "calls json.loads"),
        (lambda text: LOADS(3), "calls json.loads with int"),
    ],
)
def test_other_calls_are_made_element_by_element(function: Any, reason: str) -> None:
    assert reason in refusal(function, STR)


def test_json_within_json_is_parsed_element_by_element() -> None:
    texts = pa.array([json.dumps({"inner": json.dumps({"a": 1})})])
    found = compile_function(lambda text: json.loads(json.loads(text)["inner"])["a"], STR)
    assert isinstance(found, DataDependent)
    refused = found.compiled_for(texts)
    assert isinstance(refused, Refused)
    assert "JSON within JSON" in refused.reason


def test_a_field_of_a_pair_is_parsed() -> None:
    pairs = RecordShape(tuple, ("0", "1"), (BYTES, BYTES))
    values = pa.array([json.dumps(value).encode() for value in ALIKE])
    block = pa.StructArray.from_arrays([values, values], ["0", "1"])
    found = compile_function(lambda pair: json.loads(pair[1].decode("utf-8"))["count"], pairs)
    assert isinstance(found, DataDependent)
    compiled = found.compiled_for(block)
    assert isinstance(compiled, Compiled)
    assert compiled.evaluate(block).values.to_pylist() == [value["count"] for value in ALIKE]


KEYS = st.sampled_from(["user", "price", "item", "note", "sizes", "ok", "no", 'q"', "\u00e9", ""])
SCALARS = st.one_of(
    *(st.none(), st.booleans(), st.integers(-3, 3), st.integers(), st.floats()),
    st.text(max_size=3),
    st.sampled_from(["user", '"user":', "\ud800", "NaN", "\\", 1.0, 2**63, -(2**63), 1e300]),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=3)),
    max_leaves=6,
)
OF_KEYS = {
    "user": st.text(max_size=4),
    "price": st.one_of(st.floats(), st.integers(-9, 9).map(float)),
    "count": st.integers(-(2**64), 2**64),
    "ok": st.booleans(),
    "item": st.fixed_dictionaries({"id": st.integers(0, 9), "name": st.sampled_from(["", "id"])}),
    "sizes": st.lists(st.integers(0, 3), max_size=3),
    "note": st.one_of(st.none(), st.text(max_size=2)),
}
SPACES = st.sampled_from([*" \t\r\n\x0b\u00a0\ufeff\x00{}]", ""])


@st.composite
def hostile_texts(draw: Any) -> list[str]:
    """Texts of objects that are mostly alike, with odd values, keys and characters."""
    like = (
        click(1, note="n")
        if draw(st.booleans())
        else draw(st.dictionaries(KEYS, VALUES, max_size=6))
    )
    rare = draw(st.integers(0, 20))
    texts = []
    for _ in range(draw(st.integers(1, 6))):
        value = dict(like)
        for key in draw(st.sets(st.sampled_from(sorted(OF_KEYS)), max_size=3)):
            value[key] = draw(OF_KEYS[key])
        if draw(st.integers(0, 20)) < rare:
            value[draw(KEYS)] = draw(VALUES)
        if value and draw(st.integers(0, 20)) < rare:
            del value[draw(st.sampled_from(sorted(value)))]
        separators = draw(st.sampled_from([None, (",", ":"), (" , ", " : ")]))
        text = json.dumps(value, ensure_ascii=draw(st.booleans()), separators=separators)
        if draw(st.integers(0, 20)) < rare:
            at = draw(st.integers(0, len(text)))
            middle = draw(st.one_of(SPACES, st.text(max_size=2), st.just(text[at // 2 : at])))
            text = text[:at] + middle + text[at + draw(st.integers(0, 2)) :]
        texts.append(text)
    return texts


@examples(150)
@given(hostile_texts(), st.sampled_from([*FUNCTIONS, "yields"]), st.booleans())
def test_hostile_texts_give_what_python_gives(texts: list[str], name: str, in_bytes: bool) -> None:
    function = FUNCTIONS.get(name, yields)
    if in_bytes:
        is_taken(function, [text.encode(errors="surrogatepass") for text in texts])
    elif not any("\ud800" <= character <= "\udfff" for text in texts for character in text):
        is_taken(function, texts)
