"""Wrong arguments of databases and tables, in the table beside this module."""

import json
from typing import Any

import apache_beam as beam
import misuse
from apache_beam.io.jdbc import ReadFromJdbc, WriteToJdbc
from apache_beam.transforms import managed
from in_process_batch import BatchRunner
from misuse import without
from test_iceberg_changes import KNOWN
from test_jdbc_statements import SALES

from sparkbeam.io import ReadFromSpark
from sparkbeam_tables.iceberg_snapshots import SnapshotRange

SECRET = "hunter2-of-nobody"
PLACE = {"jdbc_url": "jdbc:postgresql://h/d", "password": SECRET}
JDBC = {**PLACE, "driver_class_name": "a.B", "username": "", "table_name": "t"}
SALE = SALES[0]


def read(system: str, config: Any = None, **given: Any) -> Any:
    return beam.Pipeline(BatchRunner()) | "Orders" >> managed.Read(system, config, **given)


def write_iceberg(**config: Any) -> Any:
    rows = beam.Pipeline(BatchRunner()) | beam.Create([beam.Row(a=1)])
    return rows | "Orders" >> managed.Write(managed.ICEBERG, config)


def read_jdbc(**given: Any) -> Any:
    return beam.Pipeline(BatchRunner()) | "Orders" >> ReadFromJdbc(**JDBC | given)


def write_jdbc(row: Any, kind: Any = None, **given: Any) -> Any:
    rows = beam.Pipeline(BatchRunner()) | beam.Create([row]).with_output_types(kind or type(row))
    return rows | "Store" >> WriteToJdbc(**JDBC | given)


@misuse.table(__file__)
def test_a_wrong_call_is_an_error(call: misuse.Call) -> None:
    misuse.check(call, globals())
