"""Options of pipelines in a session with Spark's package for Kafka."""

import pyspark

from sparkbeam.common.spark_packages import package_for

PACKAGE = package_for("kafka", pyspark.__version__)
BASE = [
    "--runner=sparkbeam.SparkRunner",
    "--spark_master=local[2]",
    f"--spark_conf=spark.jars.packages={PACKAGE}",
    "--spark_conf=spark.sql.shuffle.partitions=2",
    "--spark_conf=spark.ui.enabled=false",
]
