"""A Beam transform in the middle of a Spark program: bursts of departures, joined by Spark.

Spark reads flights, Beam sessionises the departures of each airport, and Spark goes on with what
comes out: how many of an airport's flights leave in its three largest bursts? All of it is one
query, which runs when it is shown::

    python examples/bursts_in_spark.py
"""

from pathlib import Path

import apache_beam as beam
from apache_beam.transforms.window import Sessions
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as sf

from sparkbeam import SparkRunner, as_dataframe
from sparkbeam.io import FromDataFrame

SAMPLE = Path(__file__).parent / "data" / "flights-sample.parquet"


def bursts(flights: DataFrame, gap: float) -> DataFrame:
    """How many flights leave an airport in each burst, and when a burst is over.

    Args:
        flights: have an ``origin`` and a ``date``, the time of departure.
        gap: seconds without a departure that end a burst.
    """
    pipeline = beam.Pipeline(SparkRunner(flights.sparkSession))
    counted = (
        pipeline
        | FromDataFrame(flights, timestamp_column="date", columns=["origin"])
        | beam.Map(lambda flight: (flight.origin, 1))
        | beam.WindowInto(Sessions(gap))
        | beam.CombinePerKey(sum)
        | beam.Map(lambda counts: beam.Row(origin=str(counts[0]), flights=int(counts[1])))
    )
    return as_dataframe(counted, timestamps="over")


def main() -> None:
    """Shows the airports whose flights leave in the largest bursts."""
    spark = SparkSession.builder.getOrCreate()
    flights = spark.read.parquet(str(SAMPLE))
    by_size = Window.partitionBy("origin").orderBy(sf.desc("flights"), "over")
    largest = bursts(flights, gap=600).withColumn("rank", sf.row_number().over(by_size))
    share = largest.where("rank <= 3").groupBy("origin").agg(sf.sum("flights").alias("in bursts"))
    total = flights.groupBy("origin").agg(sf.count("*").alias("all"))
    shown = share.join(total, "origin").orderBy(sf.desc("in bursts"), "origin")
    shown.show(10)


if __name__ == "__main__":
    main()
