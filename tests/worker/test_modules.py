"""A worker runs modules of the user's program as they are when a pipeline is submitted."""

import importlib
import itertools
import sys
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from types import ModuleType
from typing import Any
from unittest.mock import Mock

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.util import assert_that, equal_to
from IPython.extensions.autoreload import superreload

from sparkbeam import SparkRunner
from sparkbeam.common.shipped_files import archives
from sparkbeam.options.spark_options import environment
from sparkbeam.upstream import spark as of_spark
from sparkbeam.wire.usercode import Sources, entries, is_of_user
from sparkbeam.worker.modules import Modules


@pytest.fixture(autouse=True)
def as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Leaves modules, finders and the path as they were."""
    modules = dict(sys.modules)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    yield
    for name in set(sys.modules) - set(modules):
        del sys.modules[name]
    sys.modules.update(modules)


class Worker:
    """Modules of a worker, which serves one run after the other."""

    def __init__(self) -> None:
        self._modules = Modules()
        self._runs = map(str, itertools.count())

    def serves(self, *folders: Path, archives: tuple[str, ...] = ()) -> bool:
        """A new run begins; returns whether modules are to be loaded anew."""
        sources = Sources(tuple(map(str, folders)), archives=archives)
        return self._modules.follow(next(self._runs), sources)


def loaded(name: str) -> ModuleType:
    return importlib.import_module(name)


@pytest.mark.parametrize("change", [Path.touch, Path.unlink])
def test_a_module_that_has_not_changed_or_is_gone_stays(
    tmp_path: Path, change: Callable[[Path], None]
) -> None:
    (tmp_path / "steady.py").write_text("value = 1")
    worker = Worker()
    worker.serves(tmp_path)
    before = loaded("steady")
    change(tmp_path / "steady.py")
    assert not worker.serves(tmp_path)
    assert loaded("steady") is before


def test_a_module_that_was_edited_is_loaded_anew(tmp_path: Path) -> None:
    worker = Worker()
    for value in range(5):
        # Of the same size, and within the same second.
        (tmp_path / "edited.py").write_text(f"value = {value}")
        assert worker.serves(tmp_path) is (value > 0)
        assert loaded("edited").value == value


def test_an_edit_while_a_run_goes_on_is_for_the_next_run(tmp_path: Path) -> None:
    worker = Worker()
    (tmp_path / "meanwhile.py").write_text("value = 1")
    worker.serves(tmp_path)
    first = loaded("meanwhile")
    (tmp_path / "meanwhile.py").write_text("value = 2")
    assert loaded("meanwhile") is first
    assert worker.serves(tmp_path)
    assert (first.value, loaded("meanwhile").value) == (1, 2)


def test_the_first_folder_of_the_driver_is_the_first_of_the_worker(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    for folder in (one, other):
        folder.mkdir()
        (folder / "twice.py").write_text(f"value = '{folder.name}'")
    worker = Worker()
    for folders in ((one, other), (other, one), (other,), (one,)):
        worker.serves(*folders)
        assert loaded("twice").value == folders[0].name


def test_all_modules_of_a_program_are_loaded_anew_if_one_has_changed(tmp_path: Path) -> None:
    (tmp_path / "lowest.py").write_text("LIMIT = 1\ndef value(): return 1")
    (tmp_path / "middle.py").write_text("from lowest import LIMIT, value")
    (tmp_path / "highest.py").write_text("import middle\nclass Kept: value = middle.value")
    (tmp_path / "constant.py").write_text("from lowest import LIMIT\ntwice = 2 * LIMIT")
    worker = Worker()
    worker.serves(tmp_path)
    assert loaded("highest").middle.value() == 1
    assert loaded("constant").twice == 2
    (tmp_path / "lowest.py").write_text("LIMIT = 2\ndef value(): return 2")
    assert worker.serves(tmp_path)
    assert loaded("highest").middle.value() == 2
    assert loaded("middle").LIMIT == 2
    assert loaded("constant").twice == 4


def test_a_part_of_a_package_is_loaded_anew(tmp_path: Path) -> None:
    package = tmp_path / "parcel" / "inner"
    package.mkdir(parents=True)
    (tmp_path / "parcel" / "__init__.py").write_text("from parcel.inner.core import value")
    (package / "__init__.py").write_text("")
    (package / "core.py").write_text("value = 1")
    (package / "user.py").write_text("from .core import value\nfrom . import core")
    worker = Worker()
    worker.serves(tmp_path)
    assert loaded("parcel.inner.user").value == 1
    (package / "core.py").write_text("value = 2")
    worker.serves(tmp_path)
    assert loaded("parcel").value == 2
    assert loaded("parcel.inner.user").value == 2
    assert loaded("parcel.inner.user").core.value == 2
    assert loaded("parcel").inner.core.value == 2


def test_libraries_are_never_loaded_anew(tmp_path: Path) -> None:
    worker = Worker()
    worker.serves(tmp_path)
    # Which is found first now.
    for name in ("json", "numpy", "apache_beam", "sparkbeam", "pyspark"):
        (tmp_path / f"{name}.py").write_text("")
    before = {name: sys.modules[name] for name in ("json", "numpy", "apache_beam", "sparkbeam")}
    worker.serves(tmp_path)
    assert {name: sys.modules[name] for name in before} == before


@pytest.mark.parametrize("name", ["json", "numpy", "apache_beam", "pyspark", "sparkbeam"])
def test_modules_of_libraries_are_not_of_the_user(name: str) -> None:
    assert not is_of_user(name, loaded(name).__file__)


def test_a_path_is_told_apart(tmp_path: Path) -> None:
    library = str(Path(beam.__path__[0]).parent)
    assert entries([str(tmp_path), library, ""]) == ((str(tmp_path), str(Path.cwd())), (library,))


def archived(path: Path) -> Path:
    (archive,) = archives([str(path)])
    return Path(archive)


def test_a_shipped_file_is_named_for_its_content(tmp_path: Path) -> None:
    module = tmp_path / "orders.py"
    module.write_text("value = 1")
    one = archived(module)
    assert archived(module) == one
    module.write_text("value = 2")
    other = archived(module)
    assert one.name != other.name
    assert (one.suffix, other.suffix) == (".zip", ".zip")
    with zipfile.ZipFile(other) as archive:
        assert archive.read("orders.py") == b"value = 2"
    packed = tmp_path / "pricing.zip"
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("pricing.py", "value = 3")
    assert archived(packed).read_bytes() == packed.read_bytes()


def test_threads_may_ship_the_same_file_at_once(tmp_path: Path) -> None:
    module, count = tmp_path / "shared.py", 8
    together = Barrier(count)

    def ship(_: int) -> Path:
        together.wait()
        return archived(module)

    with ThreadPoolExecutor(count) as threads:
        for value in range(20):
            module.write_text(f"value = {value}")
            (made,) = set(threads.map(ship, range(count)))
            with zipfile.ZipFile(made) as archive:
                assert archive.read("shared.py") == module.read_bytes()
            assert [made] == [*made.parent.glob(f"{made.stem}*")]


@pytest.mark.parametrize("scheme", ["hdfs", "s3", "file"])
def test_a_url_is_shipped_as_it_is(scheme: str) -> None:
    urls = [f"{scheme}://host/folder/orders.py", f"{scheme}://host/folder/pricing.zip"]
    assert archives(urls) == urls
    options = PipelineOptions([f"--spark_py_files={url}" for url in urls])
    shipped = environment(options, shares_files=False).sources.archives
    assert shipped == ("orders.py", "pricing.zip")


@pytest.mark.parametrize("of_connect", [False, True])
def test_a_classic_session_gets_urls_by_its_context(
    monkeypatch: pytest.MonkeyPatch, of_connect: bool
) -> None:
    monkeypatch.setattr(of_spark, "is_connect", lambda _: of_connect)
    session = Mock()
    of_spark.ship(session, "hdfs://host/pricing.zip", module=True)
    gets = session.addArtifacts if of_connect else session.sparkContext.addPyFile
    assert gets.call_args.args == ("hdfs://host/pricing.zip",)


def test_the_archive_of_the_run_is_found_first(tmp_path: Path) -> None:
    module, worker = tmp_path / "shipped.py", Worker()
    found = []
    for value in (1, 2, 1):
        module.write_text(f"value = {value}")
        archive = archived(module)
        if str(archive) not in sys.path:
            sys.path.insert(1, str(archive))
        worker.serves(archives=(archive.name,))
        found.append(loaded("shipped").value)
    assert found == [1, 2, 1]


def runs(spark: Any, function: Callable[[int], Any], wanted: Any, *options: str) -> None:
    """Runs a function in workers of Spark, which gives the same everywhere."""
    given = PipelineOptions(["--spark_parallelism=4", *options])
    with beam.Pipeline(SparkRunner(spark), options=given) as p:
        found = p | beam.Create(range(8)) | beam.Reshuffle() | beam.Map(function)
        assert_that(found, equal_to([wanted] * 8))


def test_workers_of_spark_follow_the_driver(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    for folder in (one, other):
        folder.mkdir()
        (folder / "handy.py").write_text(f"def handy(_): return '{folder.name}'")
    monkeypatch.syspath_prepend(str(one))
    module = loaded("handy")
    runs(spark, module.handy, "one")
    (one / "handy.py").write_text("def handy(_): return 'anew'")
    module = importlib.reload(module)
    runs(spark, module.handy, "anew")
    (one / "handy.py").write_text("def handy(_): return 'by %autoreload'")
    before = module.handy
    superreload(module)
    for function in (module.handy, before):
        runs(spark, function, "by %autoreload")
    monkeypatch.syspath_prepend(str(other))
    del sys.modules["handy"]
    runs(spark, loaded("handy").handy, "other")


def inside(_: int) -> Any:
    from lazily import value  # type: ignore[import-not-found]

    return value


def test_what_a_function_imports_is_as_it_is_now(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    for value in (1, 2):
        (tmp_path / "lazily.py").write_text(f"value = {value}")
        runs(spark, inside, value)


def test_a_shipped_module_may_change_between_pipelines(spark: Any, tmp_path: Path) -> None:
    path = tmp_path / "lazily.py"
    for value in (3, 4):
        path.write_text(f"value = {value}")
        runs(spark, inside, value, f"--spark_py_files={path}")
