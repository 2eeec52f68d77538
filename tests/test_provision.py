"""Packages and files of a pipeline's options, in the workers of a local session."""

import importlib
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.coders import typecoders
from apache_beam.testing.util import assert_that, equal_to
from package_files import source, wheel
from pyspark import SparkFiles

from sparkbeam import ConfigurationError, SparkRunner
from sparkbeam.spark import provision

pytestmark = pytest.mark.usefixtures("by_value")


class Shared:
    """What a coder is registered for."""


class SharedCoder(beam.coders.PickleCoder):
    """The registered coder."""


@pytest.fixture(autouse=True)
def apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.chdir(tmp_path)


def found(spark: Any, function: Any, expected: list[Any], *flags: str) -> None:
    with beam.Pipeline(SparkRunner(spark), argv=[*flags]) as pipeline:
        words = pipeline | beam.Create([1], reshuffle=False) | beam.Map(function)
        assert_that(words, equal_to(expected))


def of_package(_: int) -> Any:
    found: Any = importlib.import_module("prog_given")
    return found.WORD


def of_setup(_: int) -> Any:
    found: Any = importlib.import_module("prog_built")
    return found.WORD


def staged(_: int) -> str:
    return Path(SparkFiles.get("table.txt")).read_text()


def coder(_: int) -> str:
    return type(typecoders.registry.get_coder(Shared)).__name__


def test_workers_import_a_package_and_the_next_version_of_it(spark: Any, tmp_path: Path) -> None:
    for word in "old", "new":
        given = wheel(tmp_path, "prog_given", f"WORD = {word!r}\n")
        found(spark, of_package, [word], f"--extra_package={given}")


def test_workers_import_the_package_of_a_setup_file(spark: Any, tmp_path: Path) -> None:
    source(tmp_path, "prog_built", "WORD = 'built'\n").rename("setup.py")
    found(spark, of_setup, ["built"], "--setup_file=setup.py")


def test_workers_find_staged_files(spark: Any, tmp_path: Path) -> None:
    file = tmp_path / "table.txt"
    for _ in range(2):
        file.write_text("rows")
        found(spark, staged, ["rows"], f"--files_to_stage={file}")
    file.write_text("others")
    with pytest.raises(ConfigurationError, match="other content"):
        found(spark, staged, [], f"--files_to_stage={file}")


@pytest.fixture
def registered() -> Iterator[None]:
    registry: Any = typecoders.registry
    before = dict(registry._coders), list(registry.custom_types)
    registry.register_coder(Shared, SharedCoder)
    yield
    registry._coders, registry.custom_types = before


class Unloadable:
    """What workers cannot make."""

    def __reduce__(self) -> Any:
        return importlib.import_module, ("prog_missing",)


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize("other", [threading.Lock(), Unloadable()], ids=["pickled", "loaded"])
def test_a_registered_coder_that_cannot_be_keeps_out_no_other(spark: Any, other: Any) -> None:
    registry: Any = typecoders.registry
    registry._coders[Unloadable] = other
    registry.custom_types.insert(0, Unloadable)
    found(spark, coder, ["SharedCoder"], "--save_main_session")


@pytest.mark.usefixtures("registered")
def test_the_main_session_has_registered_coders(spark: Any) -> None:
    found(spark, coder, ["SharedCoder"], "--save_main_session")


class Elsewhere:
    """A session whose workers run another system."""

    def range(self, _: int) -> "Elsewhere":
        return self

    def mapInArrow(self, *_: Any) -> "Elsewhere":
        return self

    def collect(self) -> Any:
        return [("plan9-mips",)]


def test_compiled_packages_are_refused_where_workers_cannot_load_them(tmp_path: Path) -> None:
    provision._check_platform(Elsewhere(), tmp_path)
    (tmp_path / "fast").mkdir()
    (tmp_path / "fast" / "loops.so").touch()
    with pytest.raises(ConfigurationError, match=r"\(fast\), but the workers run plan9-mips"):
        provision._check_platform(Elsewhere(), tmp_path)


def test_a_file_that_a_session_has_refused_is_shipped_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ship(session: Any, path: str, remedy: str) -> None:
        tried.append(Path(path).name)
        if len(tried) == 1:
            raise ConfigurationError("Not now.")

    tried: list[str] = []
    monkeypatch.setattr(provision, "ship", ship)
    file = tmp_path / "rates.txt"
    file.write_text("1")
    session = Elsewhere()
    with pytest.raises(ConfigurationError, match="Not now"):
        provision._stage(session, str(file))
    for _ in range(2):
        provision._stage(session, str(file))
    assert tried == ["rates.txt"] * 2
