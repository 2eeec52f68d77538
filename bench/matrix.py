"""Beam's suites on each kind of session, for the table of docs/support.md.

``./dev matrix`` runs this program with several versions of PySpark and Python, one after the other,
``python bench/matrix.py`` with those of its environment. The sessions are a classic one, one of a
Spark Connect server, and two of the same server behind the policies of ``tests/platforms``, which
simulate platforms. Each runs Beam's ``ValidatesRunner`` suite in batch and the suite of
streaming. The row of the versions in bench/results/matrix.json is made anew.
"""

import argparse
import datetime
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apache_beam
import pyspark

ROOT = Path(__file__).parents[1]
TESTS = ROOT / "tests"
sys.path[:0] = [str(TESTS), str(TESTS / "platforms")]

from other_process import Reports, failures, reports  # noqa: E402
from platform_simulator import Simulator  # noqa: E402
from policies import ONE_GIB, Policy, Serverless, Standard  # noqa: E402

RESULTS = ROOT / "bench" / "results" / "matrix.json"
CLASSIC = "classic"
POLICIES = {
    "Connect": Policy(),
    "serverless": Serverless(worker=ONE_GIB),
    "standard": Standard(),
}
SUITES = {
    "batch": TESTS / "suites" / "test_validates_runner.py",
    "streaming": TESTS / "suites" / "test_streaming_on_spark.py",
}
COLUMNS = ["PySpark", "Python", *(f"{p}, {s}" for p in (CLASSIC, *POLICIES) for s in SUITES)]


@contextmanager
def sessions(folder: Path, places: list[str]) -> Iterator[dict[str, list[str]]]:
    """Start a server if one of the places needs it; yield the options of tests at each place."""
    policies = {name: policy for name, policy in POLICIES.items() if name in places}
    options: dict[str, list[str]] = {CLASSIC: []} if CLASSIC in places else {}
    if not policies:
        yield options
        return
    with Simulator(folder, policies) as simulator:
        yield options | {
            name: [f"--spark_connect={simulator.proxy.url(name)}"] for name in policies
        }


def outcome(found: Reports) -> str:
    """Return how many tests passed, and how many did not; a dash if all were skipped."""
    counts = Counter(
        {"failure": "failed", "error": "failed", "skipped": "skipped"}[case[0].tag]
        if len(case) and case[0].tag in ("failure", "error", "skipped")
        else "passed"
        for case in found
    )
    if not counts["passed"] and not counts["failed"]:
        return "-"
    failed = f", {counts['failed']} failed" if counts["failed"] else ""
    return f"{counts['passed']}{failed}"


def write_row(cells: dict[str, str]) -> None:
    """Put the cells of these versions into the results; those of other runs stay."""
    key = [pyspark.__version__, ".".join(platform.python_version_tuple()[:2])]
    stored: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    rows: list[list[str]] = stored.get("runs", {}).get("rows", [])
    before = next((row for row in rows if row[:2] == key), key + [""] * (len(COLUMNS) - 2))
    row = [*key, *(cells.get(at, old) for at, old in zip(COLUMNS[2:], before[2:], strict=True))]
    rows = sorted([row, *(other for other in rows if other[:2] != key)])
    java = subprocess.run(["java", "-version"], capture_output=True, text=True, check=True).stderr
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    runs = {
        "command": "./dev matrix",
        "date": datetime.date.today().isoformat(),
        "machine": f"{os.cpu_count()} cores, {memory:.0f} GiB",
        "versions": {
            "java": java.split('"')[1].split(".")[0],
            "apache-beam": apache_beam.__version__,
        },
        "columns": COLUMNS,
        "rows": rows,
    }
    RESULTS.write_text(json.dumps({"runs": runs}, indent=2, ensure_ascii=False) + "\n")


def main() -> int:
    """Run the suites; return 1 if a test fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--places", default=",".join([CLASSIC, *POLICIES]))
    places = parser.parse_args().places.split(",")
    cells: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder, sessions(Path(folder), places) as options:
        for place, of_place in options.items():
            for mode, suite in SUITES.items():
                cell = f"{place}, {mode}"
                found = reports([suite], Path(folder), *of_place)
                cells[cell] = outcome(found)
                print(pyspark.__version__, platform.python_version(), cell, cells[cell], flush=True)
                for failure in failures(found):
                    print(" ", failure, flush=True)
                write_row(cells)
    return any("failed" in cell for cell in cells.values())


if __name__ == "__main__":
    sys.exit(main())
