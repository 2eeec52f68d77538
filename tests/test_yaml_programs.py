"""Pipelines of Beam YAML as a user starts them, in a process of their own."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from command import python

pytest.importorskip("apache_beam.yaml.main")

PIPELINE = """
pipeline:
  type: chain
  transforms:
    - {type: Create, config: {elements: [{word: a, at: 1}, {word: b, at: 2}, {word: a, at: 12}]}}
    - {type: AssignTimestamps, config: {timestamp: at}}
    - type: Combine
      windowing: {type: fixed, size: {{ size }}s}
      config: {language: python, group_by: word, combine: {count: {value: word, fn: count}}}
    - type: ExtractWindowingInfo
      config: {fields: [window_start]}
    - type: MapToFields
      config:
        language: python
        fields: {line: "f'{word}{count}@{int(window_start)}'"}
    - {type: WriteToText, config: {path: out}}
options:
  streaming: {{ streaming }}
  spark_master: local[2]
"""
BEAM = ["apache_beam.yaml.main", "--runner=sparkbeam.SparkRunner", "--yaml_pipeline_file="]
OURS = ["sparkbeam", "yaml", ""]


@pytest.mark.part(3)
@pytest.mark.parametrize("streaming", [False, True], ids=["batch", "streaming"])
@pytest.mark.parametrize("module", [BEAM, OURS], ids=["apache_beam.yaml.main", "sparkbeam yaml"])
def test_a_pipeline_with_variables_runs(
    tmp_path: Path, module: Sequence[str], streaming: bool
) -> None:
    (tmp_path / "pipeline.yaml").write_text(PIPELINE)
    variables = json.dumps({"size": 10, "streaming": streaming})
    *first, last = module
    arguments = [*first, f"{last}pipeline.yaml", f"--jinja_variables={variables}"]
    python("-m", *arguments, folder=tmp_path)
    lines = [line for file in tmp_path.glob("out*") for line in file.read_text().split()]
    assert sorted(lines) == ["a1@0", "a1@10", "b1@0"]
