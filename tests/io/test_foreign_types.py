"""Types that the metadata of files name: nobody imports their modules."""

import json
import sys
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.testing.util import assert_that, equal_to

from sparkbeam import SparkRunner
from sparkbeam.errors import ConfigurationError
from sparkbeam.io import ReadFromSpark
from sparkbeam.upstream.spark import no_foreign_types

POINT = {
    "type": "struct",
    "fields": [{"name": "x", "type": "long", "nullable": True, "metadata": {}}],
}
FOREIGN = {
    "type": "udt",
    "pyClass": "named_by_a_file.Point",
    "serializedClass": "gASV",
    "sqlType": POINT,
}


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A module that leaves a file when somebody imports it."""
    folder = tmp_path / "modules"
    folder.mkdir()
    left = tmp_path / "imported"
    (folder / "named_by_a_file.py").write_text(
        f"open({str(left)!r}, 'w').close()\n"
        "from pyspark.sql.types import UserDefinedType\n"
        "class Point(UserDefinedType): pass\n"
    )
    monkeypatch.syspath_prepend(str(folder))
    return left


def schema(*kinds: Any) -> dict[str, Any]:
    fields = [
        {"name": f"c{at}", "type": kind, "nullable": True, "metadata": {}}
        for at, kind in enumerate(kinds)
    ]
    return {"type": "struct", "fields": fields}


def file_of(folder: Path, *kinds: Any) -> str:
    """A Parquet file of points that says of its columns what a test wants."""
    column = pa.array([{"x": 1}, {"x": 2}])
    table = pa.table({"c0": column, "c1": pa.array([[{"x": 3}], []]), "c2": pa.array([7, 8])})
    told = json.dumps(schema(*kinds)).encode()
    metadata = {b"org.apache.spark.sql.parquet.row.metadata": told}
    folder.mkdir(exist_ok=True)
    pq.write_table(table.replace_schema_metadata(metadata), folder / "part-0.parquet")
    return str(folder)


NESTED = {"type": "array", "elementType": FOREIGN, "containsNull": True}


def test_a_file_is_read_without_the_types_that_it_names(
    spark: Any, tmp_path: Path, module: Path
) -> None:
    path = file_of(tmp_path / "data", FOREIGN, NESTED, "long")
    with beam.Pipeline(runner=SparkRunner(spark)) as p:
        rows = p | ReadFromSpark("parquet", {"path": path})
        assert_that(
            rows | beam.Map(lambda row: (row.c0.x, [each.x for each in row.c1], row.c2)),
            equal_to([(1, [3], 7), (2, [], 8)]),
        )
    assert not module.exists()
    assert "named_by_a_file" not in sys.modules
    assert '"udt"' in spark.read.parquet(path)._jdf.schema().json()  # Spark itself says so.


def test_a_dataframe_with_such_a_type_is_refused(spark: Any, tmp_path: Path, module: Path) -> None:
    from sparkbeam.io import FromDataFrame

    path = file_of(tmp_path / "data", FOREIGN, NESTED, "long")
    frame = spark.read.parquet(path)
    with pytest.raises(ConfigurationError, match=r"type named_by_a_file\.Point"):
        beam.Pipeline(runner=SparkRunner(spark)) | FromDataFrame(frame)
    assert not module.exists()


def test_pyspark_takes_the_type_behind_one_for_now(module: Path) -> None:
    from pyspark.sql.types import StructType

    with no_foreign_types() as met:
        found = StructType.fromJson(schema(FOREIGN, NESTED))
    assert met == ["named_by_a_file.Point"] * 2
    assert found["c0"].dataType == StructType.fromJson(POINT)
    assert not module.exists()


def test_what_does_not_tell_the_type_behind_it_is_an_error(module: Path) -> None:
    from pyspark.sql.types import UserDefinedType

    over_connect = {"type": "udt", "pyClass": "named_by_a_file.Point", "serializedClass": "gASV"}
    with no_foreign_types(), pytest.raises(ValueError, match=r"named_by_a_file\.Point"):
        UserDefinedType.fromJson(over_connect)
    assert not module.exists()


def test_programs_import_as_ever(module: Path) -> None:
    from pyspark.sql.types import UserDefinedType

    with no_foreign_types():
        pass
    assert type(UserDefinedType.fromJson(FOREIGN)).__name__ == "Point"
    assert module.exists()
    del sys.modules["named_by_a_file"]
