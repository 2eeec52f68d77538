"""Secrets that nobody has told of: where they are seen, what stays, that no cut shows a part.

The texts that are looked through are in the table beside this module.
"""

import json
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkbeam.common.arguments import shown
from sparkbeam.common.display_text import beginning, concealed, shortened
from sparkbeam.common.secret_patterns import hidden
from sparkbeam.observe.collection.notes import Notes
from sparkbeam.observe.figures import formats
from sparkbeam.plan.redaction import Redaction
from sparkbeam.wire.output_lines import STDERR, OutputLine

SECRET = "Hunt3r-Sec7et"

_, _SECRET, _INNOCENT = Path(__file__).with_suffix(".txt").read_text().split("\n# ")


def _lines(section: str) -> list[str]:
    _, *found = filter(None, section.splitlines())
    return [line for line in found if not line.startswith("## ")]


FORMS = [*_lines(_SECRET), "  password: {}\n  user: x"]

TOKENS = [
    "AKIA" + "ABCDEFGHIJ123456",
    "ghp_" + "a1B2" * 9,
    "glpat-" + "x1Y2" * 5,
    "xoxb-" + "1234567890-abc",
    "eyJhbGciOi.eyJzdWIiOi.c2lnbmF0dXJl",
    "dapi" + "0123456789abcdef" * 2,
    "sk_live_" + "a1B2" * 6,
    "sk-proj-" + "a1B2" * 6,
    "sk-ant-api03-" + "a1B2" * 6,
    "sk-" + "0123456789abcdef" * 2,
    "pypi-AgEIcHlwaS5vcmc" + "a1B2" * 6,
]

INNOCENT = [
    *_lines(_INNOCENT),
    " |-- secret: long (nullable = true)\n |-- password: struct (nullable = true)",
]


def is_shown(secret: str, text: str) -> bool:
    """Whether four letters of a secret that follow each other are in a text."""
    return any(secret[at : at + 4] in text for at in range(len(secret) - 3))


@pytest.mark.parametrize("form", FORMS)
def test_a_secret_is_seen_by_what_stands_before_it(form: str) -> None:
    found = hidden(form.format(SECRET))
    assert not is_shown(SECRET, found)
    assert "***" in found


@pytest.mark.parametrize("token", TOKENS)
def test_a_token_is_seen_by_its_first_letters(token: str) -> None:
    assert hidden(f"cannot use {token} there") == "cannot use *** there"


@pytest.mark.parametrize("text", INNOCENT)
def test_other_words_stay(text: str) -> None:
    assert hidden(text) == text


def test_what_is_hidden_once_stays_as_it_is() -> None:
    for form in FORMS:
        once = hidden(form.format(SECRET))
        assert hidden(once) == once


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("url", "jdbc:oracle:thin:scott/{}@//host:1521/x"),
        ("bindpw", "{}"),
        ("query", "CREATE USER u PASSWORD '{}'"),
        ("query", "f(user => 'a', password => '{}')"),
        ("header", "Authorization: ApiKey {}"),
        ("headers", '{{"Authorization": "ApiKey {}"}}'),
        ("dsn", "user:{}"),
        ("dsn", "user:{}@host/db"),
        ("dsn", "user/{}@host"),
        ("auth", "user:{}"),
        ("spark.sql.catalog.c.credential", "id:{}"),
        ("basic.auth.user.info", "user:{}"),
        ("url", "https://hooks.slack.com/services/T0AAA/B0BBB/{}"),
        ("conn", "Driver=x;PWD={{{}}}"),
        ("command", "--password {}"),
        ("x-api-key", "{}"),
    ],
)
def test_a_secret_of_an_option_is_seen_where_it_stands_alone(name: str, value: str) -> None:
    given = [(name, value.format(SECRET))]
    for hide in (Redaction(given), Redaction(settings=given)):
        assert hide(f"no login with ({SECRET}) today") == "no login with (***) today"


LETTERS = st.characters(min_codepoint=0x21, max_codepoint=0x7E)
SECRETS = st.text(LETTERS, min_size=8, max_size=300).filter(lambda text: not text.isdigit())
AROUND = st.text(st.sampled_from(" abc,.\n'\"=:/é"), max_size=120)


@settings(max_examples=60, deadline=None)
@given(SECRETS, AROUND, AROUND, st.integers(1, 400), st.integers(1, 3))
def test_no_cut_shows_a_part_of_a_secret(
    secret: str, before: str, after: str, most: int, times: int
) -> None:
    hide = Redaction([("password", secret)])
    text = f"{before} {secret} {after} " * times
    notes = Notes(hide)
    notes.add("step", text)
    (note,) = notes.recent()
    found = [
        shortened(text, most, hide),
        beginning(text, most, hide),
        concealed(text, most, hide),
        OutputLine(STDERR, "step", text + "x" * 2000).cut(hide).text,
        note.text,
    ]
    around = f"{before} *** {after} " * times + "…" + "x" * 2000
    for each in found:
        for at in range(len(secret) - 3):
            part = secret[at : at + 4]
            assert part not in each or part in around


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(FORMS), st.integers(0, 120), st.integers(1, 200))
def test_no_cut_shows_a_part_of_what_looks_like_a_secret(form: str, at: int, most: int) -> None:
    text = f"{'x ' * at}{form.format(SECRET)} {'y ' * 50}"
    for each in (shortened(text, most), beginning(text, most), formats.shortened(text, most + 4)):
        assert not is_shown(SECRET, each)
    assert not is_shown(SECRET, shown(f"{'x ' * (at % 20)}{form.format(SECRET)}", most + 1))


def test_the_end_of_what_is_looked_through_of_a_long_text_cuts_no_secret() -> None:
    hide = Redaction([("password", SECRET * 3)])
    for shift in range(0, 60, 7):
        text = "x" * shift + f"{SECRET * 3} " * 5000
        for each in (shortened(text, 90_000, hide), concealed(text, 90_000, hide)):
            assert not is_shown(SECRET, each)


@pytest.mark.parametrize(
    "part",
    [
        "a",
        "token==",
        "password='",
        "://",
        "://a:b@",
        "pass.",
        "https://a.hook.",
        'password "',
        "sk-",
        "create user identified with ",
    ],
)
def test_hostile_texts_take_no_longer_than_others(part: str) -> None:
    began = time.process_time()
    hidden(part * (100_000 // len(part)))
    assert time.process_time() - began < 10  # In the square of the length it would be minutes.


def test_a_long_secret_of_short_words_is_hidden() -> None:
    secret = " ".join(f"word{number}" for number in range(40))
    hide = Redaction([("password", secret)])
    assert hide(json.dumps({"a": f"no {secret}!"})) == '{"a": "no ***!"}'
