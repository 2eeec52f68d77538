"""What a notebook shows, by executing one."""

from pathlib import Path
from typing import Any

import pytest

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")

pytestmark = pytest.mark.timeout(900)

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
CELLS_TWICE = [
    """\
import apache_beam as beam
import numpy as np
import pyarrow as pa
from typing import NamedTuple
from apache_beam.transforms.sql import SqlTransform
from sparkbeam import *
from sparkbeam.coders import *
from sparkbeam.io import *
from sparkbeam.state import *
from sparkbeam_sql import *
import tempfile
folder = tempfile.mkdtemp()

def printed(rows):
    print(*sorted(map(str, rows)), sep='; ')

def pipeline(*options):
    return beam.Pipeline(SparkRunner(), argv=['--spark_progress=off', *options])
""",
    """\
whole = pipeline('--spark_master=local[1]')
""",
    """\
numbers = whole | 'as_dataframe' >> beam.Create([1, 2, 3])
doubled = numbers | '[x]: Double' >> beam.Map(lambda x: 2 * x).with_output_types(int)
""",
    """\
twice = doubled | '[7]: Again' >> beam.Map(lambda x: x + 1).with_output_types(int)
printed(row.value for row in as_dataframe(twice).collect())
printed(row.value for row in as_dataframe(doubled | beam.Map(str).with_output_types(str)).collect())
""",
    """\
pairs = whole | 'Pairs' >> beam.Create([(1, 'a')]).with_output_types(tuple[int, str])
both = (twice, pairs) | beam.Flatten()
printed(map(tuple, as_dataframe(pairs | beam.Select(number=lambda p: int(p[0]))).collect()))
printed(whole.run().wait_until_finish())
""",
    """\
class Order(NamedTuple):
    id: int
    user: str

class Payment(NamedTuple):
    id: int
    paid: float

p = pipeline()
orders = p | 'Orders' >> beam.Create([Order(1, 'ada'), Order(2, 'bob')])
payments = p | 'Payments' >> beam.Create([Payment(1, 9.5)])
joined = (orders, payments) | Join('id', how='left')
ids = joined | beam.MapTuple(lambda _, both: both[0].id).with_output_types(int)
printed(as_dataframe(ids).collect())
joined | beam.MapTuple(lambda id, both: print(id, *both))
p.run().wait_until_finish()
""",
    """\
def initials(name: str) -> str:
    return name[0]

p = pipeline()
names = p | 'Names' >> beam.Create([Order(1, 'ada'), Order(2, 'bob')])
query = SqlTransform('SELECT id, `user` AS u, initials(`user`) AS i FROM PCOLLECTION')
called = names | with_sql_functions(query, initials=initials)
printed(map(tuple, as_dataframe(called).collect()))
called | beam.Map(lambda row: print(row.i))
query = SqlTransform('SELECT 1 / (id - 1) AS x FROM PCOLLECTION')
found, failed = names | 'Divide' >> with_sql_dead_letters(query)
printed(map(tuple, as_dataframe(found).collect()))
failed | beam.MapTuple(lambda row, error: print(row.id, error[0].__name__))
p.run().wait_until_finish()
""",
    """\
class Greatest(VectorizedCombineFn):
    accumulator_type = pa.int64()
    def reduce_batch(self, groups, values, count):
        return self.merge_batch(groups, values.cast(pa.int64()), count)
    def merge_batch(self, groups, accumulators, count):
        most = np.zeros(count, np.int64)
        np.maximum.at(most, groups, accumulators.to_numpy())
        return self.accumulators(most)
    def extract_batch(self, accumulators):
        return accumulators

p = pipeline()
(p | beam.Create([('a', 1), ('a', 7), ('b', 3)]) | beam.CombinePerKey(Greatest()) | beam.Map(print))
p.run().wait_until_finish()
""",
    """\
class Kept(MetricsSink):
    def write(self, metrics):
        seen.append(metrics)
    def close(self):
        print('closed')

seen = []
options = SparkBeamOptions(spark_progress='off', metrics_sink=['__main__.Kept'])
p = beam.Pipeline(SparkRunner(), options)
p | beam.Create([1]) | beam.Map(lambda x: beam.metrics.Metrics.counter('n', 'c').inc())
p.run().wait_until_finish()
pushed = seen[-1]
metric = pushed.runner[0]
kinds = PushedMetrics, RunnerMetric, RunnerMetricKind
printed(map(isinstance, (pushed, metric, metric.kind), kinds))
""",
    """\
def shares(split, names):
    yield pa.RecordBatch.from_pydict({'value': [split, 2 * split]})

p = pipeline()
read = p | ReadFromArrow([1, 2], shares, schema=pa.schema([('value', pa.int64())]))
printed(map(tuple, as_dataframe(read, 'value bigint').collect()))
read | beam.Map(lambda row: print(row.value))
p.run().wait_until_finish()
""",
    """\
def count(frame, number):
    print('rows', frame.count())

class Printing(Writer):
    def process(self, row):
        open(row_file, 'a').write('row ')

row_file = tempfile.mktemp()
p = pipeline('--streaming')
orders = p | beam.Create([Order(1, 'ada')])
orders | ForeachBatch(count)
orders | Foreach(Printing())
p.run().wait_until_finish()
print(open(row_file).read())
""",
    """\
class Stateful(beam.DoFn):
    LAST = MapStateSpec('last', OrderedStrCoder(), OrderedIntCoder())
    ALL = MultimapStateSpec('all', OrderedStrCoder(), OrderedIntCoder())
    SORTED = SortedMultimapStateSpec('sorted', OrderedIntCoder(), OrderedStrCoder())
    def process(
        self,
        element,
        last: MapRuntimeState = beam.DoFn.StateParam(LAST),
        every: MultimapRuntimeState = beam.DoFn.StateParam(ALL),
        ordered: SortedMultimapRuntimeState = beam.DoFn.StateParam(SORTED),
    ):
        later: Later = ordered.read_later()
        last.put('x', 1)
        every.put('x', 2)
        ordered.put(3, 'y')
        yield last.get('x'), list(every.get('x')), ordered.first(), list(later.read())

p = pipeline()
p | beam.Create([('k', 1)]) | beam.ParDo(Stateful()) | beam.Map(print)
p.run().wait_until_finish()
""",
]
"""Cells that define functions and classes, or hold on to what cells before them define."""

