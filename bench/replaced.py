"""Functions of Beam that are replaced for speed: a small pipeline with and without each.

    python bench/replaced.py
    python bench/replaced.py --turns 40

The pipeline has ten steps and is built, translated and run in this process, over the stand-in for
Spark of the tests, so that the processor time of driver and workers is that of one process. Each
turn runs it once with a replacement and once without, in an order that changes from turn to turn.
The table has medians over the turns: of what is saved while the pipeline is built, of processor
time altogether, and of time by the clock.
"""

import argparse
import contextlib
import gc
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.worker import statesampler
from apache_beam.transforms import core, userstate
from in_process_batch import BatchRunner

from sparkbeam.upstream import option_views
from sparkbeam.worker.steps import processor

Times = tuple[float, float, float]
"""Milliseconds of processor time of the building and of all, and by the clock."""

WITHOUT: dict[str, Callable[[], contextlib.AbstractContextManager[Any]]] = {
    "views of options": lambda: mock.patch.object(option_views, "_views_of", return_value=None),
    "signatures": lambda: mock.patch.multiple(
        core, get_function_args_defaults=_beams(core.get_function_args_defaults)
    ),
    "stateless DoFns": lambda: mock.patch.multiple(
        userstate, get_dofn_specs=_beams(userstate.get_dofn_specs)
    ),
    "sampler": lambda: mock.patch.object(processor, "Sampler", _BEAMS_SAMPLER),
    "(nothing)": contextlib.nullcontext,
}


def _beams(replaced: Any) -> Any:
    """Return the function of Beam that another one stands for."""
    return replaced.__wrapped__


_BEAMS_SAMPLER = statesampler.StateSampler


class Same(beam.DoFn):
    """Puts out what it gets."""

    def process(self, element: Any) -> Any:
        """Processes one element."""
        yield element


def run() -> Times:
    """Runs the pipeline once."""
    runner, clock, start = BatchRunner(), time.perf_counter(), time.process_time()
    pipeline = beam.Pipeline(runner, options=PipelineOptions([]))
    pairs = pipeline | beam.Create([("a", 1), ("b", 2)] * 20)
    changed = pairs | beam.MapTuple(lambda key, value: (key, value + 1)) | beam.Filter(bool)
    sums = changed | beam.ParDo(Same()) | "again" >> beam.ParDo(Same()) | beam.CombinePerKey(sum)
    groups = sums | beam.Map(lambda pair: pair) | beam.GroupByKey()
    _ = groups | beam.FlatMap(lambda pair: [pair]) | "texts" >> beam.Map(str)
    built = time.process_time()
    pipeline.run().wait_until_finish()
    end = time.process_time()
    return 1e3 * (built - start), 1e3 * (end - start), 1e3 * (time.perf_counter() - clock)


def turn(without: contextlib.AbstractContextManager[Any], first: bool) -> tuple[Times, Times]:
    """Runs it with a replacement and without, the latter first or last."""
    gc.collect()
    gc.disable()
    usual = None if first else run()
    with without:
        other = run()
    usual = usual or run()
    gc.enable()
    return usual, other


def main() -> None:
    """Runs and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=20)
    turns = parser.parse_args().turns
    sys.argv[1:] = []
    for _ in range(3):
        run()
    print("without            building ms   processor ms   clock ms   of processor ms")
    for name, without in WITHOUT.items():
        pairs = [turn(without(), first=bool(number % 2)) for number in range(turns)]
        saved = [[b - a for a, b in zip(*pair, strict=True)] for pair in pairs]
        medians = [statistics.median(column) for column in zip(*saved, strict=True)]
        whole = statistics.median(usual[1] for usual, _ in pairs)
        print(f"{name:18}", *(f"{value:11.1f}" for value in (*medians, whole)), flush=True)


if __name__ == "__main__":
    main()
