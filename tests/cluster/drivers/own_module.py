"""A pipeline whose functions live in modules of the user; see ``test_cluster.py``.

Usage: ``own_module.py OUTCOME MODULES_FOLDER [pipeline options]``
"""

import json
import sys
from pathlib import Path

import apache_beam as beam


def main() -> None:
    outcome, folder, *options = sys.argv[1:]
    sys.path.insert(0, folder)
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
            | beam.Map(
                lambda found: Path(f"{outcome}.result").write_text(json.dumps(sorted(found)))
            )
        )
        pipeline.run().wait_until_finish()
        content = {"result": json.loads(Path(f"{outcome}.result").read_text())}
    except Exception as error:
        content = {"error": str(error), "kind": type(error).__name__}
    Path(outcome).write_text(json.dumps(content))


if __name__ == "__main__":
    main()
