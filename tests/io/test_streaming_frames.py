"""Streaming DataFrames as sources of a pipeline: their plans are a part of its query."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
import streams
from apache_beam.transforms.window import Sessions
from pyspark.sql import functions as sf
from streams import pipeline_on

from sparkbeam import PipelineFailed
from sparkbeam.io import ForeachBatch, FromDataFrame

SCHEMA = "id bigint, user string, second bigint"
GAP = 10


def write(folder: Path, number: int, *events: tuple[str, int]) -> None:
    rows = [
        {"id": 100 * number + at, "user": user, "second": second}
        for at, (user, second) in enumerate(events)
    ]
    streams.write_json(folder / f"{number}.json", rows, 1000 - number)


def sessions(events: list[tuple[str, int]]) -> Iterator[tuple[str, int, int]]:
    """Each session by its user, start and number of events."""
    for user in {user for user, _ in events}:
        seconds = sorted(second for of, second in events if of == user)
        start, count, last = seconds[0], 0, seconds[0]
        for second in seconds:
            if second >= last + GAP:
                yield user, start, count
                start, count = second, 0
            count, last = count + 1, second
        yield user, start, count


def found(folder: Path) -> list[tuple[Any, ...]]:
    batches = [json.loads(path.read_text()) for path in folder.glob("[0-9]*")]
    return sorted(tuple(row) for rows in batches for row in rows)


def parsed(spark: Any, folder: Path) -> Any:
    """Events that Spark parses; each has its second as a time."""
    texts = spark.readStream.option("maxFilesPerTrigger", 1).text(str(folder))
    rows = texts.select(sf.from_json("value", SCHEMA).alias("row")).select("row.*")
    return rows.where("user <> ''").withColumn("at", sf.timestamp_seconds("second"))


class Died(Exception):
    """A micro-batch ends in the middle."""


@pytest.mark.long("20 s; test_killed_sinks.py has other sources")
def test_sessions_of_parsed_texts_are_exact_over_failures(spark: Any, tmp_path: Path) -> None:
    files: list[list[tuple[str, int]]] = [
        [("a", 1), ("b", 2), ("a", 5)],
        [("a", 14), ("b", 11)],
        [("", 20)],  # So a micro-batch has no rows, while there are more files.
        [("c", 40), ("a", 38)],
        [("b", 45), ("c", 49)],
        [("end", 1000)],
    ]
    out, fail = tmp_path / "out", tmp_path / "fail"
    out.mkdir()

    def keep(frame: Any, batch_id: int) -> None:
        rows = json.dumps(sorted(map(tuple, frame.collect())))
        others = [path for path in out.iterdir() if path.name != str(batch_id)]
        kind, count = fail.read_text().split() if fail.exists() else ("never", "0")
        fails = kind != "never" and len(others) == int(count)
        if not fails or kind == "after":
            (out / str(batch_id)).write_text(rows)
        if fails:
            fail.unlink()
            raise Died

    def build(pipeline: beam.Pipeline) -> None:
        _ = (
            pipeline
            | FromDataFrame(parsed(spark, tmp_path / "in"), "at", watermark_delay=5)
            | beam.Map(lambda row: (row.user, 1))
            | beam.WindowInto(Sessions(GAP))
            | beam.CombinePerKey(sum)
            | beam.Map(
                lambda pair, window=beam.DoFn.WindowParam: beam.Row(
                    user=str(pair[0]), start=int(window.start), count=int(pair[1])
                )
            )
            | ForeachBatch(keep, "user string, start bigint, count bigint")
        )

    for number, when in ((0, "after 0"), (4, "before 1")):
        for at, events in enumerate(files[number : number + 4], number):
            write(tmp_path / "in", at, *events)
        fail.write_text(when)
        with pytest.raises(PipelineFailed) as caught:
            streams.run_available(spark, tmp_path / "checkpoint", build)
        assert isinstance(caught.value.__cause__, Died)
    streams.run_available(spark, tmp_path / "checkpoint", build)
    assert not fail.exists()
    everything = [event for events in files[:5] for event in events if event[0]]
    assert found(out) == sorted(sessions(everything))


def test_joins_duplicates_and_aggregations_of_spark_keep_their_state_in_the_query(
    spark: Any, tmp_path: Path
) -> None:
    one, other, out = tmp_path / "one", tmp_path / "other", tmp_path / "out"

    def keep(frame: Any, batch_id: int) -> None:
        for row in frame.collect():
            streams.note(out, row.what, row.text)

    def build(pipeline: beam.Pipeline) -> None:
        left = parsed(spark, one).withWatermark("at", "0 seconds")
        right = parsed(spark, other).withWatermark("at", "0 seconds")
        users = right.selectExpr("user AS of", "second AS then", "at AS late")
        joined = left.join(users, sf.expr("user = of AND late BETWEEN at AND at + INTERVAL 1 HOUR"))
        counted = left.groupBy(sf.window("at", "10 seconds")).count()
        frames = {
            "joined": joined.selectExpr("concat_ws(' ', user, second, then) AS text"),
            "first": left.dropDuplicates(["user"]).selectExpr("user AS text"),
            "counts": counted.selectExpr(
                "concat_ws(' ', unix_seconds(window.start), count) AS text"
            ),
        }
        rows = [
            pipeline
            | f"Read {what}" >> FromDataFrame(frame)
            | f"Name {what}"
            >> beam.Map(lambda row, what=what: beam.Row(what=what, text=str(row.text)))
            for what, frame in frames.items()
        ]
        _ = rows | beam.Flatten() | ForeachBatch(keep, "what string, text string")

    write(one, 0, ("a", 1), ("b", 2), ("a", 11))
    write(other, 0, ("b", 3))
    streams.run_available(spark, tmp_path / "checkpoint", build)
    write(one, 1, ("a", 30), ("c", 31))
    write(other, 1, ("a", 30), ("c", 32))
    streams.run_available(spark, tmp_path / "checkpoint", build)
    notes = {name: sorted(texts) for name, texts in streams.notes(out).items()}
    assert notes == {
        "counts": ["0 2", "10 1"],
        "first": ["a", "b", "c"],
        "joined": ["a 1 30", "a 11 30", "a 30 30", "b 2 3", "c 31 32"],
    }


def test_files_are_partitions_where_rows_know_them(
    spark: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, 0, ("a", 1))
    rows = parsed(spark, tmp_path)
    static = spark.createDataFrame([("a", 1)], "user string, age int")
    for frame, by_files in (
        (rows, True),
        (rows.dropDuplicates(["user"]), True),
        (rows.join(static, "user"), False),
        (rows.withWatermark("at", "1 minute").groupBy("at").count(), False),
        (rows.mapInArrow(lambda batches: batches, rows.schema), False),
        (spark.readStream.format("rate").load().withColumnRenamed("timestamp", "at"), False),
    ):
        read = FromDataFrame(frame, "at")
        _ = pipeline_on(spark, "--streaming") | read
        assert read._spec is not None
        assert read._spec.by_files is by_files
    assert "_metadata" not in capfd.readouterr().err, "PySpark logs what is only asked"
