"""A pipeline has the same plan in each process."""

import os
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import apache_beam as beam
from plans import translated

def build(p):
    first = p | "First" >> beam.Create([1, 2, 3])
    both = (first, p | "Second" >> beam.Create([4, 5])) | beam.Flatten()
    pairs = both | "Key" >> beam.Map(lambda x: (x % 2, x))
    groups = pairs | beam.GroupByKey() | "Length" >> beam.Map(len)
    sums = pairs | beam.CombinePerKey(sum)
    sided = both | "Side" >> beam.Map(lambda x, s: x, beam.pvalue.AsDict(sums))
    _ = (groups, sided) | "Join" >> beam.Flatten() | beam.combiners.Count.Globally()

for stage in translated(build)[1].stages:
    print(stage.id, stage.labels, stage.inputs, stage.ports, stage.side_inputs)
"""


def plan(seed: int) -> str:
    environment = {**os.environ, "PYTHONHASHSEED": str(seed)}
    return subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=Path(__file__).parent,
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    ).stdout


def test_stages_and_tags_do_not_depend_on_chance() -> None:
    first, other = plan(0), plan(1)
    assert "Side" in first
    assert other == first
