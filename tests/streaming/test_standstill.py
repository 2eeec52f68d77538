"""Two real drivers over one checkpoint are started at once.

In process, test_two_drivers.py has one that stands still at each point.
"""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from sparkbeam.io import committed_files

pytestmark = pytest.mark.part(2)

PROGRAM = """
import sys
import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from sparkbeam import SparkRunner
from sparkbeam.io import ReadFromSpark, WriteToSpark

folder = sys.argv[1]
source = {"path": f"{folder}/in", "maxFilesPerTrigger": 1}
flags = ["--streaming", "--trigger=available-now", "--spark_master=local[2]"]
flags.append(f"--checkpoint_location={folder}/checkpoint")
with beam.Pipeline(SparkRunner(), options=PipelineOptions(flags)) as p:
    rows = p | ReadFromSpark("json", source, schema="id bigint")
    ids = rows | beam.Map(lambda row: {"id": row.id})
    _ = ids | WriteToSpark("csv", {"path": f"{folder}/out"}, schema="id bigint")
"""
BATCHES, ROWS = 4, 10


def test_of_two_drivers_that_are_started_at_once_one_does_all(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for batch in range(BATCHES):
        path = tmp_path / f"in/{batch}.json"
        rows = range(batch * ROWS, (batch + 1) * ROWS)
        path.write_text("".join(f'{{"id": {row}}}\n' for row in rows))
        os.utime(path, (batch, batch))
    drivers = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(tmp_path)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        for _ in range(2)
    ]
    try:
        said = [driver.communicate()[1] for driver in drivers]
    finally:
        for driver in drivers:
            with suppress(ProcessLookupError):
                os.killpg(driver.pid, signal.SIGKILL)
    failed = [text for driver, text in zip(drivers, said, strict=True) if driver.returncode]
    assert len(failed) <= 1
    for text in failed:
        assert "CheckpointTaken: Another driver has taken over the checkpoint" in text, text
    files = committed_files(str(tmp_path / "out"))
    ids = sorted(int(line) for file in files for line in Path(file).read_text().split())
    assert ids == list(range(BATCHES * ROWS))
