"""A pipeline whose functions live in modules of the user; see ``test_cluster.py``.

Usage: ``own_module.py OUTCOME MODULES_FOLDER PYTHON [pipeline options]``

It runs three times in one session: without the options ``--spark_py_files``, with them, and with
another Python of the workers.
"""

import json
import sys
from pathlib import Path
from typing import Any

import apache_beam as beam
from pyspark.sql import SparkSession


def run(target: Path, options: list[str]) -> dict[str, object]:
    """Runs the pipeline; returns what it found, or its error."""
    import orders
    import pricing.tax

    try:
        pipeline = beam.Pipeline(argv=["--runner=sparkbeam.SparkRunner", *options])
        _ = (
            pipeline
            | beam.Create([1, 2, 3])
            | "Order" >> beam.ParDo(orders.ToOrder())
            | "Tax" >> beam.Map(pricing.tax.add)
            | beam.combiners.ToList()
            | beam.Map(lambda found: target.write_text(json.dumps(sorted(found))))
        )
        pipeline.run().wait_until_finish()
    except Exception as error:
        return {"error": str(error), "kind": type(error).__name__}
    return {"result": json.loads(target.read_text())}


def main() -> None:
    outcome, folder, python, *options = sys.argv[1:]
    sys.path.insert(0, folder)
    target = Path(f"{outcome}.result")
    without = [option for option in options if not option.startswith("--spark_py_files")]
    found = [run(target, without), run(target, options)]
    session: Any = SparkSession.getActiveSession()
    session.sparkContext.pythonExec = python
    found.append(run(target, options))
    Path(outcome).write_text(json.dumps(found))


if __name__ == "__main__":
    main()
