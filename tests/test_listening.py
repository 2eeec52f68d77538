"""What sparkbeam starts can be reached from this machine alone; see ``connect/suite.py`` too."""

from typing import Any

import apache_beam as beam
from listening import Listening

from sparkbeam import SparkBeamOptions, SparkRunner


def test_all_sockets_are_on_loopback(spark: Any) -> None:
    assert spark.sparkContext.uiWebUrl, "Spark's own pages are among them"
    options = SparkBeamOptions(["--streaming", "--spark_page", "--spark_progress=on"])
    with Listening() as sockets, beam.Pipeline(SparkRunner(spark), options) as p:
        pairs = p | beam.Create(range(100)) | beam.Map(lambda number: (number % 3, number))
        _ = pairs | beam.GroupByKey() | beam.Map(lambda group: len(list(group[1])))
    assert sockets.elsewhere() == []
