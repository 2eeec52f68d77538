"""What of the options of sources and sinks, and of the session, nobody gets to see."""

import json
import pickle
import random
from collections.abc import Callable
from html import escape
from urllib.parse import quote, quote_plus

import pytest

from sparkbeam.plan.redaction import Redaction, shown_url

SECRETS = [
    "hunter2",
    "1234",
    "20260101",
    "x1",
    "pa ss/wo+rd",
    "k&y=%?;#@!",
    "quo\"te's\\back",
    "line\nbreak\ttab",
    "pässwört€",
    "\U0001f511key",
    "<b>&amp;</b>",
    "aGVsbG8gd29ybGQ+/w==",
]

FORMS: dict[str, Callable[[str], str]] = {
    "as it is": str,
    "URL": lambda secret: quote(secret, safe=""),
    "URL with slashes": quote,
    "form": quote_plus,
    "URL in small letters": lambda secret: quote(secret, safe="").replace("%2F", "%2f"),
    "URL twice": lambda secret: quote(quote(secret, safe=""), safe=""),
    "JSON": json.dumps,
    "JSON with all letters": lambda secret: json.dumps(secret, ensure_ascii=False),
    "JSON in JSON": lambda secret: json.dumps(json.dumps({"k": secret})),
    "Python": repr,
    "Python in ASCII": ascii,
    "Python's bytes": lambda secret: repr(secret.encode()),
    "Python twice": lambda secret: repr(repr(secret)),
    "HTML": escape,
    "percent-encoded": lambda secret: "".join(f"%{byte:02x}" for byte in secret.encode()),
}

PLACES = [
    "{}",
    "cannot log in with {}.",
    "[{}]",
    "jdbc:db://host/db?user=me&password={}&ssl=true",
    "https://me:{}@host/path",
    "{{'a': {}}}",
    "a\n{}\nb",
]

NAMES = ["password", "pin", "clientSecret", "db.passwd", "fs.azure.account.key", "apiKey", "sas"]


def inner(written: str) -> str:
    """What is written without the quotes."""
    return written.removeprefix("b").strip("'\"")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("secret", SECRETS)
def test_a_secret_is_hidden_however_it_is_written(secret: str, form: str) -> None:
    written = FORMS[form](secret)
    bare = inner(written)
    for name, place in zip(NAMES, PLACES, strict=True):
        shown = Redaction([(name, secret)])(place.format(written))
        assert bare not in shown.replace("***", ""), (name, place, shown)
        assert "***" in shown


def test_secrets_of_any_letters_are_hidden() -> None:
    chance = random.Random(4)
    letters = [chr(code) for code in range(0x20, 0x7F)] + list("\n\t\\\"'%&é€")
    for _ in range(60):
        secret = "".join(chance.choices(letters, k=chance.randint(8, 24))).strip() + "x"
        hide = Redaction([("token", secret)])
        for form in FORMS.values():
            written = form(secret)
            assert written.strip("'\"") not in hide(f"failed: {written} at 3"), (secret, written)


