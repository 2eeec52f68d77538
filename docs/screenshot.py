"""Draws docs/page.png, the live page of a stream that runs, as Chromium shows it.

Run with ``PYTHONPATH=tests python docs/screenshot.py``.
"""

import base64
import time
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.window import FixedWindows, Sessions
from browsers import chromium

from sparkbeam.io import ReadFromSpark

PICTURE = Path(__file__).parent / "page.png"
OPTIONS = ["--streaming", "--spark_page", "--job_name=clicks", "--trigger=1 second"]
_WIDTH, _HEIGHT, _MICRO_BATCHES = 900, 812, 15


def pipeline() -> beam.Pipeline:
    """Clicks per user, in windows of five seconds and in sessions."""
    made = beam.Pipeline("sparkbeam.SparkRunner", PipelineOptions(OPTIONS))
    users = (
        made
        | "Clicks" >> ReadFromSpark("rate", {"rowsPerSecond": 20000}, timestamp_column="timestamp")
        | "User" >> beam.Map(lambda row: (row.value % 1000, 1))
    )
    _ = users | "Windows" >> beam.WindowInto(FixedWindows(5)) | "Count" >> beam.CombinePerKey(sum)
    _ = users | "Gaps" >> beam.WindowInto(Sessions(2)) | "Sessions" >> beam.CombinePerKey(sum)
    return made


def main() -> None:
    """Run the pipeline until its figures are steady, and take the picture."""
    result: Any = pipeline().run()
    with chromium() as browser:
        screen = {"width": _WIDTH, "height": _HEIGHT, "deviceScaleFactor": 1, "mobile": False}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
        browser.execute_cdp_cmd("Emulation.setScrollbarsHidden", {"hidden": True})
        browser.get(result.page)
        while result.progress().micro_batch < _MICRO_BATCHES:
            time.sleep(1)
        time.sleep(2)  # The page asks once a second.
        taken = browser.execute_cdp_cmd("Page.captureScreenshot", {"format": "png"})
        PICTURE.write_bytes(base64.b64decode(taken["data"]))
    result.cancel()


if __name__ == "__main__":
    main()
