"""Queries in Structured Streaming, over a checkpoint that several runs continue."""

import json
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.sql import SqlTransform

from sparkbeam import SparkRunner, with_sql_functions
from sparkbeam.io import ReadFromSpark, WriteToSpark

pytest.importorskip("sqlglot")
pytestmark = pytest.mark.usefixtures("by_value")

SCHEMA = "user bigint, words array<string>, at timestamp"
QUERY = """
SELECT loud(names.name) AS name, longest(TRIM(word)) AS word, COUNT(*) AS n
FROM (SELECT user, word, at FROM PCOLLECTION, UNNEST(words) AS w(word)) AS said
JOIN names ON said.user = names.id
GROUP BY loud(names.name), TUMBLE(at, INTERVAL '10' SECOND)
"""
BATCHES = [
    [(1, ["a", " bcd "], 1), (2, [], 2), (2, ["e"], 3), (3, ["f"], 4)],
    [(1, ["g"], 9), (2, ["h"], 12), (1, ["i"], 35)],
]


def loud(name: str) -> str:
    return name.upper()


class Longest(beam.CombineFn):
    def create_accumulator(self) -> str:
        return ""

    def add_input(self, longest: str, text: str) -> str:
        return max(longest, text, key=len)

    def merge_accumulators(self, texts: Any) -> str:
        return max(texts, key=len)

    def extract_output(self, longest: str) -> str:
        return longest


def run(spark: Any, folder: Path) -> None:
    options = PipelineOptions(
        ["--streaming", "--trigger=available-now", f"--checkpoint_location={folder}/checkpoint"]
    )
    with beam.Pipeline(runner=SparkRunner(spark), options=options) as pipeline:
        source = ReadFromSpark("json", {"path": f"{folder}/in"}, SCHEMA, timestamp_column="at")
        names = [beam.Row(id=1, name="Ada"), beam.Row(id=2, name="Bob")]
        (
            {"PCOLLECTION": pipeline | source, "names": pipeline | beam.Create(names)}
            | with_sql_functions(SqlTransform(QUERY), loud=loud, longest=Longest())
            | beam.Map(lambda row: {"name": row.name, "word": row.word, "n": row.n})
            | WriteToSpark("json", {"path": f"{folder}/out"}, "name string, word string, n bigint")
        )


@pytest.mark.long("two runs of a stream; queries in streams have shorter ones in process")
def test_a_query_goes_on_where_its_checkpoint_is(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for number, batch in enumerate(BATCHES):
        rows = [
            {"user": user, "words": words, "at": f"2030-01-31T09:00:{at:02}Z"}
            for user, words, at in batch
        ]
        (tmp_path / "in" / f"{number}.json").write_text("\n".join(map(json.dumps, rows)))
        run(spark, tmp_path)
    found = spark.read.json(f"{tmp_path}/out").collect()
    assert sorted((row["name"], row["word"], row["n"]) for row in found) == [
        ("ADA", "bcd", 3),
        ("BOB", "e", 1),
        ("BOB", "h", 1),
    ]
