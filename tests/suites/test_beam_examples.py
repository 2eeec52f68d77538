"""All of Beam's own examples in batch, one after the other in one process."""

import importlib
from fnmatch import fnmatchcase
from pathlib import Path
from unittest import SkipTest

import apache_beam
import pytest
from beam_suites import suite

pytestmark = pytest.mark.part(12)

RUNNER = "in_process_batch.BatchRunner"

LEFT_OUT = {
    "*_it_test": "reads from or writes to Google Cloud",
    "examples.cookbook.ordered_window_elements.*": "names a runner that Beam downloads",
}
"""Modules by patterns of their names, with the reason; more are left out for want of a library."""

ROOT = Path(apache_beam.__path__[0])


def modules() -> list[str]:
    """The names of the modules, without that of Beam's package."""
    paths = sorted((ROOT / "examples").rglob("*_test.py"))
    names = [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in paths]
    return [name for name in names if not any(fnmatchcase(name, left) for left in LEFT_OUT)]


def has_its_libraries(module: str) -> bool:
    """Whether a module can be imported here; Beam's own are all there."""
    try:
        importlib.import_module(module)
    except SkipTest:
        return False
    except ModuleNotFoundError as error:
        if str(error.name).startswith("apache_beam"):
            raise
        return False
    return True


for name in modules():
    if has_its_libraries(f"apache_beam.{name}"):
        # Two of the modules have the same name.
        place = name.rpartition(".")[0]
        cases = suite(f"apache_beam.{name}")
        globals().update({f"{place}.{title}": case for title, case in cases.items()})
