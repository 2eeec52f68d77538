"""How long a program takes to end after Ctrl-C, and what it says.

Run with ``python bench/interrupt.py``. Each program is a process group of its own, which gets the
signal that a terminal sends, two seconds after its first element. Measured is what a user waits
for: until all of its processes have closed their output.
"""

import argparse
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

LINE = "Interrupted: the pipeline was cancelled."
END_SECONDS = 60

HEAD = """
import sys, time
import apache_beam as beam
from apache_beam.transforms.periodicsequence import PeriodicImpulse

def put(element, path=sys.argv[1]):
    with open(path, "a") as file:
        file.write(".")
    time.sleep(0.05)
    return element
"""
PROGRAMS = {
    "batch": """
with beam.Pipeline("sparkbeam.SparkRunner", argv=sys.argv[2:]) as p:
    p | beam.Create(range(50_000)) | beam.Map(put) | beam.combiners.Count.Globally()
""",
    "streaming": """
with beam.Pipeline("sparkbeam.SparkRunner", argv=[*sys.argv[2:], "--streaming"]) as p:
    fires = p | PeriodicImpulse(fire_interval=0.2) | beam.Map(lambda _: (put(0), 1))
    fires | beam.WindowInto(beam.window.FixedWindows(1)) | beam.CombinePerKey(sum)
""",
}
SESSIONS = {
    "local[2]": "--spark_master=local[2]",
    "Spark Connect on local[2]": "--spark_connect=local[2]",
}


def interrupted(program: str, option: str) -> tuple[float, list[str]]:
    """Seconds from Ctrl-C to the end, and what the program has said since then."""
    with tempfile.TemporaryDirectory() as name:
        file, sign, said = (Path(name) / part for part in ("program.py", "sign", "said"))
        file.write_text(HEAD + program)
        with said.open("wb") as errors:
            process = subprocess.Popen(
                [sys.executable, str(file), str(sign), option],
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
            )
            try:
                while not sign.exists():
                    assert process.poll() is None, said.read_text()
                    time.sleep(0.1)
                time.sleep(2)
                before = len(said.read_bytes())
                start = time.monotonic()
                os.killpg(process.pid, signal.SIGINT)
                process.communicate(timeout=END_SECONDS)
                seconds = time.monotonic() - start
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
        return seconds, said.read_text()[before:].split("\n")


def main() -> None:
    """Runs all and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=3, help="interrupts of each program")
    times = parser.parse_args().times
    table = Table("program", "session", "s, median", "s, longest", "lines, most")
    for name, program in PROGRAMS.items():
        for session, option in SESSIONS.items():
            found = [interrupted(program, option) for _ in range(times)]
            assert all(LINE in lines for _, lines in found)
            seconds = [one for one, _ in found]
            most = max(sum(map(bool, lines)) for _, lines in found)
            median, longest = statistics.median(seconds), max(seconds)
            table.add_row(name, session, f"{median:.1f}", f"{longest:.1f}", str(most))
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
