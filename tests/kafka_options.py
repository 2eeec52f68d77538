"""Options of pipelines in a session with Spark's package for Kafka."""

import pyspark

from sparkbeam.common.maven_packages import package_for
from sparkbeam.plan.spark_io import ReadSpec
from sparkbeam_kafka.hooks import KafkaHooks
from sparkbeam_kafka.subscription import Subscription

PACKAGE = package_for("kafka", pyspark.__version__)
BASE = [
    "--runner=sparkbeam.SparkRunner",
    "--spark_master=local[2]",
    f"--spark_conf=spark.jars.packages={PACKAGE}",
    "--spark_conf=spark.sql.shuffle.partitions=2",
    "--spark_conf=spark.ui.enabled=false",
]


def subscription_of(spec: ReadSpec) -> Subscription | None:
    """The topics of a read, if Kafka is asked for their offsets or gets them."""
    assert isinstance(spec.hooks, KafkaHooks)
    return spec.hooks.subscription
