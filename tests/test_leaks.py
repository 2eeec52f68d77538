"""Pipelines leave nothing behind in their session: a short form of the leak benchmark."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from apache_beam.internal.cloudpickle import cloudpickle

LEFT = ("processes", "threads", "open files", "persisted")
BENCHMARK = Path(__file__).parent.parent / "bench" / "leaks.py"


@pytest.fixture(scope="module")
def leaks() -> Any:
    spec = importlib.util.spec_from_file_location("leaks", BENCHMARK)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["leaks"] = module
    spec.loader.exec_module(module)
    cloudpickle.register_pickle_by_value(module)
    yield module
    cloudpickle.unregister_pickle_by_value(module)
    del sys.modules["leaks"]


@pytest.mark.skipif(sys.platform != "linux", reason="counts processes and files of Linux")
def test_pipelines_leave_nothing(leaks: ModuleType, spark: Any) -> None:
    kinds = len(leaks.KINDS)
    # Spark opens a connection to Python of its own at the second time.
    leaks.run(spark, 0, 2 * kinds)
    before = leaks.counted(spark)
    leaks.run(spark, 2 * kinds, 3 * kinds)
    after = leaks.settled(spark, before, LEFT)
    assert {name: after[name] for name in LEFT if after[name] > before[name]} == {}
