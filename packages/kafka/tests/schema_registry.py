"""A schema registry on loopback, as much of it as pipelines ask for."""

import base64
import io
import json
import math
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

import fastavro


class SchemaRegistry:
    """A server with the schemas of subjects.

    Args:
        login: name and password that it asks for, with a colon between them.

    Attributes:
        url: where it is.
        requests: the paths that it has been asked for.
    """

    def __init__(self, login: str | None = None) -> None:
        self.requests: list[str] = []
        self._answers: float = math.inf
        self._failure = 0
        self._schemas: list[tuple[str, dict[str, Any]]] = []
        expected = None if login is None else f"Basic {base64.b64encode(login.encode()).decode()}"
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                registry.requests.append(self.path)
                is_known = expected in (None, self.headers["Authorization"])
                status, answer = registry._answer(self.path) if is_known else (401, {})
                if len(registry.requests) > registry._answers:
                    status, answer = registry._failure, {}
                if not status:
                    return
                body = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                """Nothing on the tests' standard error."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: Any) -> None:
        self._server.shutdown()
        self._server.server_close()

    def away_behind(self, answers: int, status: int) -> None:
        """Has further requests fail with a status, or closes their connections if it is 0."""
        self._answers, self._failure = answers, status

    def register(self, subject: str, schema: Any, **others: Any) -> int:
        """Adds a version of a subject; returns its id."""
        number = len(self._schemas) + 1
        self._schemas.append((subject, {"id": number, "schema": json.dumps(schema), **others}))
        return number

    def encoded(self, number: int, record: Any) -> bytes:
        """A record as Confluent's serializer writes it."""
        schema = json.loads(self._schemas[number - 1][1]["schema"])
        buffer = io.BytesIO()
        fastavro.schemaless_writer(buffer, schema, record)
        return b"\0" + number.to_bytes(4, "big") + buffer.getvalue()

    def _answer(self, path: str) -> tuple[int, Any]:
        match path.split("/")[1:]:
            case ["subjects", subject, "versions", "latest"]:
                found = [answer for name, answer in self._schemas if name == subject]
            case ["schemas", "ids", number]:
                found = [answer for _, answer in self._schemas[int(number) - 1 : int(number)]]
            case _:
                found = []
        return (200, found[-1]) if found else (404, {"error_code": 40401})
