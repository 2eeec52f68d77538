"""Benchmarks start: whatever they import is there."""

import subprocess
import sys
from pathlib import Path

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
    command = [sys.executable, "-c", IMPORT_EACH, *names]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
