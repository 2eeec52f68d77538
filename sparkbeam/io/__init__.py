"""Spark's sources and sinks as transforms, and custom Arrow sources.

- :class:`ReadFromSpark`: rows of any data source, table or query, batch or streaming
- :class:`FromDataFrame`: rows of a DataFrame of the program, batch or streaming
- :class:`WriteToSpark`: rows into any data source or table that Spark can write
- :func:`committed_files`: files of whole micro-batches that it has written
- :class:`ForeachBatch`: rows to a function that takes a DataFrame
- :class:`Foreach`: elements to a writer, in the tasks

They only run on :class:`sparkbeam.SparkRunner`. :class:`ReadFromArrow`, record batches from a
function in parallel, runs on all runners.
"""

from sparkbeam.common import pyspark_needed as _pyspark_needed  # noqa: F401
from sparkbeam.connectors.committed_files import committed_files
from sparkbeam.io.arrow import ReadFromArrow
from sparkbeam.io.dataframe import FromDataFrame
from sparkbeam.io.read import ReadFromSpark
from sparkbeam.io.write import Foreach, ForeachBatch, Writer, WriteToSpark

__all__ = [
    "Foreach",
    "ForeachBatch",
    "FromDataFrame",
    "ReadFromArrow",
    "ReadFromSpark",
    "WriteToSpark",
    "Writer",
    "committed_files",
]
