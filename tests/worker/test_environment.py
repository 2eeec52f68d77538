"""User code in a worker finds the options and the folder of the driver."""

import importlib.util
import os
import pickle
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import Mock

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.options.value_provider import NestedValueProvider, RuntimeValueProvider
from apache_beam.testing.util import assert_that, equal_to
from in_process import StreamingRunner
from in_process_batch import BatchRunner

from sparkbeam import SparkRunner
from sparkbeam.options.spark_options import environment
from sparkbeam.spark.session import variables_of
from sparkbeam.wire.environment import Environment, classes_of_program
from sparkbeam.wire.usercode import unfindable


class Own(PipelineOptions):
    """Options with values at run time."""

    @classmethod
    def _add_argparse_args(cls, parser: Any) -> None:
        parser.add_value_provider_argument("--given_text", type=str)
        parser.add_value_provider_argument("--given_number", type=int, default=3)
        parser.add_value_provider_argument("--left_out", type=str, default="default")


class Asked(beam.DoFn):
    """Tells what a worker knows of the options."""

    def __init__(self, options: Own) -> None:
        self._asked = (options.given_text, options.given_number, options.left_out)
        self._nested = NestedValueProvider(options.given_number, lambda number: number + 1)

    def process(self, element: Any) -> Iterator[Any]:
        yield [asked.get() for asked in self._asked]
        yield self._nested.get()
        yield RuntimeValueProvider.get_value("given_text", str, "none")
        yield RuntimeValueProvider.get_value("left_out", str, "none")


@pytest.mark.parametrize("runner", [StreamingRunner, BatchRunner])
def test_workers_know_the_options_that_a_pipeline_declares(runner: Any, tmp_path: Path) -> None:
    options = PipelineOptions(["--given_text=hello", "--given_number=5"])
    with beam.Pipeline(runner(), options=options) as p:
        found = p | beam.Create([None]) | beam.ParDo(Asked(options.view_as(Own))) | beam.Map(str)
        _ = found | beam.io.WriteToText(str(tmp_path / "out"), shard_name_template="")
    lines = (tmp_path / "out").read_text().splitlines()
    assert sorted(lines) == sorted(["['hello', 5, 'default']", "6", "hello", "none"])


def test_workers_import_plugins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "plugged.py").write_text("class Files: pass")
    monkeypatch.syspath_prepend(str(tmp_path))
    options = PipelineOptions(["--beam_plugin=plugged.Files", "--beam_plugin=missing.Files"])
    environment(options, shares_files=False).enter()
    assert sys.modules.pop("plugged").Files
    assert [record.getMessage() for record in caplog.records] == [
        "The workers cannot import 'missing.Files', which --beam_plugins names."
    ]


def test_workers_know_nothing_of_other_options() -> None:
    options = PipelineOptions(["--given_text=hello", "--temp_location=/secret"])
    options.view_as(Own)
    assert environment(options, shares_files=False) == Environment({"given_text": "hello"})


def test_a_worker_goes_to_the_folder_of_the_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    there = environment(PipelineOptions([]), shares_files=True)
    os.chdir("/")
    there.enter()
    assert Path.cwd() == tmp_path


def test_a_worker_stays_where_it_is_if_the_folder_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Environment(folder=str(tmp_path / "gone")).enter()
    assert Path.cwd() == tmp_path


def test_a_worker_takes_over_environment_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARKBEAM_SAME", "same")
    monkeypatch.setenv("SPARKBEAM_CHANGED", "before")
    monkeypatch.setenv("SPARKBEAM_UNSET", "before")
    there = environment(PipelineOptions([]), shares_files=True)
    monkeypatch.setenv("SPARKBEAM_CHANGED", "after")
    monkeypatch.delenv("SPARKBEAM_UNSET")
    monkeypatch.setenv("SPARKBEAM_ODD", "\udc80\n'\"")
    after = environment(PipelineOptions([]), shares_files=True, given=["SPARKBEAM_SAME"])
    there.enter_variables()
    assert os.environ["SPARKBEAM_CHANGED"] == os.environ["SPARKBEAM_UNSET"] == "before"
    monkeypatch.delenv("SPARKBEAM_ODD")
    monkeypatch.setenv("SPARKBEAM_SAME", "of the session")
    after.enter_variables()
    assert os.environ["SPARKBEAM_CHANGED"] == "after"
    assert os.environ["SPARKBEAM_ODD"] == "\udc80\n'\""
    assert os.environ["SPARKBEAM_SAME"] == "of the session"
    assert "SPARKBEAM_UNSET" not in os.environ


def test_environment_variables_are_in_no_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARKBEAM_SECRET", "hidden-from-all")
    there = environment(PipelineOptions([]), shares_files=True)
    assert b"hidden-from-all" not in pickle.dumps(there)
    assert "hidden-from-all" not in repr(there)
    assert there.variables is not None
    assert Path(there.variables).stat().st_mode & 0o777 == 0o600
    assert environment(PipelineOptions([]), shares_files=False).variables is None


def test_variables_of_the_processes_themselves_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/of/the/driver")
    there = environment(PipelineOptions([]), shares_files=True)
    monkeypatch.setenv("PYTHONPATH", "/of/the/worker")
    there.enter_variables()
    assert os.environ["PYTHONPATH"] == "/of/the/worker"


