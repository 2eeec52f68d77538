"""The examples, and one of Beam's own, from the command line to their output."""

import json
import re
import runpy
import sys
from collections import Counter, defaultdict
from datetime import datetime, timedelta
from importlib import import_module
from importlib.metadata import files
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any

import apache_beam as beam
import pyarrow.parquet as pq
import pytest
from apache_beam.examples import wordcount
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.window import FixedWindows
from in_process import StreamingRunner
from in_process_batch import BatchRunner

EXAMPLES = Path(__file__).parent.parent / "examples"
SAMPLE = EXAMPLES / "data" / "flights-sample.parquet"

pytestmark = pytest.mark.usefixtures("spark")


@pytest.fixture
def airport_bursts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Runs the program with the given arguments; returns the rows that it wrote."""

    def run(*arguments: str) -> list[dict[str, Any]]:
        output = tmp_path / "bursts"
        monkeypatch.setattr(sys, "argv", ["airport_bursts.py", f"--output={output}", *arguments])
        runpy.run_path(str(EXAMPLES / "airport_bursts.py"), run_name="__main__")
        return pq.read_table(f"{output}-00000-of-00001.parquet").to_pylist()

    return run


def expected_bursts(gap: timedelta) -> list[dict[str, Any]]:
    """All bursts of the sample, the busiest first, by sorting its departures."""
    departures: dict[str, list[tuple[datetime, int]]] = defaultdict(list)
    for flight in pq.read_table(SAMPLE).to_pylist():
        departures[flight["origin"]].append((flight["date"], flight["delay"]))
    bursts = []
    for airport, flights in departures.items():
        flights.sort()
        pauses = [
            index
            for index, ((earlier, _), (later, _)) in enumerate(pairwise(flights), start=1)
            if later - earlier >= gap
        ]
        for start, end in pairwise([0, *pauses, len(flights)]):
            burst = flights[start:end]
            bursts.append(
                {
                    "airport": airport,
                    "first_departure": burst[0][0],
                    "last_departure": burst[-1][0],
                    "flights": len(burst),
                    "mean_delay": sum(delay for _, delay in burst) / len(burst),
                }
            )
    return sorted(
        bursts, key=lambda b: (b["flights"], b["first_departure"], b["airport"]), reverse=True
    )


def test_every_burst_is_found(airport_bursts: Any) -> None:
    expected = expected_bursts(gap=timedelta(minutes=20))
    assert airport_bursts(f"--top={2 * len(expected)}") == expected


def test_bursts_are_found_in_the_middle_of_a_spark_program(
    spark: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    program = runpy.run_path(str(EXAMPLES / "bursts_in_spark.py"))
    found = program["bursts"](spark.read.parquet(str(SAMPLE)), 1200)
    flights = Counter((row.origin, row.flights) for row in found.collect())
    expected = expected_bursts(gap=timedelta(minutes=20))
    assert flights == Counter((burst["airport"], burst["flights"]) for burst in expected)
    program["main"]()
    assert "in bursts" in capsys.readouterr().out


def test_the_busiest_bursts_are_printed(
    airport_bursts: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    written = airport_bursts()
    printed = [re.findall(r"[^\s│]+", line) for line in capsys.readouterr().out.splitlines()]
    assert len(written) == 10
    for burst in written:
        assert [
            burst["airport"],
            *f"{burst['first_departure']:%Y-%m-%d %H:%M}".split(),
            *f"{burst['last_departure']:%Y-%m-%d %H:%M}".split(),
            str(burst["flights"]),
            f"{burst['mean_delay']:+.1f}",
            "min",
        ] in printed


@pytest.mark.part(2)
@pytest.mark.parametrize("options", [["--streaming"], []], ids=["streaming", "batch"])
def test_failures_count_in_the_windows_after_them(
    options: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    output = tmp_path / "health"
    monkeypatch.setattr(sys, "argv", ["health_monitoring.py", f"--output={output}", *options])
    runpy.run_path(str(EXAMPLES / "health_monitoring.py"), run_name="__main__")

    expected: defaultdict[tuple[str, datetime], Counter[str]] = defaultdict(Counter)
    for line in (EXAMPLES / "data" / "health-sample.jsonl").read_text().splitlines():
        event = json.loads(line)
        at = datetime.fromisoformat(event["at"])
        first = at.replace(minute=at.minute // 10 * 10, second=0)
        for number in range(4 if event["kind"] == "FAILURE" else 1):
            window = first + timedelta(minutes=10 * number)
            expected[event["machine"], window][event["kind"]] += 1
    written = Path(f"{output}-00000-of-00001.jsonl").read_text().splitlines()
    assert len(written) == len(expected)
    for line in written:
        found = json.loads(line)
        kinds = expected[found["machine"], datetime.fromisoformat(found["start"])]
        assert (found["healthy"], found["failures"]) == (kinds["HEALTHY"], kinds["FAILURE"])
        end = datetime.fromisoformat(found["end"])
        assert end - datetime.fromisoformat(found["start"]) == timedelta(minutes=10)
    assert output.with_suffix(".svg").read_text().count("press-1") > 0


def test_windows_of_health_are_equal_if_they_are_made_alike() -> None:
    windows = runpy.run_path(str(EXAMPLES / "health_monitoring.py"))["HealthWindows"]
    assert windows(600) == windows(600.0)
    assert hash(windows(600)) == hash(windows(600.0))
    assert windows(600) not in (windows(300), windows(600, after_failure=2), FixedWindows(600))


@pytest.mark.parametrize(
    ("runner", "options"), [(BatchRunner, []), (StreamingRunner, ["--streaming"])]
)
def test_routes_are_joined_with_the_way_back(
    runner: Any, options: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    some = pq.read_table(SAMPLE).slice(13_000, 6_000)
    pq.write_table(some, tmp_path / "flights.parquet")
    delays: defaultdict[tuple[Any, ...], list[int]] = defaultdict(list)
    for flight in some.to_pylist():
        day = flight["date"].replace(hour=0, minute=0)
        delays[day, flight["origin"], flight["destination"]].append(flight["delay"])
    often = {route: found for route, found in delays.items() if len(found) >= 2}
    expected = {
        (day, f"{origin} - {end}"): (fmean(out), fmean(often[day, end, origin]))
        for (day, origin, end), out in often.items()
        if (day, end, origin) in often
    }
    assert len({day for day, _ in expected}) == 2
    monkeypatch.syspath_prepend(EXAMPLES)
    build = import_module("return_flights").build
    with beam.Pipeline(runner(), options=PipelineOptions(options)) as pipeline:
        pairs = build(pipeline, str(tmp_path / "flights.parquet"), 2)
        assert_that(
            pairs | beam.Map(lambda p: ((p["day"], p["route"]), (p["out"], p["back"]))),
            equal_to([*expected.items()]),
        )


def test_beams_wordcount_counts_a_licence(tmp_path: Path) -> None:
    text = next(file for file in files("pyspark") or () if file.name == "LICENSE").locate()
    output = tmp_path / "counts"
    wordcount.run(["--runner=sparkbeam.SparkRunner", f"--input={text}", f"--output={output}"])
    counts = {}
    for shard in tmp_path.glob("counts-?????-of-?????"):
        for line in shard.read_text().splitlines():
            word, _, count = line.partition(": ")
            assert word not in counts
            counts[word] = int(count)
    assert counts == Counter(re.findall(r"[\w\']+", Path(text).read_text()))


def test_orders_are_converted_at_the_rates_of_a_file(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["lookup_table.py", "--every=1", "--seconds=4"]
    monkeypatch.setattr(sys, "argv", arguments)
    program = runpy.run_path(str(EXAMPLES / "lookup_table.py"), run_name="__main__")
    rates = program["read_rates"](program["SAMPLE"])
    found = re.findall(r"order (\d+): ([\d.]+) (\w+) = ([\d.]+) EUR", capsys.readouterr().out)
    assert sorted(int(number) for number, *_ in found) == [0, 1, 2, 3]
    for _, amount, currency, euros in found:
        assert float(euros) == pytest.approx(float(amount) * rates[currency])