DEFINING = 3
"""So many of them, the first ones, print nothing."""

IMPORT, _, RUN, RESULT, PROGRESS, METRICS, EXPLANATION, FAILING, FAILED = range(len(CELLS))


@pytest.fixture(scope="module")
def notebook(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("notebook")
    texts = [*CELLS, *(cell for cell in CELLS_TWICE for _ in range(2))]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in texts])
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
    assert '<div class="box" data-stage="s0"' in shown
    assert shown.count("<details>") == 4


def test_labels_do_not_name_cells(notebook: Any) -> None:
    shown = html(notebook, EXPLANATION)
    assert "FlatMap(&lt;lambda&gt;)" in shown
    assert "[3]: " not in shown


@pytest.mark.parametrize("number", range(len(CELLS_TWICE)))
def test_a_cell_that_runs_again_does_the_same(notebook: Any, number: int) -> None:
    first = len(CELLS) + 2 * number
    printed = [sorted(streams(notebook, first + run, "stdout").splitlines()) for run in range(2)]
    assert printed[0] == printed[1]
    assert printed[0] or number < DEFINING


def test_frames_have_the_rows_of_steps_of_several_cells(notebook: Any) -> None:
    at = next(at for at, cell in enumerate(CELLS_TWICE) if "twice = " in cell)
    lines = streams(notebook, len(CELLS) + 2 * at, "stdout").splitlines()
    assert lines == ["3; 5; 7", "2; 4; 6"]
