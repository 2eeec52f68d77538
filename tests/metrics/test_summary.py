"""What a run has done, step by step."""

import json
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.metrics import monitoring_infos
from apache_beam.options.pipeline_options import PipelineOptions
from in_process import StreamingRunner
from in_process_batch import BatchRunner

from sparkbeam import RunSummary, StageSummary, StepSummary
from sparkbeam.metrics import summary
from sparkbeam.wire.reports import NAMESPACE, REFUSED_BLOCKS


def run(runner: Any) -> Any:
    p = beam.Pipeline(runner(), options=PipelineOptions([]))
    numbers = p | beam.Create(range(50))
    tripled = numbers | "Triple" >> beam.FlatMap(lambda x: [x, x, x])
    sums = tripled | "Key" >> beam.WithKeys(lambda x: x % 5) | "Sum" >> beam.CombinePerKey(sum)
    biggest = sums | "Values" >> beam.Values() | beam.CombineGlobally(max)
    sums | "Below" >> beam.Filter(lambda x, most: x[1] < most, beam.pvalue.AsSingleton(biggest))
    result: Any = p.run()
    result.wait_until_finish()
    return result


def step(found: RunSummary, label: str) -> StepSummary:
    """The one step whose label begins so."""
    (only,) = (s for stage in found.stages for s in stage.steps if s.label.startswith(label))
    return only


def elements(found: RunSummary, label: str) -> tuple[int, int]:
    only = step(found, label)
    return only.elements_in, only.elements_out


@pytest.mark.parametrize("runner", [BatchRunner, StreamingRunner])
def test_each_step_has_what_went_in_and_came_out(runner: Any) -> None:
    found = run(runner).summary()
    assert elements(found, "Triple") == (50, 150)
    assert elements(found, "Key") == (150, 150)
    assert elements(found, "Sum/ExtractOutputs") == (5, 5)
    assert elements(found, "Below") == (5, 4)
    assert step(found, "Triple").seconds is not None


@pytest.mark.parametrize("runner", [BatchRunner, StreamingRunner])
def test_it_is_a_table_and_json(runner: Any) -> None:
    found = run(runner).summary()
    (line,) = (line for line in str(found).splitlines() if line.startswith("  Triple "))
    assert line.split()[1:3] == ["50", "150"]
    content = json.loads(json.dumps(found.content()))
    labels = [step["label"] for stage in content["stages"] for step in stage["steps"]]
    assert labels.index("Triple") < labels.index("Below")
    assert "Triple" in found._repr_html_()


def test_tasks_of_a_batch_show_skew() -> None:
    found = run(BatchRunner).summary()
    (stage,) = (s for s in found.stages if any(t.label == "Triple" for t in s.steps))
    assert stage.tasks == 2
    assert StageSummary("x", (), 3, 90, 30).skew == 3
    assert StageSummary("x", ()).skew is None


def test_a_run_that_has_not_begun_has_done_nothing() -> None:
    assert str(RunSummary()) == ""
    assert str(RunSummary(failed_attempts=2)) == "2 failed attempts"


def test_blocks_that_were_no_columns_after_all_are_told() -> None:
    name = f"{REFUSED_BLOCKS}an int leaves 64 bits"
    infos = [monitoring_infos.int64_user_counter(NAMESPACE, name, 3, ptransform="Double")]
    figures = summary._Figures(infos)
    assert figures.refused("Double") == {"an int leaves 64 bits": 3}
    told = StepSummary("Double", columns="columns", refused=figures.refused("Double"))
    text = str(RunSummary((StageSummary("Read + Double", (told,)),)))
    assert text.endswith("columns; 3 blocks refused: an int leaves 64 bits")


def test_labels_may_be_any_text() -> None:
    found = RunSummary((StageSummary("a", (StepSummary("<b>\n&"),)),))
    assert "<b>" not in found._repr_html_().replace("<b>RUNNING", "")
