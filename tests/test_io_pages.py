"""Pages of sources and sinks: their tables name all arguments of the transforms."""

import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import apache_beam
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorSet

from sparkbeam.common.entry_points import MANAGED_READS as READS
from sparkbeam.common.entry_points import MANAGED_WRITES as WRITES
from sparkbeam.errors import ConfigurationError
from sparkbeam.hooks.managed import transform_for
from sparkbeam.hooks.managed_config import ManagedConfig

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
IS_LOCKED = f"apache-beam=={apache_beam.__version__} " in (ROOT / "requirements.lock").read_text()
"""The pages are about the Beam of the lock; older ones have fewer arguments."""
TRANSFORMS = [
    ("kafka", "apache_beam.io.kafka", "ReadFromKafka"),
    ("kafka", "apache_beam.io.kafka", "WriteToKafka"),
    ("jdbc", "apache_beam.io.jdbc", "ReadFromJdbc"),
    ("jdbc", "apache_beam.io.jdbc", "WriteToJdbc"),
    ("pubsub", "apache_beam.io", "ReadFromPubSub"),
    ("pubsub", "apache_beam.io", "MultipleReadFromPubSub"),
    ("pubsub", "apache_beam.io", "WriteToPubSub"),
    ("mongodb", "apache_beam.io", "ReadFromMongoDB"),
    ("mongodb", "apache_beam.io", "WriteToMongoDB"),
    ("files", "apache_beam.io.fileio", "MatchContinuously"),
    ("files", "apache_beam.io.fileio", "WriteToFiles"),
    ("files", "apache_beam.io", "WriteToText"),
    ("eventhubs", "sparkbeam_eventhubs", "ReadFromEventHubs"),
    ("eventhubs", "sparkbeam_eventhubs", "WriteToEventHubs"),
]
DATABASE = {"jdbc_url": "jdbc:postgresql://host/shop", "location": "orders"}
TABLE = {"table": "shop.orders"}
TOPIC = {"bootstrap_servers": "broker:9092", "topic": "people", "format": "PROTO"}
FIRST = {"table": "/orders", "start_version": 0}
CHANGES = {**TABLE, "mode": "merge-on-read"}
MANAGED = [
    ("jdbc", "postgres", READS, DATABASE, ["key of reads and writes", "key of reads"]),
    ("jdbc", "postgres", WRITES, DATABASE, ["key of reads and writes", "key of writes"]),
    ("kafka", "kafka", READS, TOPIC, ["key of reads and writes", "key of reads"]),
    ("kafka", "kafka", WRITES, TOPIC, ["key of reads and writes", "key of writes"]),
    ("delta", "delta", READS, TABLE, ["key of `DELTA`"]),
    ("delta", "delta_cdc", READS, FIRST, ["key of `DELTA_CDC`"]),
    ("iceberg", "iceberg", READS, TABLE, ["key of all transforms", "key of reads"]),
    (
        "iceberg",
        "iceberg_cdc",
        READS,
        TABLE,
        ["key of all transforms", "key of `ICEBERG_CDC`"],
    ),
    (
        *("iceberg", "iceberg", WRITES, CHANGES),
        ["key of all transforms", "key of writes", "key with `mode: merge-on-read`"],
    ),
]


def rows(page: str, header: str) -> Iterator[str]:
    """The first cells of the rows of a table, by the first cell of its header."""
    text = (DOCS / f"{page}.md").read_text()
    found = re.findall(
        rf"^\| {re.escape(header)} \|.*\n\|[-|]+\|\n((?:\|.*\n)+)", text, re.MULTILINE
    )
    assert len(found) == 1, f"{page}.md has {len(found)} tables of {header}"
    for line in found[0].splitlines():
        yield line.split("|")[1]


def names(page: str, headers: list[str]) -> list[str]:
    """The arguments that tables name, in order; ``name=value`` is one of them."""
    cells = [cell for header in headers for cell in rows(page, header)]
    return sorted(re.findall(r"`(\w+)(?:=[^`]*)?`", " ".join(cells)))


@pytest.mark.parametrize(("page", "module", "name"), TRANSFORMS, ids=[t[2] for t in TRANSFORMS])
def test_a_page_has_each_argument_of_a_transform_once(page: str, module: str, name: str) -> None:
    transform = getattr(importlib.import_module(module), name)
    arguments = sorted(inspect.signature(transform).parameters)
    named = names(page, [f"argument of `{name}`"])
    assert len(named) == len({*named})
    assert {*arguments} <= {*named}
    assert named == arguments or not IS_LOCKED


@pytest.mark.parametrize(
    ("page", "system", "group", "needed", "headers"),
    MANAGED,
    ids=[f"{system} {'read' if group is READS else 'write'}" for _, system, group, *_ in MANAGED],
)
def test_a_page_has_each_key_of_a_managed_transform_once(
    page: str,
    system: str,
    group: str,
    needed: dict[str, object],
    headers: list[str],
    tmp_path: Path,
) -> None:
    if needed is TOPIC:
        needed = {**needed, "file_descriptor_path": _described(tmp_path), "message_name": "Person"}
    config = ManagedConfig("Managed", {**needed, "of_nothing": 1})
    with pytest.raises(ConfigurationError, match="has of_nothing") as error:
        transform_for(group, system, config)
    known = str(error.value).partition("Supported keys are ")[2].rstrip(".").split(", ")
    assert names(page, headers) == known


def _described(folder: Path) -> str:
    """The path of a file with the descriptor of a message without fields."""
    files = FileDescriptorSet()
    files.file.add(name="person.proto", syntax="proto3").message_type.add(name="Person")
    path = folder / "person.desc"
    path.write_bytes(files.SerializeToString())
    return str(path)
