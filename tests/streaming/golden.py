"""A stored checkpoint, which later versions of sparkbeam go on from.

``python tests/streaming/golden.py`` renews it: it runs :func:`build` halfway in process, and
writes what the checkpoint holds then, with what had come out, to ``checkpoint.json``.
:func:`resume` takes the file up and runs the same pipeline to its end.
"""

import json
import tempfile
from base64 import b64decode, b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.coders import StrUtf8Coder, VarIntCoder
from apache_beam.testing.test_stream import TestStream
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.trigger import (
    AccumulationMode,
    AfterCount,
    AfterWatermark,
)
from apache_beam.transforms.userstate import (
    BagStateSpec,
    CombiningValueStateSpec,
    ReadModifyWriteStateSpec,
    TimerSpec,
    on_timer,
)
from apache_beam.transforms.window import FixedWindows, GlobalWindows, Sessions, TimestampedValue
from in_process import Checkpoint, Crash, Crashes, Spark, rounds, streaming_pipeline
from lines import Lines

from sparkbeam.errors import PipelineFailed

STORED = Path(__file__).parent / "checkpoint.json"
NUMBERS = 40
HALFWAY = 5
ROUNDS = 4
"""How many events of the stream make a micro-batch."""


class Remember(beam.DoFn):
    """Keeps numbers in states of several kinds, and tells of them when a timer fires."""

    ALL = BagStateSpec("all", VarIntCoder())
    LAST = ReadModifyWriteStateSpec("last", StrUtf8Coder())
    SUM = CombiningValueStateSpec("sum", combine_fn=sum)
    END = TimerSpec("end", TimeDomain.WATERMARK)

    def process(
        self,
        element: tuple[str, int],
        window: Any = beam.DoFn.WindowParam,
        every: Any = beam.DoFn.StateParam(ALL),
        last: Any = beam.DoFn.StateParam(LAST),
        total: Any = beam.DoFn.StateParam(SUM),
        end: Any = beam.DoFn.TimerParam(END),
    ) -> Iterator[str]:
        every.add(element[1])
        last.write(f"number {element[1]}")
        total.add(element[1])
        end.set(window.end)
        yield from ()

    @on_timer(END)
    def tell(
        self,
        key: Any = beam.DoFn.KeyParam,
        every: Any = beam.DoFn.StateParam(ALL),
        last: Any = beam.DoFn.StateParam(LAST),
        total: Any = beam.DoFn.StateParam(SUM),
    ) -> Iterator[str]:
        yield f"remembered {key} {sorted(every.read())} {last.read()} {total.read()}"


def build(pipeline: beam.Pipeline, out: Lines) -> None:
    """A pipeline that keeps something of each kind; what comes out is written to a file."""
    events = TestStream(coder=VarIntCoder())
    for number in range(NUMBERS):
        events = events.add_elements([TimestampedValue(number, number)])
        if number % 5 == 4:
            events = events.advance_watermark_to(number - 2)
    pairs = (
        pipeline
        | "Events" >> events.advance_watermark_to_infinity()
        | "Key" >> beam.Map(lambda number: (f"k{number % 3}", number))
    )
    fixed = pairs | "Fixed" >> beam.WindowInto(FixedWindows(20))
    sums = fixed | "Sum" >> beam.CombinePerKey(sum) | "Sums" >> beam.Map(lambda p: f"sum {p}")
    early = (
        pairs
        | "Sessions"
        >> beam.WindowInto(
            Sessions(4),
            trigger=AfterWatermark(early=AfterCount(3)),
            accumulation_mode=AccumulationMode.ACCUMULATING,
        )
        | "Group" >> beam.GroupByKey()
        | "Groups" >> beam.MapTuple(lambda key, values: f"group {key} {sorted(values)}")
    )
    visits = (
        pairs
        | "Gaps" >> beam.Filter(lambda pair: pair[1] % 15 < 10)
        | "Visits" >> beam.WindowInto(Sessions(4))
        | "Count" >> beam.CombinePerKey(beam.combiners.MeanCombineFn())
        | "Means" >> beam.Map(lambda pair: f"mean {pair}")
    )
    side = (
        fixed | "Values" >> beam.Values() | "Most" >> beam.CombineGlobally(max).without_defaults()
    )
    asked = fixed | "Ask" >> beam.Map(
        lambda pair, most: f"asked {pair} {most}", beam.pvalue.AsSingleton(side)
    )
    remembered = fixed | "Remember" >> beam.ParDo(Remember())
    texts = [
        texts | f"Text {number}" >> beam.WindowInto(GlobalWindows())
        for number, texts in enumerate((sums, early, visits, asked, remembered))
    ]
    _ = texts | beam.Flatten() | "Note" >> beam.Map(out.note)


def run(spark: Spark, folder: Path) -> list[str]:
    """Runs the pipeline to its end, or to where the session crashes; what has come out."""
    pipeline = streaming_pipeline(spark, folder, "--shards=2")
    out = Lines(folder / "out")
    build(pipeline, out)
    try:
        pipeline.run().wait_until_finish()
    except PipelineFailed as error:
        if not isinstance(error.__cause__, Crash):
            raise
    return sorted(out.read())


def save(folder: Path) -> None:
    """Stores a checkpoint, and what the pipeline has put out before and puts out in all."""
    spark = Spark(Crashes((HALFWAY, "committed")))
    before = run(spark, folder)
    (checkpoint,) = spark.checkpoints.values()
    latest = f"{HALFWAY + 1}.json"
    files = sorted(
        path
        for path in (folder / "sparkbeam").rglob("*")
        if path.is_file()
        and path.parent.name != "generations"
        and (path.parent.name != "feedback" or path.name == latest)
    )
    content = {
        "offsets": checkpoint.offsets,
        "commits": checkpoint.commits,
        "state": [
            [operator, key, [[_text(k), _text(v)] for k, v in sorted(entries.items())]]
            for (operator, key), entries in sorted(checkpoint.state.items())
        ],
        "files": {str(path.relative_to(folder)): path.read_text() for path in files},
        "before": before,
        "whole": run(Spark(), folder / "whole"),
    }
    STORED.write_text(json.dumps(content, indent=0) + "\n")


def resume(path: Path, folder: Path) -> tuple[list[str], list[str]]:
    """What the pipeline puts out from a stored checkpoint on, and what it ought to, sorted."""
    content = json.loads(path.read_text())
    spark = Spark()
    spark.checkpoints[str(folder)] = unpack(path, folder)
    found = run(spark, folder)
    missing = list(content["whole"])
    for line in content["before"]:
        missing.remove(line)
    return found, missing


def unpack(path: Path, folder: Path) -> Checkpoint:
    """Writes the files of a stored checkpoint to a folder; gives what Spark keeps of it."""
    content = json.loads(path.read_text())
    for name, text in content["files"].items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    commits = content["commits"]
    state = {
        (operator, key): {b64decode(k): b64decode(v) for k, v in entries}
        for operator, key, entries in content["state"]
    }
    return Checkpoint(content["offsets"], commits, {commits: state})


def _text(content: bytes) -> str:
    return b64encode(content).decode()


if __name__ == "__main__":
    with rounds(ROUNDS), tempfile.TemporaryDirectory() as temporary:
        (Path(temporary) / "whole").mkdir()
        save(Path(temporary))
