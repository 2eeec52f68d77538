"""Wrong arguments and options, in the table beside this module."""

import datetime
import decimal
import math
import threading
from pathlib import Path
from typing import Any, NamedTuple

import apache_beam as beam
import misuse
import pyarrow as pa
import pytest
from apache_beam.coders import coders
from apache_beam.io import (
    ReadFromBigQuery,
    ReadFromMongoDB,
    WriteToBigQuery,
    WriteToMongoDB,
    mongodbio,
)
from apache_beam.io.debezium import DriverClassName, ReadFromDebezium
from apache_beam.io.gcp import bigquery_tools
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.interactive.interactive_runner import InteractiveRunner
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.transforms import managed
from apache_beam.transforms.external import (
    BeamJarExpansionService,
    ExternalTransform,
    JavaExternalTransform,
    SchemaAwareExternalTransform,
)
from apache_beam.transforms.window import FixedWindows, GlobalWindows, Sessions
from apache_beam.utils.timestamp import Timestamp
from equijoins import ByLetter
from in_process_batch import BatchRunner
from misuse import sparkbeam, without
from pyspark.sql.types import MapType, StringType, StructType
from test_columns_of_files import SCHEMA as NESTED
from test_described_tables import PARQUET, described
from test_vectorized import Greatest

from sparkbeam import AsOfJoin, IncrementalJoin, Join, MetricsSink, SparkRunner
from sparkbeam.coders import (
    Descending,
    OrderedBoolCoder,
    OrderedBytesCoder,
    OrderedDateCoder,
    OrderedDatetimeCoder,
    OrderedDecimalCoder,
    OrderedFloatCoder,
    OrderedIntCoder,
    OrderedStrCoder,
    OrderedTimestampCoder,
    OrderedTupleCoder,
    ordered_coder,
)
from sparkbeam.io import Foreach, ForeachBatch, ReadFromSpark, WriteToSpark
from sparkbeam.options.spark_options import checked
from sparkbeam.spark.session import _require_answer
from sparkbeam.state import MapStateSpec, MultimapStateSpec, SortedMultimapStateSpec

SCHEMA = StructType().add("name", "string").add("count", "long")
TAGGED = StructType([*SCHEMA.fields]).add("tags", MapType(StringType(), StringType()))
SECRET = "p4ssw0rd"
PROMETHEUS = "sparkbeam.observe.sinks.prometheus"
LOCK: Any = threading.Lock()


class Price(NamedTuple):
    item: str
    amount: decimal.Decimal


class Recorder:
    def process(self, row: Any) -> None:
        """Take it."""


class Opening(Recorder):
    open = "often"


class Unmakeable(MetricsSink):
    """Lacks its methods."""


class Counting(beam.DoFn):
    COUNTS = MapStateSpec("counts", coders.StrUtf8Coder(), coders.VarIntCoder())

    def process(self, element: Any, counts: Any = beam.DoFn.StateParam(COUNTS)) -> None:
        """Count nothing."""


def options(*arguments: str, **given: Any) -> Any:
    """Apply a first transform with options."""
    given_options = PipelineOptions([*arguments], **given)
    return beam.Pipeline(SparkRunner(), options=given_options) | beam.Create([1])


def read(format: str = "json", **given: Any) -> Any:
    source = ReadFromSpark(format, {"path": "/x"}, NESTED, **given)
    return beam.Pipeline(SparkRunner()) | "Read" >> source


def store(format: str, options: Any = None, **given: Any) -> Any:
    rows = beam.Pipeline(SparkRunner()) | beam.Create([{"name": "a"}])
    return rows | "Store" >> WriteToSpark(format, options, TAGGED, **given)


def counted(runner: Any) -> Any:
    return beam.Pipeline(runner) | beam.Create([("a", 1)]) | "Keep" >> beam.ParDo(Counting())


def one(*arguments: str) -> Any:
    return beam.Pipeline(BatchRunner(), argv=[*arguments]) | beam.Create([1])


def accumulating(kind: Any) -> None:
    """Run a combine over columns of accumulators of a type."""
    fn = type("Other", (Greatest,), {"accumulator_type": kind})()
    (one() | beam.WithKeys(1) | beam.CombinePerKey(fn)).pipeline.run().wait_until_finish()


def in_windows(left: Any, right: Any, runner: Any = None) -> Any:
    """Pairs of two sides of a join in windows."""
    pairs = beam.Pipeline(runner or BatchRunner()) | beam.Create([("a", 1)])
    return tuple(pairs | name >> beam.WindowInto(fn) for name, fn in (("l", left), ("r", right)))


def sides(**elements: Any) -> Any:
    """Inputs of a join by their names, each with one element."""
    p = beam.Pipeline(BatchRunner())
    given = elements or {"sales": {"id": 1}, "items": {"id": 1}}
    return {name: p | name >> beam.Create([element]) for name, element in given.items()}


class Orders(beam.PTransform[Any, Any]):
    """Wraps a cross-language transform."""

    def expand(self, begin: Any) -> Any:
        return begin | "Fetch" >> ExternalTransform("example:orders", b"", "localhost:9")


class Discovered(beam.PTransform[Any, Any]):
    """Asks an expansion service before it applies anything."""

    def expand(self, begin: Any) -> Any:
        service = BeamJarExpansionService(":sdks:java:io:expansion-service:shadowJar")
        return begin | SchemaAwareExternalTransform(
            "beam:schematransform:other:v1", service, rearrange_based_on_discovery=True
        )


def changes() -> ReadFromDebezium:
    login = "a", SECRET, "h", "1"
    return ReadFromDebezium(DriverClassName.MYSQL, *login, connection_properties=[])


def external(transform: Any) -> Any:
    """Apply a cross-language transform, whose service is not asked."""
    return beam.Pipeline(SparkRunner()) | "Read" >> transform


@misuse.table(__file__)
def test_a_wrong_call_is_an_error(call: misuse.Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parents[1])
    monkeypatch.setattr(mongodbio, "MongoClient", None)
    monkeypatch.setattr(bigquery_tools, "TableReference", None)
    SparkRunner()  # Of which most programs make one before their transforms.
    misuse.check(call, globals())
