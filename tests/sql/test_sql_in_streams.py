"""Queries in Structured Streaming, over a checkpoint that several runs continue."""

import json
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.sql import SqlTransform
from apache_beam.transforms.window import FixedWindows

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
    ddl = (
        f"CREATE EXTERNAL TABLE names (id BIGINT, name VARCHAR) TYPE text LOCATION '{folder}/n.csv'"
    )
    with beam.Pipeline(runner=SparkRunner(spark), options=options) as pipeline:
        (
            pipeline
            | ReadFromSpark("json", {"path": f"{folder}/in"}, SCHEMA, timestamp_column="at")
            | with_sql_functions(SqlTransform(QUERY, ddl=ddl), loud=loud, longest=Longest())
            | beam.Map(lambda row: {"name": row.name, "word": row.word, "n": row.n})
            | WriteToSpark("json", {"path": f"{folder}/out"}, "name string, word string, n bigint")
        )


@pytest.mark.long("two runs of a stream; queries in streams have shorter ones in process")
def test_a_query_goes_on_where_its_checkpoint_is(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "n.csv").write_text("1,Ada\n2,Bob\n")
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


SECONDS = "INTERVAL '10' SECOND"
INSERTS = {
    "counts": f"""
        INSERT INTO counts SELECT user, COUNT(*), CAST(TUMBLE_END(at, {SECONDS}) AS DATE)
        FROM PCOLLECTION GROUP BY user, TUMBLE(at, {SECONDS})
    """,
    "top": "INSERT INTO top (user, at) SELECT user, at FROM PCOLLECTION ORDER BY at DESC LIMIT 2",
    "constants": "INSERT INTO constants VALUES (1, 'a'), (2, NULL)",
}
TABLES = {
    "counts": "user BIGINT, n BIGINT, `day` DATE",
    "top": "user BIGINT, at TIMESTAMP, n INTEGER",
    "constants": "n BIGINT, s VARCHAR",
}


def insert(spark: Any, folder: Path) -> None:
    options = PipelineOptions(
        ["--streaming", "--trigger=available-now", f"--checkpoint_location={folder}/checkpoint"]
    )
    ddl = ";".join(
        f"CREATE EXTERNAL TABLE {name} ({columns}) TYPE text LOCATION '{folder}/{name}/' "
        """TBLPROPERTIES '{"format": "json"}'"""
        for name, columns in TABLES.items()
    )
    with beam.Pipeline(runner=SparkRunner(spark), options=options) as pipeline:
        source = {"path": f"{folder}/in", "maxFilesPerTrigger": 1}
        rows = pipeline | ReadFromSpark("json", source, SCHEMA, timestamp_column="at")
        inputs = {
            "counts": rows,
            "top": rows | beam.WindowInto(FixedWindows(10)),
            "constants": pipeline,
        }
        for name, query in INSERTS.items():
            _ = inputs[name] | name >> SqlTransform(query, ddl=ddl)


def inserted(folder: Path, name: str) -> list[dict[str, Any]]:
    paths = (folder / name).iterdir()
    lines = (line for path in paths for line in path.read_text().splitlines())
    return sorted(map(json.loads, lines), key=str)


def test_rows_are_inserted_once_over_restarts(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for number, batch in enumerate(BATCHES):
        rows = [{"user": user, "at": f"2030-01-31T09:00:{at:02}Z"} for user, _, at in batch]
        (tmp_path / "in" / f"{number}.json").write_text("\n".join(map(json.dumps, rows)))
        insert(spark, tmp_path)
    day = "2030-01-31"
    assert inserted(tmp_path, "counts") == [
        {"user": 1, "n": 2, "day": day},
        {"user": 2, "n": 1, "day": day},
        {"user": 2, "n": 2, "day": day},
        {"user": 3, "n": 1, "day": day},
    ]
    assert inserted(tmp_path, "top") == [
        {"user": 1, "at": f"{day} 09:00:09", "n": None},
        {"user": 2, "at": f"{day} 09:00:12", "n": None},
        {"user": 3, "at": f"{day} 09:00:04", "n": None},
    ]
    assert inserted(tmp_path, "constants") == [{"n": 1, "s": "a"}, {"n": 2, "s": None}]
