"""A MongoDB on loopback, as far as Beam's transforms ask it: documents of half a MB in memory."""

import socketserver
import struct
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import bson

Document = dict[str, Any]

_MESSAGE, _QUERY, _REPLY = 2013, 2004, 1
"""Opcodes; drivers say hello with the old ones."""

_MEGABYTE = 1 << 20
_SIZE = _MEGABYTE // 2
"""Of each document, in bytes."""

_OPERATORS: Mapping[str, Callable[[Any, Any], bool]] = {
    "$gte": lambda found, wanted: found >= wanted,
    "$lt": lambda found, wanted: found < wanted,
}
_HELLO = {
    "isWritablePrimary": True,
    "ismaster": True,
    "maxBsonObjectSize": 16 * _MEGABYTE,
    "maxMessageSizeBytes": 48 * _MEGABYTE,
    "maxWriteBatchSize": 1000,
    "minWireVersion": 0,
    "maxWireVersion": 21,
}


class Store:
    """Collections of a server.

    Attributes:
        collections: their documents, by the name of the collection.
        commands: names of the commands that clients have sent.
    """

    def __init__(self) -> None:
        self.collections: dict[str, list[Document]] = {}
        self.commands: list[str] = []
        self._lock = threading.Lock()

    def answer(self, command: Document) -> Document:
        """Return the reply to a command."""
        name = next(iter(command))
        run = getattr(self, f"_{name.lower()}", None)
        with self._lock:
            self.commands.append(name)
            if run is None:
                return {"ok": 0, "code": 59, "errmsg": f"no such command: {name}"}
            return {"ok": 1, **run(command)}

    def _hello(self, command: Document) -> Document:
        return _HELLO

    _ismaster = _hello

    def _endsessions(self, command: Document) -> Document:
        return {}

    def _collstats(self, command: Document) -> Document:
        count = len(self._documents(command))
        return {"size": count * _SIZE, "avgObjSize": _SIZE}

    def _splitvector(self, command: Document) -> Document:
        between = {"_id": {"$gte": command["min"]["_id"], "$lt": command["max"]["_id"]}}
        (collection,) = command["splitVector"].split(".")[1:]
        keys = [document["_id"] for document in self._found(collection, between)]
        step = command["maxChunkSize"] * _MEGABYTE // _SIZE
        return {"splitKeys": [{"_id": key} for key in keys[::step][1:]]}

    def _find(self, command: Document) -> Document:
        found = self._found(command["find"], command.get("filter", {}))
        if command.get("sort", {}).get("_id") == -1:
            found.reverse()
        projected = [_projected(each, command.get("projection")) for each in found]
        return _cursor(projected[: command.get("limit") or None])

    def _aggregate(self, command: Document) -> Document:
        match, step = command["pipeline"]
        found = self._found(command["aggregate"], match["$match"])
        if "$bucketAuto" in step:
            return _cursor(_buckets(found, step["$bucketAuto"]["buckets"]))
        return _cursor([{"_id": 1, "n": len(found)}] if found else [])

    def _update(self, command: Document) -> Document:
        documents = self._documents(command)
        upserted = []
        for index, update in enumerate(command["updates"]):
            assert update["upsert"]
            old = [each for each in documents if _matches(each, update["q"])]
            if not old:
                upserted.append({"index": index, "_id": update["u"]["_id"]})
            documents[:] = [each for each in documents if each not in old] + [update["u"]]
        count = len(command["updates"])
        return {"n": count, "nModified": count - len(upserted), "upserted": upserted}

    def _documents(self, command: Document) -> list[Document]:
        return self.collections.setdefault(next(iter(command.values())), [])

    def _found(self, collection: str, wanted: Document) -> list[Document]:
        documents = self.collections.get(collection, [])
        matching = (each for each in documents if _matches(each, wanted))
        return sorted(matching, key=lambda document: document["_id"])


@contextmanager
def serving(collections: Mapping[str, Sequence[Document]]) -> Iterator[tuple[str, Store]]:
    """Serve collections; yields the URI of the server and what it has."""
    store = Store()
    store.collections = {name: [*documents] for name, documents in collections.items()}

    class Connection(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            while head := self.rfile.read(16):
                length, request, _, opcode = struct.unpack("<iiii", head)
                command = _command(opcode, self.rfile.read(length - 16))
                self.wfile.write(_reply(opcode, request, store.answer(command)))

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True

    with Server(("127.0.0.1", 0), Connection) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"mongodb://127.0.0.1:{server.server_address[1]}", store
        server.shutdown()


def _command(opcode: int, body: bytes) -> Document:
    """Return the command of a message, with the documents of its sequences."""
    if opcode == _QUERY:
        return bson.decode(body[body.index(b"\0", 4) + 9 :])
    command: Document = {}
    sections: Document = {}
    at = 4
    while at < len(body):
        kind, size = struct.unpack_from("<Bi", body, at)
        section = body[at + 1 : at + 1 + size]
        if kind == 0:
            command = bson.decode(section)
        else:
            end = section.index(b"\0", 4)
            sections[section[4:end].decode()] = bson.decode_all(section[end + 1 :])
        at += 1 + size
    return command | sections


def _reply(opcode: int, request: int, document: Document) -> bytes:
    encoded = bson.encode(document)
    if opcode == _QUERY:
        opcode, body = _REPLY, struct.pack("<iqii", 8, 0, 0, 1) + encoded
    else:
        body = struct.pack("<iB", 0, 0) + encoded
    return struct.pack("<iiii", 16 + len(body), 1, request, opcode) + body


def _matches(document: Document, wanted: Document) -> bool:
    for field, value in wanted.items():
        if field == "$and":
            if not all(_matches(document, each) for each in value):
                return False
        elif isinstance(value, dict):
            if not all(_OPERATORS[name](document[field], at) for name, at in value.items()):
                return False
        elif document.get(field) != value:
            return False
    return True


def _projected(document: Document, projection: Document | None) -> Document:
    if not projection:
        return document
    return {name: value for name, value in document.items() if name in ("_id", *projection)}


def _buckets(found: list[Document], count: int) -> list[Document]:
    size = -(-len(found) // count)
    parts = [found[at : at + size] for at in range(0, len(found), size)]
    ends = [*(part[0]["_id"] for part in parts[1:]), found[-1]["_id"]]
    return [
        {"_id": {"min": part[0]["_id"], "max": end}, "count": len(part)}
        for part, end in zip(parts, ends, strict=True)
    ]


def _cursor(documents: list[Document]) -> Document:
    return {"cursor": {"id": bson.Int64(0), "ns": "shop.any", "firstBatch": documents}}
