"""What a notebook shows, by executing one."""

from pathlib import Path
from typing import Any

import pytest

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")

CELLS = [
    "import apache_beam as beam\nfrom sparkbeam import SparkRunner",
    "pipeline = beam.Pipeline(SparkRunner(), argv=['--spark_master=local[1]'])\n"
    "words = pipeline | 'Words' >> beam.Create(['to be or <not> to be'])\n"
    "split = words | beam.FlatMap(lambda text: text.split())",
    "counts = split | beam.combiners.Count.PerElement()\n"
    "counts | beam.Map(lambda pair: print(*pair))\n"
    "result = pipeline.run()\n"
    "result.wait_until_finish()",
    "result",
    "result.progress()",
    "result.monitoring_metrics()",
    "SparkRunner().explain(pipeline)",
    "failing = beam.Pipeline(SparkRunner())\n"
    "failing | beam.Create(['x']) | 'Parse' >> beam.Map(int)\n"
    "bad = failing.run()\n"
    "try:\n"
    "    bad.wait_until_finish()\n"
    "except Exception as error:\n"
    "    print(error)",
    "bad",
]
IMPORT, _, RUN, RESULT, PROGRESS, METRICS, EXPLANATION, FAILING, FAILED = range(len(CELLS))


@pytest.fixture(scope="module")
def notebook(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("notebook")
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS])
    client = nbclient.NotebookClient(
        notebook, timeout=270, kernel_name="python3", resources={"metadata": {"path": str(folder)}}
    )
    client.execute()
    Path(folder / "executed.ipynb").write_text(nbformat.writes(notebook))
    return notebook


def html(notebook: Any, cell: int) -> str:
    outputs = notebook.cells[cell].outputs
    return "".join(output.get("data", {}).get("text/html", "") for output in outputs)


def streams(notebook: Any, cell: int, name: str) -> str:
    outputs = notebook.cells[cell].outputs
    return "".join(o.text for o in outputs if o.output_type == "stream" and o.name == name)


def test_what_steps_print_is_the_output_of_the_cell(notebook: Any) -> None:
    printed = streams(notebook, RUN, "stdout").splitlines()
    assert sorted(printed) == ["<not> 1", "be 2", "or 1", "to 2"]


def test_nothing_is_in_the_red_box_of_errors(notebook: Any) -> None:
    # Beam itself warns when it is imported, and of what Interactive Beam could use.
    cells = range(IMPORT + 1, len(CELLS))
    lines = "".join(streams(notebook, cell, "stderr") for cell in cells).splitlines()
    assert [line for line in lines if "runners.interactive" not in line] == []


def test_progress_is_shown_below_the_cell_without_being_asked_for(notebook: Any) -> None:
    assert "stages done" in html(notebook, RUN)
    assert "Words" in html(notebook, RUN)


def test_a_result_shows_its_state_and_its_stages(notebook: Any) -> None:
    assert "<b>DONE</b>" in html(notebook, RESULT)
    assert "Words" in html(notebook, RESULT)
    assert html(notebook, PROGRESS) in html(notebook, RESULT)


def test_a_failed_result_shows_the_error(notebook: Any) -> None:
    assert "Step &#x27;Parse&#x27; failed: ValueError" in html(notebook, FAILED)


def test_metrics_are_a_table(notebook: Any) -> None:
    assert "element_count" in html(notebook, METRICS)


def test_an_explanation_is_the_graph_with_the_texts_folded(notebook: Any) -> None:
    shown = html(notebook, EXPLANATION)
    assert "<svg" in shown
    assert shown.count("<details>") == 4


def test_labels_do_not_name_cells(notebook: Any) -> None:
    shown = html(notebook, EXPLANATION)
    assert "FlatMap(&lt;lambda&gt;)" in shown
    assert "[3]: " not in shown
