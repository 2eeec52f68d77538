"""What the page shows of a pipeline of this process."""

import json
import re
import urllib.request
import warnings
from typing import Any
from xml.etree import ElementTree as ET

import apache_beam as beam
import pytest
from apache_beam.coders import VarIntCoder
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.test_stream import TestStream
from apache_beam.transforms.window import FixedWindows, TimestampCombiner, TimestampedValue
from golden_files import Golden
from in_process import StreamingRunner, rounds
from in_process_batch import BatchRunner

from sparkbeam.errors import ConfigurationError
from sparkbeam.observe.collection.stream_tracker import StreamTracker
from sparkbeam.observe.figures.micro_batch import MicroBatch
from sparkbeam.observe.page import opening

HOSTILE = "<b>&\"'</text><script>alert(1)</script>"


def started(runner: Any, *flags: str) -> beam.Pipeline:
    return beam.Pipeline(runner=runner, options=PipelineOptions(["--spark_page", *flags]))


def state(result: Any) -> Any:
    """What the page would show now."""
    with urllib.request.urlopen(f"{result.page}state.json", timeout=20) as answer:
        return json.load(answer)


def graph(result: Any) -> ET.Element:
    """The graph of the page."""
    with urllib.request.urlopen(result.page, timeout=20) as answer:
        page = answer.read().decode()
    return ET.fromstring(
        page[page.index('<div class="sparkbeam-plan') : page.index("</div>\n<section")]
    )


def facts(stage: Any) -> dict[str, str]:
    return dict(stage["facts"])


def test_a_batch_shows_tasks_elements_steps_and_notes_as_text(
    capsys: pytest.CaptureFixture[str], golden: Golden
) -> None:
    pipeline = started(BatchRunner())
    numbers = pipeline | beam.Create([1, 2, 3]) | HOSTILE >> beam.Map(_warn)
    _ = numbers | beam.GroupByKey() | "Sum" >> beam.MapTuple(lambda key, values: sum(values))
    with pytest.warns(UserWarning, match="odd"):
        result: Any = pipeline.run()
    assert capsys.readouterr().err == f"sparkbeam: the live page is at {result.page}\n"
    found = state(result)
    stages = found["stages"]
    assert 0 <= stages[0]["since"] <= stages[1]["since"]
    boxes = {box.get("data-stage"): box for box in graph(result).iter() if box.get("data-stage")}
    assert [*boxes] == [stage["id"] for stage in stages]
    for box in boxes.values():
        assert len([line for line in box if "figure" in line.get("class", "")]) == 3
    assert not list(graph(result).iter("script"))
    for stage in stages:
        stage.update(
            since=0, seconds=0, facts=[fact for fact in stage["facts"] if fact[0] != "rate"]
        )
    found["notes"] = [note[:3] for note in found["notes"]]
    varying = {
        **{r"\d+\.\d s": "N s", r"[\d.]+ k?B": "N B", r", [\d,]+/s": ""},
        **{r"\d elements, [\d.]+ times the median": "N", r'"elements, because .*"': '"…"'},
    }
    golden("batch.json", json.dumps(found, indent=1, ensure_ascii=False), varying)


def _warn(element: int) -> tuple[int, int]:
    warnings.warn("odd <element>", stacklevel=1)
    return element % 2, element


def test_secrets_are_shown_nowhere() -> None:
    pipeline = started(BatchRunner(), "--spark_conf=spark.my.password=Tr0ub4dor")
    _ = pipeline | "Read Tr0ub4dor" >> beam.Create([1]) | "token=abcdef0123" >> beam.Map(_fail)
    result: Any = pipeline.run()
    found = state(result)
    assert found["state"] == "FAILED"
    assert "Step 'token=***'" in found["error"]
    text = json.dumps(found) + ET.tostring(graph(result), encoding="unicode")
    assert not re.search("Tr0ub4dor|abcdef0123", text)


def _fail(element: int) -> None:
    raise ValueError("Tr0ub4dor")


@rounds(1)
def test_a_stream_shows_which_step_holds_the_watermark(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    running: list[Any] = []
    show, note = opening.show, StreamTracker.record_batch

    def kept(port: int, plan: Any, run: Any, *rest: Any) -> None:
        show(port, plan, run, *rest)
        running.append(run)

    def look(tracker: StreamTracker, batch: MicroBatch) -> None:
        note(tracker, batch)
        running[0].monitor.history.record_batch(batch)
        seen.append(state(running[0].result))

    for name in ("_FRESH_SECONDS", "_PAUSE"):
        monkeypatch.setattr(f"sparkbeam.observe.page.server.{name}", 0)
    monkeypatch.setattr(opening, "show", kept)
    monkeypatch.setattr(StreamTracker, "record_batch", look)
    events = TestStream(coder=VarIntCoder()).add_elements([TimestampedValue(1, 1)])
    pipeline = started(StreamingRunner(), "--query_name=counts")
    _ = (
        pipeline
        | events.advance_watermark_to(5).advance_watermark_to_infinity()
        | beam.WindowInto(FixedWindows(10), timestamp_combiner=TimestampCombiner.OUTPUT_AT_EARLIEST)
        | "Key" >> beam.Map(lambda x: (x % 2, x))
        | "Count" >> beam.CombinePerKey(sum)
    )
    pipeline.run().wait_until_finish()
    held = [
        (
            facts(stage)["held for"],
            stage["box"][1],
            facts(stage)["state"].partition(",")[0],
            facts(stage)["oldest holder"],
        )
        for page in seen
        for stage in page["stages"]
        if stage["state"] == "holding"
    ]
    oldest = "window of 1 until 1970-01-01 00:00:10"
    assert ("4.0 s", "watermark 1970-01-01 00:00:01, held 4.0 s", "1 key", oldest) in held
    assert [page["over"] for page in seen] == [False] * len(seen)
    assert len(seen[-1]["history"]) >= 1


def test_a_page_that_cannot_be_does_not_harm(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def no(port: int) -> Any:
        raise OSError("no sockets left")

    monkeypatch.setattr(opening, "server", no)
    pipeline = started(BatchRunner())
    _ = pipeline | beam.Create([1])
    result: Any = pipeline.run()
    assert (result.state, result.page) == ("DONE", None)
    assert "The live page is not available: OSError: no sockets left" in caplog.text


def test_a_port_that_is_taken_is_told_and_another_one_found(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "_servers", {})
    taken = opening.server(0).port
    assert opening.server(taken).port != taken
    assert f"Port {taken} is in use" in caplog.text


def test_without_its_library_it_is_an_error_before_anything_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(opening, "find_spec", lambda name: None)
    pipeline = started(BatchRunner())
    _ = pipeline | beam.Create([1]) | beam.Map(_fail)
    with pytest.raises(ConfigurationError, match=r"pip install 'sparkbeam\[page\]'"):
        pipeline.run()