@pytest.mark.parametrize(
    ("name", "value", "hidden"),
    [
        ("url", "jdbc:db://host/?user=someone&password=12", "12"),
        ("dsn", "host=h user=u password=p1", "p1"),
        ("dsn", "postgres://u:pw1@h/db", "pw1"),
        ("path", "wasbs://c@h/p?sv=2020&sig=abc%2Bdef%3D&se=1", "abc+def="),
        ("path", "wasbs://c@h/p?sv=2020&sig=abc%2Bdef%3D&se=1", "abc%2Bdef%3D"),
        ("conn", "Endpoint=sb://h/;SharedAccessKeyName=n;SharedAccessKey=a1b2=", "a1b2="),
        ("kafka.sasl.jaas.config", 'Module required username="u" password="p;q r";', "p;q r"),
        ("header", "Authorization: Bearer abc.def-1", "abc.def-1"),
        ("header", "Basic dXNlcjpwYXNz1=", "dXNlcjpwYXNz1="),
        ("cookie", "session=abc1; path=/", "session=abc1; path=/"),
        ("headers", '{"Cookie": "id=7z"}', "id=7z"),
        ("credentials", '{"private_key": "-----BEGIN\\nabcd"}', "-----BEGIN\\nabcd"),
        ("pin", "7", "7"),
    ],
)
def test_secrets_within_values_are_hidden_alone(name: str, value: str, hidden: str) -> None:
    hide = Redaction([(name, value)])
    assert hide(f"no login with ({hidden}) today") == "no login with (***) today"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("see ftp://me:hunter22@host/x", "see ftp://***@host/x"),
        ("GET /?sig=Ab%2F1&x=2", "GET /?sig=***&x=2"),
        ("Authorization: Bearer eyJ0.a1.b2 was refused", "Authorization: Bearer *** was refused"),
        ("sc://host:15002/;token=abc1;user_id=me", "sc://host:15002/;token=***;user_id=me"),
        ("Authorization: Token 0a1b2c3d", "Authorization: Token ***"),
        ("{'token': 'a1', 'name': 'b'}", "{'token': ***, 'name': 'b'}"),
        ('{"password": "a b"}', '{"password": ***}'),
        ("AccountKey=a/b+c==;EndpointSuffix=x", "AccountKey=***;EndpointSuffix=x"),
    ],
)
def test_what_looks_like_a_secret_is_hidden_though_nobody_told_of_it(text: str, shown: str) -> None:
    assert Redaction()(text) == shown


def test_values_of_telling_options_are_hidden() -> None:
    hide = Redaction([("password", "abc-123"), ("path", "/data/in"), ("sasl.jaas.config", "x y z")])
    assert hide("abc-123 for x y z in /data/in") == "*** for *** in /data/in"


def test_an_address_is_hidden_as_a_whole() -> None:
    hide = Redaction([("url", "jdbc:db://host/?user=someone&password=hunter22")])
    assert hide("cannot open jdbc:db://host/?user=someone&password=hunter22.") == "cannot open ***."


def test_words_that_tell_nothing_are_left() -> None:
    hide = Redaction(
        [("useToken", "true"), ("keys", "10"), ("startingKey", "earliest"), ("tokenCount", "3")],
        [("spark.kubernetes.serviceAccountName", "spark"), ("spark.app.name", "words")],
    )
    for text in (
        "true, 10, earliest, 3: spark counts words; password=None, basic understanding, a::b",
        "unexpected token: '}' at 7, unknown token x12345 where token == y and secret => z",
    ):
        assert hide(text) == text


def test_a_short_secret_is_hidden_only_where_it_stands_alone() -> None:
    hide = Redaction([("pin", "12")])
    assert (
        hide("12 is wrong: port 4123, 120 times, a12") == "*** is wrong: port 4123, 120 times, a12"
    )


def test_secrets_of_the_session_are_hidden() -> None:
    hide = Redaction(settings=[("spark.hadoop.fs.s3a.secret.key", "wJalr/K7")])
    assert hide("no access with wJalr%2FK7") == "no access with ***"


def test_a_long_key_is_hidden_line_by_line() -> None:
    lines = ["-----BEGIN PRIVATE KEY-----", *(f"{n:02}" * 32 for n in range(40)), "----END"]
    hide = Redaction([("privateKey", "\n".join(lines))])
    assert "0707070707" not in hide(f"bad line: {lines[8]}")
    assert "0707070707" not in hide(json.dumps("\n".join(lines)))


def test_it_travels() -> None:
    hide = pickle.loads(pickle.dumps(Redaction([("password", "abc-123")])))
    assert hide("abc-123") == "***"


@pytest.mark.parametrize(
    "url",
    [
        "sc://host:15002/;token=hunter-2",
        "SC://host/;use_ssl=true;Token=hunter-2",
        "https://me:hunter-2@host/;token=hunter-2",
        "sc://hunter-2@host",
        "sc://host/?token=hunter-2",
        "sc://host/%3Btoken=hunter-2",
        "sc://host/#token=hunter-2",
        "host:15002/;token=hunter-2",
        "token=hunter-2",
        "sc://host/token=hunter-2",
        "spark://host:7077?password=hunter-2",
    ],
)
def test_a_url_is_shown_without_account_and_token(url: str) -> None:
    assert "hunter" not in shown_url(url)


def test_a_long_url_is_shortened() -> None:
    assert len(shown_url("sc://" + "h" * 5000)) <= 100
