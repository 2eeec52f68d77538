"""In batch, bundle finalizers run once all output of their task has been taken."""

import itertools
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.coders import VarIntCoder
from apache_beam.internal.cloudpickle import cloudpickle
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.userstate import ReadModifyWriteStateSpec
from in_process_batch import BatchRunner

from sparkbeam.errors import PipelineFailed
from sparkbeam.worker.steps import bundles

KEYS = 6


@pytest.fixture(autouse=True)
def small_bundles(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Several bundles make a task."""
    monkeypatch.setattr(bundles, "_KEYS_PER_BUNDLE", 1)
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    yield
    cloudpickle.unregister_pickle_by_value(sys.modules[__name__])


def run(notes: Path, failing: int | None = None) -> None:
    """Notes elements and callbacks; fails at an element."""

    def note(what: str) -> None:
        with notes.open("a") as lines:
            lines.write(f"{what}\n")

    class Read(beam.DoFn):
        SEEN = ReadModifyWriteStateSpec("seen", VarIntCoder())

        def process(
            self,
            element: tuple[int, int],
            seen: Any = beam.DoFn.StateParam(SEEN),
            finalizer: Any = beam.DoFn.BundleFinalizerParam,
        ) -> Iterator[int]:
            if element[1] == failing:
                raise OSError("no more")
            note(f"element {element[1]}")
            finalizer.register(lambda: note(f"callback {element[1]}"))
            yield element[1]

    with beam.Pipeline(BatchRunner(), options=PipelineOptions()) as p:
        pairs = p | beam.Create([(number, number) for number in range(KEYS)])
        typed = pairs | beam.Map(lambda pair: pair).with_output_types(tuple[int, int])
        _ = typed | "Read" >> beam.ParDo(Read()) | "After" >> beam.Map(lambda number: number)


def tasks_of(notes: Path) -> list[tuple[set[str], set[str]]]:
    """What has been noted of each task: its elements, and those of its callbacks."""
    runs = itertools.groupby(notes.read_text().splitlines(), lambda line: line.split()[0])
    found = [{line.split()[1] for line in lines} for _, lines in runs]
    return list(zip(found[::2], found[1::2], strict=True))


def test_finalizers_run_when_the_last_bundle_of_their_task_has_ended(tmp_path: Path) -> None:
    run(tmp_path / "notes")
    tasks = tasks_of(tmp_path / "notes")
    assert any(len(elements) > 1 for elements, _ in tasks)
    assert all(elements == called for elements, called in tasks)


def test_finalizers_of_a_task_that_fails_do_not_run(tmp_path: Path) -> None:
    run(tmp_path / "notes")
    tasks = tasks_of(tmp_path / "notes")
    for failing in range(KEYS):
        notes = tmp_path / str(failing)
        with pytest.raises(PipelineFailed, match="no more"):
            run(notes, failing)
        (own,) = [elements for elements, _ in tasks if str(failing) in elements]
        lines = notes.read_text().splitlines() if notes.exists() else []
        assert not own & {line.split()[1] for line in lines if line.startswith("callback")}
