"""The server of live pages: whom it answers, and with what."""

import http.client
import json
import logging
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from made_up import HOSTILE, Shown

from sparkbeam.observe.page.server import PageServer, ServedPage


@pytest.fixture
def server() -> Iterator[PageServer]:
    started = PageServer()
    yield started
    started.close()


@pytest.fixture
def shown() -> Shown:
    return Shown()


@pytest.fixture
def address(server: PageServer, shown: Shown) -> str:
    return server.add(shown)


def get(address: str, path: str = "", method: str = "GET") -> tuple[int, Any, str]:
    """Status, headers and body of an answer."""
    parts = urlsplit(address)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=20)
    connection.request(method, path if path.startswith("/") else parts.path + path)
    answer = connection.getresponse()
    found = answer.status, answer.headers, answer.read().decode()
    connection.close()
    return found


def test_a_page_is_at_its_address_on_loopback_alone(address: str, server: PageServer) -> None:
    assert urlsplit(address).hostname == "127.0.0.1"
    assert {each.getsockname()[0] for each in server._sockets} == {"127.0.0.1"}
    assert get(address)[0] == 200


@pytest.mark.parametrize("name", ["", "state.json"])
@pytest.mark.parametrize(
    "token", ["x", "", ".", "%2e%2e", "A" * 5000, "%00", "%ff", "caf%C3%A9", "{token}x", "{head}"]
)
def test_without_the_token_there_is_nothing(address: str, token: str, name: str) -> None:
    right = urlsplit(address).path.strip("/")
    path = f"/{token.format(token=right, head=right[:-1])}/{name}"
    status, _, body = get(address, path)
    assert status == (400 if token == "%ff" else 404)
    assert body == "Page not found.\n"


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"])
def test_nothing_can_be_changed(address: str, method: str) -> None:
    assert get(address, "state.json", method)[0] == 405


def test_browsers_are_told_what_they_must_not_do(address: str) -> None:
    _, headers, page = get(address)
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["Cache-Control"] == "no-store"
    assert "Set-Cookie" not in headers
    assert "Server" not in headers
    nonce = headers["Content-Security-Policy"].partition("script-src 'nonce-")[2].partition("'")[0]
    assert page.count(f'<script nonce="{nonce}">') == 1
    assert f'<div><style nonce="{nonce}">' in page
    assert "unsafe-inline" not in headers["Content-Security-Policy"]
    assert nonce not in get(address)[2]


def test_names_are_text_and_never_markup(address: str) -> None:
    _, headers, page = get(address)
    assert "<img" not in page
    assert "&lt;/script&gt;&lt;img" in page
    assert "<title>&lt;/script&gt;" in page
    _, headers, state = get(address, "state.json")
    assert headers["Content-Type"].startswith("application/json")
    assert ["separator", "\u2028"] in json.loads(state)["facts"]
    assert json.loads(state)["stages"][0]["name"] == HOSTILE


@pytest.mark.parametrize(
    ("since", "times"),
    [
        ("", [*range(100, 140)]),
        ("139", [139]),
        *((wrong, 40) for wrong in ("-1", "x", "NaN", "1e3", "%00", "%C2%B2", "%D9%A1")),
        *(("9" * digits, 0) for digits in (99, 5000)),
        ("0" * 5000 + "139", [139]),
        ("139%00", [139]),
        ("100&since=139", [139]),
    ],
)
def test_of_the_history_comes_what_is_asked_for(address: str, since: str, times: Any) -> None:
    found = json.loads(get(address, f"state.json?since={since}")[2])["history"]
    assert [moment["time"] for moment in found] == times or len(found) == times


def test_who_asks_soon_again_gets_the_same_figures() -> None:
    now, shown = 0.0, Shown()
    page = ServedPage(shown, clock=lambda: now)
    page.state(0)
    page.state(0)
    assert shown.asked == 1
    now = 1.0
    page.state(0)
    assert shown.asked == 2


def test_what_takes_long_to_find_out_is_found_out_seldom() -> None:
    times = iter([0.0, 1.0, 20.9, 21.0, 22.0])
    shown = Shown()
    page = ServedPage(shown, clock=lambda: next(times))
    for _ in range(2):
        page.state(0)
    assert shown.asked == 1
    page.state(0)
    assert shown.asked == 2


def test_a_pipeline_that_is_over_is_let_go_and_still_shown(
    server: PageServer, shown: Shown, address: str
) -> None:
    shown.over = True
    server.add(Shown())
    shown.failure = AssertionError("it is asked no more")
    found = json.loads(get(address, "state.json")[2])
    assert (found["state"], len(found["history"])) == ("DONE", 40)


def test_the_last_twenty_pages_are_kept(server: PageServer, address: str) -> None:
    others = [server.add(Shown()) for _ in range(20)]
    assert get(address)[0] == 404
    assert {get(each)[0] for each in others} == {200}


def test_a_page_that_fails_is_told_once_and_comes_back(
    address: str, shown: Shown, caplog: pytest.LogCaptureFixture
) -> None:
    shown.failure = ValueError("no figures")
    with caplog.at_level(logging.INFO):
        assert [get(address, "state.json")[0] for _ in range(3)] == [500] * 3
    assert [record.getMessage() for record in caplog.records] == [
        "The live page failed; the pipeline continues. ValueError: no figures"
    ]
    shown.failure = None
    assert get(address, "state.json")[0] == 200


def test_a_token_is_in_no_log(address: str, caplog: pytest.LogCaptureFixture) -> None:
    token = urlsplit(address).path.strip("/")
    with caplog.at_level(logging.DEBUG):
        for path in ("", "state.json", "other", f"/{token}", f"/x/{token}"):
            get(address, path)
    assert token not in caplog.text
