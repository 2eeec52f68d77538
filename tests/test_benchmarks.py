"""Benchmarks start: whatever they import is there."""

from pathlib import Path

from command import python

ROOT = Path(__file__).parents[1]
IMPORT_EACH = """
import runpy, sys
path, modules = list(sys.path), set(sys.modules)
for name in sys.argv[1:]:
    sys.path[:] = ["bench", *path]
    runpy.run_path(name)
    for module in set(sys.modules) - modules:
        if "/tests/" in str(getattr(sys.modules[module], "__file__", "")):
            del sys.modules[module]
"""


def test_benchmarks_find_what_they_import() -> None:
    names = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "bench").glob("*.py"))
    python("-c", IMPORT_EACH, *names, folder=ROOT)
