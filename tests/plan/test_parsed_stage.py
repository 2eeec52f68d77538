"""A stage's description is parsed once, and only its DoFns are ever changed in it."""

from collections import Counter
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from own_sources import sources
from plans import translated

from sparkbeam.explain.aggregations import aggregations
from sparkbeam.plan import parsed_stage
from sparkbeam.plan.memo import memo
from sparkbeam.plan.packed_grouping import with_packed_groups
from sparkbeam.plan.row_formats import GroupRows


def grouped(pipeline: beam.Pipeline) -> Any:
    rows = pipeline | "Rows" >> beam.Create([beam.Row(name="a", number=1)], reshuffle=False)
    pairs = rows | "Pair" >> beam.Map(lambda row: (row.name, row.number))
    return pairs | "Sum" >> beam.CombinePerKey(sum) | "Group" >> beam.GroupByKey()


def test_a_translation_parses_no_description_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: Counter[bytes] = Counter()
    parse = parsed_stage.proto_of

    def counted(descriptor: bytes) -> parsed_stage.Descriptor:
        seen[descriptor] += 1
        return parse(descriptor)

    monkeypatch.setattr(parsed_stage, "proto_of", counted)
    _, plan = translated(grouped)
    with memo():
        assert aggregations(plan) == aggregations(plan)
    assert set(seen.values()) == {1}


def test_one_module_parses_descriptions() -> None:
    found = [
        name for name, path in sources().items() if "Descriptor.FromString" in path.read_text()
    ]
    assert found == ["plan/parsed_stage.py"]


def test_packing_leaves_the_descriptions_as_they_are(tmp_path: Path) -> None:
    pq.write_table(pa.table({"name": ["a"], "number": [1]}), tmp_path / "rows.parquet")

    def build(pipeline: beam.Pipeline) -> Any:
        rows = pipeline | beam.io.ReadFromParquet(str(tmp_path / "rows.parquet"))
        pairs = rows | beam.Map(lambda row: (row["name"], row["number"]))
        return pairs | beam.GroupByKey() | beam.Map(str)

    plans = []

    def watched(plan: Any, stage: Any) -> Any:
        plans.append((plan, with_packed_groups(plan, stage)))
        return plans[-1][1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sparkbeam.plan.column_flow.with_packed_groups", watched)
        translated(build)
    ((before, after),) = plans
    formats = [stage.grouping.format for stage in after.stages if stage.grouping]
    assert formats == [GroupRows(packed=True)]
    assert [s.descriptor for s in before.stages] == [s.descriptor for s in after.stages]