def test_a_worker_does_without_variables_of_a_run_that_has_ended(tmp_path: Path) -> None:
    Environment(variables=str(tmp_path / "gone")).enter_variables()


def variable(_: Any) -> str:
    return os.environ.get("SPARKBEAM_VARIABLE", "none")


def test_environment_variables_of_the_driver_are_those_of_each_pipeline(
    spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for value in ("one", "other", None):
        if value is None:
            monkeypatch.delenv("SPARKBEAM_VARIABLE")
        else:
            monkeypatch.setenv("SPARKBEAM_VARIABLE", value)
        with beam.Pipeline(SparkRunner(spark), options=PipelineOptions([])) as p:
            found = p | beam.Create(range(4)) | beam.Reshuffle() | beam.Map(variable)
            assert_that(found, equal_to([value or "none"] * 4))


LOADED = """
from dataclasses import dataclass
import apache_beam as beam

RATE = 3

@dataclass(frozen=True)
class Sale:
    shop: str
    price: int

class Sell(beam.DoFn):
    def process(self, price):
        yield Sale("a", RATE * price)

def price(sale):
    return sale.price

def build(pipeline, numbers):
    sales = pipeline | beam.Create([Sale("b", 1)])
    sold = numbers | beam.ParDo(Sell())
    pairs = (sales, sold) | beam.Flatten() | beam.Map(lambda sale: (sale, 1))
    return pairs | beam.GroupByKey() | beam.MapTuple(lambda sale, ones: price(sale) * sum(ones))
"""


@pytest.fixture
def odd(tmp_path: Path) -> Iterator[ModuleType]:
    """A module that was loaded as Airflow loads its DAGs: no import finds it."""
    name, path = "unusual_prefix_0123_sales", tmp_path / "sales.py"
    path.write_text(LOADED)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    del sys.modules[name]


def test_a_program_that_no_import_finds_runs_on_workers(spark: Any, odd: Any) -> None:
    with beam.Pipeline(SparkRunner(spark), options=PipelineOptions([])) as p:
        assert_that(odd.build(p, p | "Numbers" >> beam.Create([1, 1])), equal_to([1, 6]))


def test_modules_that_no_import_finds_are_told_from_others(
    odd: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "found_by_import.py").write_text("")
    found = importlib.import_module("found_by_import")
    names = {module.__name__ for module in unfindable()}
    assert odd.__name__ in names
    assert not {found.__name__, "json", "numpy", "sparkbeam", "apache_beam"} & names
    # Another one of that name is found now.
    (tmp_path / "first").mkdir()
    (tmp_path / "first" / "found_by_import.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path / "first"))
    assert found in unfindable()
    del sys.modules["found_by_import"]


def test_a_module_is_looked_for_again_when_its_folder_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    file = tmp_path / "comes_and_goes.py"
    file.touch()
    module = importlib.import_module(file.stem)
    for second, is_there in enumerate([True, False, True], 1):
        file.touch() if is_there else file.unlink()
        os.utime(tmp_path, (second, second))
        assert (module not in unfindable()) == is_there
    del sys.modules[file.stem]


@pytest.mark.parametrize("entry", [None, 7, "\0", Path("folder")])
def test_what_is_in_the_place_of_a_module_may_be_anything(
    entry: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Alike(ModuleType):
        __hash__ = None  # type: ignore[assignment]

        def __eq__(self, other: object) -> bool:
            return True

    class Slotted:
        __slots__ = ()
        __name__, __file__ = "slotted_module", "/user/slotted_module.py"

    alike = Alike("unlike_a_module")
    alike.__file__ = "/user/unlike_a_module.py"
    monkeypatch.setattr(sys, "path", [entry, *sys.path])
    for module in (alike, Slotted()):
        monkeypatch.setitem(sys.modules, module.__name__, module)
        for _ in range(2):
            assert any(one is module for one in unfindable())


def test_classes_are_taken_over_by_their_names(monkeypatch: pytest.MonkeyPatch) -> None:
    main = ModuleType("__main__")
    vars(main).update(
        Own=type("Own", (), {"__module__": "__main__"}),
        Doing=type("Doing", (beam.DoFn,), {"__module__": "__main__"}),
        Large=type("Large", (), {"__module__": "__main__", "data": os.urandom(2 << 20)}),
        Imported=Own,
    )
    monkeypatch.setitem(sys.modules, "__main__", main)
    classes = classes_of_program()
    there = ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", there)
    Environment(classes={**classes, ("__main__", "Broken"): b"nothing"}).enter()
    assert there.Own is main.Own
    assert not {"Broken"} & set(vars(there))
    assert not {"Doing", "Large", "Imported"} & set(vars(there))


def test_a_class_that_is_taken_over_hides_nothing_of_its_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sold_here.py").write_text("RATE = 3")
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "sold_badly.py").write_text("1 / 0")
    names = ("sold_here", "sold_nowhere", "sold_badly")
    Environment(classes={(name, "Sale"): pickle.dumps(Own) for name in names}).enter()
    found = [sys.modules.pop(name) for name in names]
    assert [module.Sale for module in found] == [Own] * 3
    assert found[0].RATE == 3


def test_variables_that_a_local_session_gives_to_workers_are_known() -> None:
    session = Mock(sparkContext=Mock(environment={"MODE": "fast"}))
    session.conf.get.return_value = "local[2]"
    assert variables_of(session) == ["MODE"]
    session.conf.get.return_value = "yarn"
    assert variables_of(session) == []
