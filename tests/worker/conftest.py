"""Fixtures of this folder."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from failing import failure_of


@pytest.fixture(params=[False, True], ids=["batch", "streaming"])
def failure(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Callable[[Callable[[beam.Pipeline], Any]], Any]:
    """Return the error of a pipeline that fails in batch, and in streaming."""
    return lambda build: failure_of(request.param, build, tmp_path)
