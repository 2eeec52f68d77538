"""Beam's transforms of MongoDB, against a server on loopback."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.io import ReadFromMongoDB, WriteToMongoDB
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.yaml import yaml_transform
from bson import ObjectId
from in_process import StreamingRunner
from in_process_batch import BatchRunner
from mongo_server import Store, serving
from page_programs import run
from streams import pipeline_on

from sparkbeam import PipelineFailed

CLICKS = [{"_id": n, "user": "ada" if n % 2 else "bob", "clicks": n * n} for n in range(6)]
KEYS: dict[str, list[Any]] = {
    "ids": [ObjectId(f"{n:024x}") for n in range(6)],
    "texts": list("abcdef"),
}


@pytest.fixture
def served() -> Iterator[tuple[str, Store]]:
    keyed = {name: [{"_id": key} for key in keys] for name, keys in KEYS.items()}
    with serving({"clicks": CLICKS, **keyed}) as found:
        yield found


def read(uri: str, collection: str = "clicks", **given: Any) -> ReadFromMongoDB:
    return ReadFromMongoDB(uri, "shop", collection, **given)


@pytest.mark.parametrize(("bucket_auto", "splits"), [(False, "splitVector"), (True, "aggregate")])
def test_documents_are_read_in_ranges_by_both_ways_to_split(
    spark: Any, served: tuple[str, Store], bucket_auto: bool, splits: str
) -> None:
    uri, store = served
    with pipeline_on(spark) as p:
        some: dict[str, Any] = {
            "filter": {"user": "ada"},
            "projection": ["clicks"],
            "bucket_auto": bucket_auto,
        }
        ada = p | "Some" >> read(uri, **some)
        assert_that(ada, equal_to([{"_id": n, "clicks": n * n} for n in (1, 3, 5)]), "Ada's")
        for name, keys in KEYS.items():
            found = p | name >> read(uri, name, bucket_auto=bucket_auto)
            documents = found | f"Keys of {name}" >> beam.Map(lambda document: document["_id"])
            assert_that(documents, equal_to(keys), f"All {name}")
    assert splits in store.commands


def test_documents_replace_those_with_their_id_and_others_get_one(
    spark: Any, served: tuple[str, Store]
) -> None:
    uri, store = served
    with pipeline_on(spark) as p:
        given = [{"_id": 1, "clicks": 100}, {"_id": 7, "clicks": 49}, {"user": "eve"}]
        _ = p | beam.Create(given) | WriteToMongoDB(uri, "shop", "clicks", batch_size=2)
    found = {each["_id"]: each for each in store.collections["clicks"]}
    assert [found.pop(n) for n in (1, 7)] == given[:2]
    assert [found.pop(n) for n in (0, 2, 3, 4, 5)] == [*CLICKS[:1], *CLICKS[2:]]
    ((key, eve),) = found.items()
    assert isinstance(key, ObjectId)
    assert eve["user"] == "eve"


def test_a_stream_is_written(served: tuple[str, Store]) -> None:
    uri, store = served
    with beam.Pipeline(StreamingRunner()) as p:
        _ = p | beam.Create([{"_id": n} for n in (10, 11)]) | WriteToMongoDB(uri, "shop", "new")
    assert sorted(each["_id"] for each in store.collections["new"]) == [10, 11]


YAML = """
pipeline:
  type: chain
  transforms:
    - type: ReadFromMongoDB
      config:
        uri: "{uri}"
        database: shop
        collection: clicks
        filter: {{user: bob}}
        schema: {{type: object, properties: {{user: {{type: string}}, clicks: {{type: integer}}}}}}
    - {{type: WriteToMongoDB, config: {{uri: "{uri}", database: shop, collection: bobs}}}}
"""


def test_beam_yaml_reads_and_writes_documents(served: tuple[str, Store]) -> None:
    uri, store = served
    with beam.Pipeline(BatchRunner()) as p:
        yaml_transform.expand_pipeline(p, YAML.format(uri=uri))
    found = [(each["user"], each["clicks"]) for each in store.collections["bobs"]]
    assert sorted(found) == [("bob", 0), ("bob", 4), ("bob", 16)]


def test_errors_of_the_server_name_the_step(spark: Any, served: tuple[str, Store]) -> None:
    uri, _ = served
    pipeline = pipeline_on(spark)
    _ = pipeline | "Clicks" >> read(uri, "nothing")
    with pytest.raises(PipelineFailed, match=r"Clicks.*\n?.*Empty Mongodb collection"):
        pipeline.run().wait_until_finish()


def test_the_program_of_the_page_runs(
    served: tuple[str, Store], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri, store = served
    options = ["--runner=in_process_batch.BatchRunner"]
    run("mongodb", tmp_path, monkeypatch, options, {"mongodb://localhost:27017": uri})
    totals = {found["_id"]: found["clicks"] for found in store.collections["totals"]}
    assert totals == {"ada": 1 + 9 + 25, "bob": 0 + 4 + 16}
