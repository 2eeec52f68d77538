"""Nexmark events in files, one timeline after the other."""

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq

from beam_nexmark.configuration import Configuration
from beam_nexmark.events import KINDS, Auction, Bid, Person
from beam_nexmark.generator import EventBatch, in_generator_order

_BATCH = 50_000
_encode = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode


def _camel_case(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


_NAMES = {kind: tuple(map(_camel_case, kind._fields)) for kind in KINDS}


def json_line(event: Person | Auction | Bid) -> str:
    """Return the event in the format of Beam's own Nexmark: JSON without spaces."""
    return _encode(dict(zip(_NAMES[type(event)], event, strict=True)))


def write_json(configuration: Configuration, path: Path) -> None:
    """Write one event per line.

    Raises:
        OSError: the file cannot be written.
    """
    with path.open("w", encoding="ascii") as file:
        for batch in _batches(configuration):
            file.writelines(json_line(event) + "\n" for event in batch.to_python())


def write_parquet(configuration: Configuration, path: Path) -> None:
    """Write one event per row, with the columns ``person``, ``auction`` and ``bid``.

    Raises:
        OSError: the file cannot be written.
    """
    batches = _batches(configuration)
    first = next(batches).to_arrow()
    with pq.ParquetWriter(path, first.schema) as writer:
        writer.write_batch(first)
        for batch in batches:
            writer.write_batch(batch.to_arrow())


def _batches(configuration: Configuration) -> Iterator[EventBatch]:
    for start in range(0, configuration.events, _BATCH):
        yield EventBatch.generate(
            configuration, in_generator_order(configuration, start, start + _BATCH)
        )
