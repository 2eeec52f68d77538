"""The commands over a checkpoint that Spark has written: what is kept, and what runs again."""

import json
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apache_beam as beam
import streams
from apache_beam.transforms.window import FixedWindows
from click.testing import CliRunner

from sparkbeam.cli.commands import main
from sparkbeam.io import ReadFromSpark

SCHEMA = "id bigint, time timestamp"


def test_the_state_of_a_windowed_count_and_what_runs_again(spark: Any, tmp_path: Path) -> None:
    source, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    rows = [{"id": number, "time": f"2024-01-01T00:00:{number:02}Z"} for number in range(25)]
    for number in range(2):
        streams.write_json(source / f"{number}.json", rows[number::2], 9 - number)

    def build(pipeline: beam.Pipeline) -> None:
        _ = (
            pipeline
            | "Rows"
            >> ReadFromSpark(
                "json",
                {"path": source, "maxFilesPerTrigger": 1},
                schema=SCHEMA,
                timestamp_column="time",
                watermark_delay=10,
            )
            | "Key" >> beam.Map(lambda row: f"k{row.id % 3}").with_output_types(str)
            | "Windows" >> beam.WindowInto(FixedWindows(10))
            | "Count" >> beam.combiners.Count.PerElement()
        )

    streams.run_available(spark, checkpoint, build)
    found = asked("state", checkpoint, "--step", "Count")
    kept = {(each["key"], start_of(each)): each["values"][0] for each in found}
    every = Counter((f"k{number % 3}", number // 10 * 10) for number in range(25))
    # Up to ten seconds before the last row all windows have ended.
    assert kept == {at: count for at, count in every.items() if at[1] + 10 > 24 - 10}

    (told,) = asked("checkpoint", checkpoint)
    assert told["runs_again"] is None
    last = told["committed"]["log"]
    (source_mark,) = told["sources"]
    assert (source_mark["source"], source_mark["watermark"]) == ("Rows", "2024-01-01T00:00:14Z")
    streams.rewind(checkpoint, last)
    (told,) = asked("checkpoint", checkpoint)
    assert told["runs_again"] == {"log": last, "micro_batch": last + 1}


def asked(command: str, checkpoint: Path, *options: str) -> list[dict[str, Any]]:
    """What a command answers, a line of JSON each."""
    result = CliRunner().invoke(main, [command, str(checkpoint), *options, "--json"])
    assert result.exit_code == 0, result.output
    return [json.loads(text) for text in result.output.splitlines()]


def start_of(window: dict[str, Any]) -> int:
    """The second in which a window starts."""
    start, _, _ = window["window"].partition(" to ")
    return datetime.fromisoformat(start).astimezone(UTC).second
