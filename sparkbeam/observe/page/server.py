"""Server of live pages: one per process and port, on loopback, in a separate thread.

It is read-only: no request changes anything. Access needs the token of a page, which is part of its
address.
"""

import asyncio
import hmac
import json
import logging
import secrets
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from html import escape
from importlib import resources
from string import Template
from typing import Any

from tornado.httpserver import HTTPServer
from tornado.iostream import IOStream
from tornado.netutil import bind_sockets
from tornado.web import Application, RequestHandler

from sparkbeam.common.acceptor import PAUSE_SECONDS, Full, Guests, accepted, is_at_home
from sparkbeam.common.background import background_thread
from sparkbeam.common.display_text import error_line
from sparkbeam.observe.collection.recent_batches import SecondSummary
from sparkbeam.observe.page.view import PageView

_logger = logging.getLogger(__name__)

LOOPBACK = "127.0.0.1"
_FRESH_SECONDS = 0.5
"""Seconds for which figures are cached."""

_PAUSE = 20
"""Minimum caching time as a multiple of the time to compute the figures."""

_MOST_PAGES = 20
_IDLE_SECONDS = 60
_STRANGE_SECONDS = 10.0
_SWEEP_SECONDS = 1.0
_MOST_READERS = 100
_BUFFER_BYTES = 1 << 20
_HEADER_BYTES = 16_384
_START_SECONDS = 10.0


class ServedPage:
    """A pipeline at an address.

    Args:
        clock: returns monotonic seconds.
    """

    def __init__(self, view: PageView, clock: Callable[[], float] = time.monotonic) -> None:
        self.token = secrets.token_urlsafe(24)
        self.title = view.title
        self.graph = view.graph
        self._view: PageView | None = view
        self._clock = clock
        self._next: float | None = None
        self._content: dict[str, Any] = {}
        self._past: list[SecondSummary] = []

    def state(self, since: int) -> dict[str, Any]:
        """Return the current content of the page, with the history since a second of the epoch."""
        view = self._view
        if view is None:
            past = [moment for moment in self._past if moment.time >= since]
        else:
            past = view.history(since)
            begun = self._clock()
            if self._next is None or begun >= self._next:
                self._content = view.content()
                ended = self._clock()
                self._next = ended + max(_FRESH_SECONDS, _PAUSE * (ended - begun))
        return {**self._content, "history": [asdict(moment) for moment in past]}

    def freeze(self) -> None:
        """Keep the final content of a finished pipeline, and release the pipeline."""
        if self._view is not None and self._view.over:
            self._content, self._past = self._view.content(), self._view.history(0)
            self._view = None


