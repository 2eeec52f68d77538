"""Who observes a pipeline in benchmarks: servers of metrics, a scraper, a terminal, a reader.

All of it is in a process of its own, so that the driver has its own side of it alone.
"""

import contextlib
import json
import os
import pty
import socket
import socketserver
import subprocess
import sys
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import IO, Any

LOOPBACK = "127.0.0.1"
LOOK_SECONDS = 1.0
_PATIENCE = 5.0
_CHUNK = 65_536


class Observers:
    """A process that takes metrics, looks at pages once a second, and is a terminal.

    Args:
        period: from one push, and one scrape, to the next, in seconds.

    Attributes:
        options: those of a pipeline that is to be observed.
    """

    def __init__(self, period: float) -> None:
        with socket.create_server((LOOPBACK, 0)) as found:
            scraped = found.getsockname()[1]
        self._terminal, self._process = _started(["--serve", str(scraped), str(period)])
        http, graphite = json.loads(self._answer())
        self.options = [
            "--spark_progress=on",
            "--spark_page",
            "--metrics_sink=http",
            f"--metrics_http_sink_url=http://{LOOPBACK}:{http}/",
            "--metrics_sink=graphite",
            f"--metrics_graphite_host={LOOPBACK}",
            f"--metrics_graphite_port={graphite}",
            "--metrics_sink=prometheus",
            f"--metrics_prometheus_address={LOOPBACK}:{scraped}",
            f"--metrics_push_period={period:g}",
        ]

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._process.pid

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Standard error is the terminal, and the page that is printed there is looked at."""
        before = sys.stderr
        sys.stderr = self._terminal
        try:
            yield
        finally:
            sys.stderr = before

    def counts(self) -> dict[str, int]:
        """What has been taken so far, by its kind."""
        self._say("counts")
        found: dict[str, int] = json.loads(self._answer())
        return found

    def close(self) -> None:
        """Ends the process."""
        self._process.kill()
        self._process.wait()

    def _say(self, text: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{text}\n")
        self._process.stdin.flush()

    def _answer(self) -> str:
        assert self._process.stdout is not None
        return str(self._process.stdout.readline())


def _started(arguments: list[str]) -> tuple[IO[str], subprocess.Popen[str]]:
    """A terminal, and the process that reads what is written to it."""
    master, slave = pty.openpty()
    command = [sys.executable, str(Path(__file__).resolve()), *arguments, str(master)]
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        pass_fds=[master],
    )
    os.close(master)
    return os.fdopen(slave, "w"), process


class _Serving:
    """The process itself.

    Args:
        scraped: the port of the endpoint to scrape.
        period: from one scrape to the next.
        terminal: where lines come out that are written to the terminal.
    """

    def __init__(self, scraped: int, period: float, terminal: int) -> None:
        self._counts: Counter[str] = Counter()
        self._page = ""
        self._terminal = terminal
        self._scraped = f"http://{LOOPBACK}:{scraped}/metrics"
        ports = [self._http(), self._graphite()]
        for work, every in ((self._scrape, period), (self._look, LOOK_SECONDS)):
            threading.Thread(target=self._again, args=(work, every), daemon=True).start()
        threading.Thread(target=self._read_terminal, daemon=True).start()
        print(json.dumps(ports), flush=True)

    def run(self) -> None:
        """Answers until it is ended."""
        for _ in sys.stdin:
            print(json.dumps(self._counts), flush=True)

    def _http(self) -> int:
        counts = self._counts

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                counts["pushes over HTTP"] += 1
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                """Nothing."""

        server = ThreadingHTTPServer((LOOPBACK, 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server.server_address[1]

    def _graphite(self) -> int:
        counts = self._counts

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                if self.rfile.read():
                    counts["pushes to graphite"] += 1

        server = socketserver.ThreadingTCPServer((LOOPBACK, 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return int(server.server_address[1])

    @staticmethod
    def _again(work: Any, every: float) -> None:
        while True:
            # There may be no pipeline now.
            with contextlib.suppress(OSError, ValueError):
                work()
            time.sleep(every)

    def _scrape(self) -> None:
        with urllib.request.urlopen(self._scraped, timeout=_PATIENCE) as answer:
            answer.read()
        self._counts["scrapes"] += 1

    def _look(self) -> None:
        page = self._page
        if page:
            with urllib.request.urlopen(f"{page}state.json", timeout=_PATIENCE) as answer:
                json.load(answer)
            self._counts["looks at the page"] += 1

    def _read_terminal(self) -> None:
        seen = ""
        while True:
            seen = (seen + os.read(self._terminal, _CHUNK).decode(errors="replace"))[-_CHUNK:]
            _, found, address = seen.rpartition("the live page is at ")
            if found and "\n" in address:
                self._page = address.split()[0]


def _serve() -> None:
    _, _, scraped, period, terminal = sys.argv
    _Serving(int(scraped), float(period), int(terminal)).run()


if __name__ == "__main__":
    _serve()
