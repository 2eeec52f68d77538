"""Packages beside sparkbeam: that of the page, and wrong ones."""

import importlib
import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import apache_beam as beam
import misuse
import pytest
from apache_beam.io import jdbc, kafka
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms import managed
from apache_beam.transforms.sql import SqlTransform
from in_process_batch import BatchRunner
from pyspark import cloudpickle
from waiting import until

from sparkbeam import ConfigurationError, PipelineFailed, SparkRunner, UnsupportedTransform
from sparkbeam.common import entry_points
from sparkbeam.common.entry_points import MANAGED_READS, REPLACEMENTS, prepare, registered, scanned
from sparkbeam.io import ReadFromSpark

PAGE = (Path(__file__).parents[1] / "docs" / "hooks.md").read_text()
Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Makes a package with a module and entry points, as an installer leaves it."""

    def made(package: str, source: str, entries: str) -> None:
        (tmp_path / f"{package}.py").write_text(source)
        info = tmp_path / f"{package}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(entries)
        importlib.invalidate_caches()
        forget()

    def forget() -> None:
        for cache in (scanned, registered, entry_points.packages, prepare):
            cache.cache_clear()

    monkeypatch.syspath_prepend(tmp_path)
    yield made
    forget()


def of_page(number: int) -> tuple[str, str]:
    """Return the module and the entry points of a package of the page."""
    sources, entries = (
        re.findall(rf"```{kind}\n(.*?)```", PAGE, re.DOTALL)[number] for kind in ("python", "toml")
    )
    return sources, entries.replace('"', "").replace("project.entry-points.", "")


def _note(path: str, row: Any) -> None:
    with open(path, "a") as lines:
        lines.write(f"{row.amount}\n")


def read_bigquery(table: str, **more: Any) -> None:
    with beam.Pipeline(BatchRunner()) as p:
        config = {"table": table, **more}
        rows = p | "Orders" >> managed.Read(managed.BIGQUERY, config=config)
        assert_that(rows | beam.Map(lambda row: row.amount), equal_to([5, 7]))


def test_the_package_of_the_page_reads_what_a_managed_transform_names(
    install: Install, tmp_path: Path
) -> None:
    install("bigquery_in_files", *of_page(0))
    with sqlite3.connect(tmp_path / "shop.db") as shop:
        shop.execute("CREATE TABLE orders (city TEXT, amount INTEGER)")
        shop.executemany("INSERT INTO orders VALUES (?, ?)", [("Bonn", 5), ("Bern", 7)])
        shop.execute("CREATE TABLE empty (amount INTEGER)")
    read_bigquery(f"{tmp_path / 'shop.db'}:orders")
    for table, count in (("orders", 2), ("empty", 0)):
        with beam.Pipeline(BatchRunner()) as p:
            config = {"table": f"{tmp_path / 'shop.db'}:{table}"}
            rows = p | managed.Read(managed.BIGQUERY, config=config)
            assert_that(rows | beam.combiners.Count.Globally(), equal_to([count]))
    with pytest.raises(ConfigurationError, match=r"'Orders'.*tabel, which is not supported"):
        read_bigquery(f"{tmp_path / 'shop.db'}:orders", tabel="x")


def test_a_data_source_of_the_page_is_read_from_the_offsets_that_were_committed(
    spark: Any, install: Install, tmp_path: Path
) -> None:
    install("orders_in_files", *of_page(1))
    cloudpickle.register_pickle_by_value(importlib.import_module("orders_in_files"))
    path = str(tmp_path / "shop.db")
    with closing(sqlite3.connect(path)) as shop:
        shop.execute("CREATE TABLE orders (city TEXT, amount INTEGER)")

    def read(run: int, amounts: list[int], last: int) -> list[int]:
        """The amounts that a new pipeline reads to its end."""
        with closing(sqlite3.connect(path)) as shop, shop:
            shop.executemany("INSERT INTO orders VALUES ('Bonn', ?)", [(n,) for n in amounts])
        pipeline = beam.Pipeline(
            runner=SparkRunner(spark),
            options=PipelineOptions(["--streaming", "--shards=1"]),
        )
        rows = pipeline | ReadFromSpark("orders", {"path": path})
        note = tmp_path / f"{run}.txt"
        _ = rows | beam.Map(partial(_note, str(note)))
        result = pipeline.run()
        try:
            until(lambda: [(last,)] == positions() or result.state == "FAILED", seconds=120)
            assert result.state == "RUNNING"
        finally:
            result.cancel()
        return sorted(map(int, note.read_text().split()))

    def positions() -> list[Any]:
        with closing(sqlite3.connect(path)) as shop:
            return shop.execute("SELECT position FROM positions").fetchall()

    with pytest.raises(ConfigurationError, match=r"'ReadFromSpark\(orders\)': options has no path"):
        _ = beam.Pipeline(SparkRunner(spark)) | ReadFromSpark("orders")
    failed = r"Step 'ReadFromSpark\(orders\)' failed: the package of .*'orders' failed: Operational"
    with pytest.raises(PipelineFailed, match=failed), beam.Pipeline(SparkRunner(spark)) as p:
        _ = p | ReadFromSpark("orders", {"path": path}) | beam.Map(str)
    with closing(sqlite3.connect(path)) as shop:
        shop.execute("CREATE TABLE positions AS SELECT 0 AS position")
    assert read(0, [5, 7, 9], 3) == [5, 7, 9]
    assert read(1, [11, 13], 5) == [11, 13]


def test_a_class_of_any_package_is_replaced(install: Install) -> None:
    class Numbers(beam.PTransform[Any, Any]):
        def expand(self, begin: Any) -> Any:
            raise NotImplementedError

    install(
        "numbers_here",
        "import apache_beam\nmade = lambda transform, pipeline: apache_beam.Create([1])\n",
        f"[{REPLACEMENTS}]\n{Numbers.__module__}.{Numbers.__qualname__} = numbers_here:made\n",
    )
    with beam.Pipeline(BatchRunner()) as p:
        assert_that(p | Numbers(), equal_to([1]))


@misuse.table(__file__)
def test_a_wrong_package_is_named(call: misuse.Call, install: Install) -> None:
    def managed_read(entry: str) -> None:
        install("broken", "", f"[{MANAGED_READS}]\n{entry}\n")
        read_bigquery("x:y")

    def source(package: str, result: str) -> None:
        made = f"def made(options):\n    return {result}\n"
        install(package, made, f"[sparkbeam.sources]\nodd = {package}:made\n")
        _ = beam.Pipeline(BatchRunner()) | "Rows" >> ReadFromSpark("ODD")

    misuse.check(call, {"managed_read": managed_read, "source": source})


def test_sources_without_metadata_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(entry_points, "registered", lambda group: {})
        prepare.cache_clear()
        with pytest.raises(ConfigurationError, match="install sparkbeam with pip"):
            BatchRunner()


def test_a_type_of_yaml_that_beam_runs_in_java_is_made_by_a_package(install: Install) -> None:
    yaml_transform = pytest.importorskip("apache_beam.yaml.yaml_transform")
    install(
        "spanner_here",
        "import apache_beam as b\nread = lambda table: b.Create([b.Row(name=table)])\n",
        "[sparkbeam.yaml_types]\nReadFromSpanner = spanner_here:read\n",
    )
    with beam.Pipeline(BatchRunner()) as p:
        text = "{type: ReadFromSpanner, config: {table: clicks}}"
        rows = p | yaml_transform.YamlTransform(text)
        assert_that(rows | beam.Map(lambda row: row.name), equal_to(["clicks"]))


TABLE = {"table": "t", "jdbc_url": "jdbc:x", "username": "u", "password": "p"}
PACKAGED: dict[str, tuple[str, Callable[[], Any]]] = {
    "Kafka": ("kafka", lambda: kafka.ReadFromKafka({"bootstrap.servers": "localhost:9"}, ["t"])),
    "JDBC": ("tables", lambda: jdbc.ReadFromJdbc("t", "org.x.Driver", "jdbc:x", "u", "p")),
    "Iceberg": ("tables", lambda: managed.Read(managed.ICEBERG, config={"table": "db.t"})),
    "PostgreSQL": ("tables", lambda: managed.Read(managed.POSTGRES, config=TABLE)),
    "SQL Server": ("tables", lambda: managed.Read(managed.SQL_SERVER, config=TABLE)),
    "SQL": ("sql", lambda: SqlTransform("SELECT 1 AS n")),
    "Pub/Sub": ("pubsub", lambda: beam.io.ReadFromPubSub(topic="projects/project/topics/topic")),
}


@pytest.mark.parametrize("name", PACKAGED)
def test_a_transform_without_its_package_is_an_error_that_names_it(
    name: str, install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    package, make = PACKAGED[name]
    install("nothing_else", "", "")
    monkeypatch.setattr(entry_points, "scanned", lambda: distribution("sparkbeam").entry_points)
    p = beam.Pipeline(BatchRunner(), PipelineOptions(["--streaming"]))
    with pytest.raises(UnsupportedTransform, match=rf"nstall .*sparkbeam\[{package}\]"):
        _ = p | make(), p.run()


def test_a_package_that_cannot_be_imported_hides_no_error_of_the_program(install: Install) -> None:
    install("bad", "raise OSError", "[sparkbeam.packages]\nbad = bad\nabsent = not_there\n")
    failed = "(?s)'Divide'.*test_hooks"
    with pytest.raises(PipelineFailed, match=failed), beam.Pipeline(BatchRunner()) as p:
        _ = p | beam.Create([1]) | "Divide" >> beam.Map(lambda n: n // 0)


def test_preparations_are_called_once_in_a_process(install: Install) -> None:
    entries = "[sparkbeam.preparations]\ncounting = counting:call\n"
    install("counting", "calls = []\n\ndef call():\n    calls.append(1)\n", entries)
    import counting  # type: ignore[import-not-found]

    for _ in range(2):
        BatchRunner()
    assert counting.calls == [1]
