"""Raises an error with the remedy if PySpark is missing; imported where users begin."""

from sparkbeam.errors import PySparkMissing

try:
    import pyspark  # noqa: F401
except ModuleNotFoundError as error:
    if error.name != "pyspark":
        raise
    raise PySparkMissing from None