class PageServer:
    """Server of pages until the program ends.

    Args:
        port: the port on loopback; 0 for any free one.

    Raises:
        OSError: the port is in use.
    """

    def __init__(self, port: int = 0) -> None:
        self._pages: tuple[ServedPage, ...] = ()
        self._lock = threading.Lock()
        self._sockets = bind_sockets(port, LOOPBACK)
        self.port: int = self._sockets[0].getsockname()[1]
        self._ready = threading.Event()
        self._guests: Guests[IOStream] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = background_thread(self._run, "sparkbeam-page")
        self._thread.start()
        self._ready.wait(_START_SECONDS)

    def add(self, view: PageView) -> str:
        """Add a page for a pipeline; return its address.

        Among the pages of finished pipelines, only the last ones are kept.
        """
        page = ServedPage(view)
        with self._lock:
            for each in self._pages:
                each.freeze()
            self._pages = (*self._pages, page)[-_MOST_PAGES:]
        return f"http://{LOOPBACK}:{self.port}/{page.token}/"

    def find(self, token: str) -> ServedPage | None:
        """Return the page with a token, compared in constant time."""
        given = token.encode("utf-8", "replace")
        found = None
        for page in self._pages:
            if hmac.compare_digest(page.token.encode(), given):
                found = page
        return found

    def know(self, connection: Any) -> None:
        """Record that a connection has sent a valid token; others are closed soon."""
        stream = getattr(connection, "stream", None)
        if self._guests is not None and stream is not None:
            self._guests.forget(IOStream.closed)
            self._guests.know(stream)

    def close(self) -> None:
        """Stop the server."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_START_SECONDS)

    def _run(self) -> None:
        try:
            self._loop = loop = asyncio.new_event_loop()
            asyncio.set_event_loop(loop)
            application = Application(
                [(r"/([^/]+)/(state[.]json)?", _PageHandler, {"server": self, "told": set()})],
                default_handler_class=_NotFound,
                # A path has a token in it.
                log_function=lambda handler: None,
            )
            server = HTTPServer(
                application,
                max_header_size=_HEADER_BYTES,
                max_body_size=0,
                idle_connection_timeout=_IDLE_SECONDS,
            )
            door = _Door(server, loop, self._sockets)
            self._guests = door.guests
            loop.call_soon(self._ready.set)
            loop.run_forever()
            door.close()
            loop.run_until_complete(server.close_all_connections())
            loop.close()
        except Exception as error:
            _logger.warning("The live page stopped; the pipeline continues. %s", error_line(error))
        finally:
            self._ready.set()


class _Door:
    """Acceptor of a bounded number of connections, and of none while descriptors run out."""

    def __init__(
        self, server: HTTPServer, loop: asyncio.AbstractEventLoop, sockets: list[socket.socket]
    ) -> None:
        self.guests = Guests[IOStream](IOStream.close, _STRANGE_SECONDS, _MOST_READERS)
        self._server = server
        self._loop = loop
        self._sockets = sockets
        for each in sockets:
            self._open(each)
        self._sweep()

    def close(self) -> None:
        for each in self._sockets:
            self._loop.remove_reader(each)
            each.close()

    def _open(self, listening: socket.socket) -> None:
        if listening.fileno() >= 0:
            self._loop.add_reader(listening, self._accept, listening)

    def _accept(self, listening: socket.socket) -> None:
        try:
            connection = accepted(listening)
        except Full:
            self.guests.make_room()
            self._loop.remove_reader(listening)
            self._loop.call_later(PAUSE_SECONDS, self._open, listening)
            return
        if connection is not None:
            connection.setblocking(False)
            stream = IOStream(connection, max_buffer_size=_BUFFER_BYTES)
            self._server.handle_stream(stream, ("", 0))
            self.guests.enter(stream)

    def _sweep(self) -> None:
        self.guests.forget(IOStream.closed)
        self.guests.sweep()
        self._loop.call_later(_SWEEP_SECONDS, self._sweep)


class _Handler(RequestHandler):
    """Request handler with restrictive headers and no details about the server."""

    def set_default_headers(self) -> None:
        self.clear_header("Server")
        self.set_header("Cache-Control", "no-store")
        self.set_header("Referrer-Policy", "no-referrer")
        self.set_header("X-Content-Type-Options", "nosniff")
        self.set_header("Cross-Origin-Resource-Policy", "same-origin")
        self.set_header("Content-Security-Policy", "default-src 'none'")

    def prepare(self) -> None:
        """Refuse requests whose Host is not a name of this machine."""
        if not self.is_at_home():
            self.send_error(403)

    def is_at_home(self) -> bool:
        """Return whether the Host of the request is a name of this machine."""
        return all(map(is_at_home, self.request.headers.get_list("Host")))

    def compute_etag(self) -> None:
        return None

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        self.finish("Page not found.\n" if status_code < 500 else "Internal server error.\n")

    def log_exception(self, *args: Any) -> None:
        """Do nothing, as errors are logged elsewhere."""


class _NotFound(_Handler):
    def prepare(self) -> None:
        self.send_error(404 if self.is_at_home() else 403)


class _PageHandler(_Handler):
    def initialize(self, server: PageServer, told: set[str]) -> None:
        self._server = server
        self._told = told

    def get(self, token: str, state: str | None) -> None:
        page = self._server.find(token)
        if page is None:
            self.send_error(404)
            return
        self._server.know(self.request.connection)
        if state is None:
            self._show(page)
        else:
            self._tell(page)

    def _show(self, page: ServedPage) -> None:
        nonce = secrets.token_urlsafe(16)
        self.set_header(
            "Content-Security-Policy",
            f"default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; "
            "img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'",
        )
        self.finish(_html(page, nonce))

    def _tell(self, page: ServedPage) -> None:
        """Answer with the figures, or that there are none; log the first error of each kind."""
        since = _second(self.get_query_argument("since", "0"))
        try:
            content = json.dumps(page.state(since))
        except Exception as error:
            kind = type(error).__name__
            if kind not in self._told:
                self._told.add(kind)
                told = error_line(error)
                _logger.warning("The live page failed; the pipeline continues. %s", told)
            self.send_error(500)
            return
        self.set_header("Content-Type", "application/json; charset=utf-8")
        self.finish(content)


def _second(text: str) -> int:
    """Parse a second of the epoch; return the first one for malformed text."""
    if not text.isascii() or not text.isdecimal():
        return 0
    return int(text[-_DIGITS:]) if not text[:-_DIGITS].strip("0") else 10**_DIGITS


_DIGITS = 15


def _html(page: ServedPage, nonce: str) -> str:
    folder = resources.files(__package__)
    parts = {
        name: folder.joinpath(f"page.{name}").read_text(encoding="utf-8")
        for name in ("html", "css", "js")
    }
    # The first is that of the drawing: a label cannot write one.
    graph = page.graph.replace("<style>", f'<style nonce="{nonce}">', 1)
    return Template(parts["html"]).substitute(
        title=escape(page.title), nonce=nonce, style=parts["css"], script=parts["js"], graph=graph
    )
