"""What people and programs pass where something else is due."""

from hypothesis import settings
from hypothesis import strategies as st

FEW = settings(max_examples=40, derandomize=True, database=None)
"""The same examples each time, and not many: these tests are to be fast."""

LONGEST = 700
"""The characters of an error, whatever it has to repeat."""

TEXTS = st.one_of(
    st.sampled_from(
        ["", " ", "a\0b", "\ud800", "x" * 5_000, "nan", "-1", "0", "1e999", "é\n", "٣"]
    ),
    st.sampled_from(
        ["9" * 5_000, "local[0]", "local[**]", "spark://", "sc://", "--", "../..", "."]
    ),
    st.text(st.characters(), max_size=12),
)
NUMBERS = st.one_of(
    st.sampled_from([float("nan"), float("inf"), -float("inf"), -1, 0, 1e300, 2**63, 10**4_000]),
    st.integers(),
    st.floats(),
)
ANYTHING = st.one_of(
    TEXTS,
    NUMBERS,
    st.binary(max_size=8),
    st.booleans(),
    st.none(),
    st.lists(TEXTS, max_size=3),
    st.dictionaries(TEXTS, NUMBERS, max_size=2),
    st.sampled_from([object(), int, len, lambda: None, {1, 2}, ...]),
)


def assert_short(message: str, *names: str) -> None:
    """An error is short, printable, and names what it is about."""
    assert 10 < len(message) <= LONGEST, len(message)
    assert "Traceback (most recent call last)" not in message
    assert not names or any(name in message for name in names), message
