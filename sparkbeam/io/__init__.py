"""Spark's own sources and sinks as transforms of a pipeline, and sources of one's own.

========================  ===============================================================
:class:`ReadFromSpark`    rows of any data source, table or query, batch or streaming
:class:`FromDataFrame`    rows of a DataFrame that the program has, batch or streaming
:class:`WriteToSpark`     rows into any data source or table that Spark can write
:func:`committed_files`   which files of those it has written belong to whole micro-batches
:class:`ForeachBatch`     rows to a function that takes a DataFrame
:class:`Foreach`          elements to a writer, in the tasks
========================  ===============================================================

They run on :class:`sparkbeam.SparkRunner` alone. This one runs on all runners:

========================  ===============================================================
:class:`ReadFromArrow`    record batches that a function makes, in parallel
========================  ===============================================================
"""

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
