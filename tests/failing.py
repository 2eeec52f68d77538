"""Pipelines that fail, in process."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from in_process import Spark, StreamingRunner
from in_process_batch import BatchRunner

import sparkbeam
from sparkbeam import PipelineFailed

PACKAGE = str(Path(sparkbeam.__file__).parent)


def failure_of(streaming: bool, build: Callable[[beam.Pipeline], Any], folder: Path) -> Any:
    """The error of a pipeline, as a streaming query over a checkpoint or in batch."""
    arguments = ["--streaming", f"--checkpoint_location={folder}"] if streaming else []
    runner = StreamingRunner(Spark()) if streaming else BatchRunner()
    pipeline = beam.Pipeline(runner, options=PipelineOptions(arguments))
    build(pipeline)
    with pytest.raises(PipelineFailed) as caught:
        pipeline.run().wait_until_finish()
    assert f'File "{PACKAGE}' not in str(caught.value)
    return caught.value
