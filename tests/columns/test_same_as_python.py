"""Functions that nobody has thought of: over columns they give what Python gives."""

from typing import Any

from apache_beam.pvalue import Row
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from in_python import ELEMENT, Element, Inner, assert_same
from writing import a_function, made

from sparkbeam.columns import Compiled, ResultKind, compile_function

INTS = st.one_of(
    st.integers(-4, 4),
    st.sampled_from([2**53, 2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63), 10**6, 2**31]),
    st.integers(-(2**63), 2**63 - 1),
)
FLOATS = st.one_of(
    st.sampled_from([0.0, -0.0, 1.0, -1.5, 0.5, 2.5, 1e308, 5e-324, 2.0**53, 2.0**63]),
    st.floats(),
    st.floats(-10, 10),
)
CHARACTERS = st.one_of(
    st.sampled_from("abAB ,é\u00df\u0130\n\x1c\u3000\U0001f600\x00-09"),
    st.characters(exclude_categories=["Cs"]),
)
TEXTS = st.text(CHARACTERS, max_size=5)
BYTES = st.binary(max_size=4)


def _maybe(strategy: st.SearchStrategy[Any], is_none: bool) -> st.SearchStrategy[Any]:
    return st.one_of(st.none(), strategy) if is_none else strategy


@st.composite
def blocks(draw: Any) -> list[Element]:
    """Elements, any of whose fields may be None in some blocks."""
    calm = draw(st.booleans())
    ints = st.integers(-5, 5) if calm else INTS
    floats = st.floats(-5, 5) if calm else FLOATS
    texts = st.text("abc,0", max_size=4) if calm else TEXTS
    kinds = [ints, ints, floats, floats, texts, texts, BYTES, st.booleans(), st.booleans()]
    rare = draw(st.integers(0, 30))
    fields = [_maybe(one, at == rare) for at, one in enumerate(kinds)]
    inner = st.builds(Inner, _maybe(ints, rare == 10), _maybe(texts, rare == 11))
    pair = st.tuples(ints, texts)
    row = st.builds(lambda u, v: Row(u=u, v=v), floats, _maybe(st.booleans(), rare == 12))
    item = st.builds(lambda i, s: {"i": i, "s": s}, ints, _maybe(texts, rare == 16))
    element = st.builds(
        Element,
        *fields,
        _maybe(inner, rare == 13),
        _maybe(pair, rare == 14),
        _maybe(row, rare == 15),
        _maybe(item, rare == 17),
    )
    return draw(st.lists(element, max_size=8))


@st.composite
def functions(draw: Any) -> tuple[str, ResultKind]:
    return a_function(lambda least, most: draw(st.integers(least, most)))


@settings(suppress_health_check=list(HealthCheck))
@given(functions(), blocks())
def test_a_function_gives_what_it_gives_when_it_is_called(
    source: tuple[str, ResultKind], elements: list[Element]
) -> None:
    function = made(source[0])
    compiled = compile_function(function, ELEMENT, form=source[1])
    if isinstance(compiled, Compiled):
        assert_same(compiled, function, elements, source[1])
