"""What an installation brings, and what is said where PySpark, or a part of it, is missing."""

import json
import logging
import tomllib
from pathlib import Path

import pytest
from command import python
from packaging.requirements import Requirement
from without_packages import CLIENT, NO_PYSPARK, ROOT, environment

from sparkbeam import __version__
from sparkbeam.common.entry_points import packages
from sparkbeam.errors import ConfigurationError
from sparkbeam.spark import session as sessions
from sparkbeam.upstream import spark as of_spark

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

MISSING = (
    "sparkbeam needs PySpark, which is not installed: pip install 'sparkbeam[spark]', or "
    "'sparkbeam[client]' to use a Spark Connect server without a JVM on this machine."
)


def run(folder: Path, names: tuple[str, ...], program: str) -> list[str]:
    """Runs a program in a Python without some packages; returns the lines that it prints."""
    return python("-c", program, folder=folder, **environment(folder, names)).stdout.splitlines()


def test_no_dependency_brings_pyspark_but_extras_do() -> None:
    assert not [one for one in PROJECT["dependencies"] if "spark" in one]
    extras = PROJECT["optional-dependencies"]
    assert [extras[name] for name in ("client", "connect", "spark")] == [
        ["pyspark-client>=4.0"],
        ["pyspark[connect]>=3.5"],
        ["pyspark>=3.5"],
    ]


USES = """
import importlib, json, traceback
import sparkbeam
from click.testing import CliRunner
from sparkbeam.cli import main

def of_error(use):
    try:
        use()
    except Exception as error:
        assert isinstance(error, sparkbeam.ConfigurationError), traceback.format_exc()
        assert isinstance(error, ImportError)
        assert error.__cause__ is None and (error.__context__ is None or error.__suppress_context__)
        return str(error)

def runner_by_name():
    from apache_beam import Pipeline
    Pipeline(runner="sparkbeam.SparkRunner")

public = ("SparkRunner", "as_dataframe")
uses = {name: lambda name=name: getattr(sparkbeam, name) for name in public}
uses["sparkbeam.io"] = lambda: importlib.import_module("sparkbeam.io")
uses["by name"] = runner_by_name
found = {name: of_error(use) for name, use in uses.items()}
open("program.py", "w").write("from sparkbeam import SparkRunner\\nSparkRunner()")
for command in ("explain program.py", "report program.py", "drain x", "state x --step y", "doctor"):
    result = CliRunner().invoke(main, command.split())
    assert result.exit_code == 2, (command, result.output, result.exception)
    found[command] = result.stderr.strip().splitlines()[-1].removeprefix("Error: ")
print(json.dumps(found))
"""


def test_all_that_needs_pyspark_says_so_in_one_line(tmp_path: Path) -> None:
    (line,) = run(tmp_path, NO_PYSPARK, USES)
    found = json.loads(line)
    assert {use: text for use, text in found.items() if text != MISSING} == {}


WALK = """
import importlib, pkgutil

for name in {}:
    for module in pkgutil.walk_packages(importlib.import_module(name).__path__, name + "."):
        if module.name != "sparkbeam.__main__":
            importlib.import_module(module.name)
"""
IMPORTS = """
from sparkbeam import ConfigurationError, SparkRunner
from apache_beam import Pipeline

for options in ([], ["--spark_master=local[2]"], ["--spark_connect=local"]):
    try:
        with Pipeline(SparkRunner(), argv=options) as pipeline:
            from apache_beam import Create
            pipeline | Create([1])
    except ConfigurationError as error:
        print(error)
"""


def test_a_client_without_a_jvm_imports_everything_and_asks_for_a_server(tmp_path: Path) -> None:
    assert run(tmp_path, CLIENT, WALK.format(packages() - {"beam_nexmark"}) + IMPORTS) == 3 * [
        "The installed PySpark is a client without a JVM: use --spark_connect=sc://host:15002, "
        "or pip install 'sparkbeam[spark]'."
    ]


def test_the_data_source_of_event_hubs_needs_neither_sparkbeam_nor_beam(tmp_path: Path) -> None:
    others = {Requirement(one).name.replace("-", "_") for one in PROJECT["dependencies"]}
    missing = {"sparkbeam", *others} - {"numpy", "pyarrow"}
    run(tmp_path, tuple(missing), WALK.format(["pyspark_eventhubs"]))


def test_packages_have_one_version_and_are_extras() -> None:
    files = ROOT.glob("packages/*/pyproject.toml")
    projects = [tomllib.loads(path.read_text())["project"] for path in files]
    assert {each["version"] for each in projects} == {__version__}
    extras = {one for named in PROJECT["optional-dependencies"].values() for one in named}
    needed = {one for each in projects for one in each["dependencies"]} | extras
    own = {Requirement(one).name for one in needed if one.endswith(f"=={__version__}")}
    assert own == {"sparkbeam", *(each["name"] for each in projects)}


UNTESTED = ("3.4.1", "4.4.0.dev0", "5.0.0rc1", "10.1")


@pytest.mark.parametrize("version", [*UNTESTED, "3.5.0", "4.0.1.dev2", "4.3.9"])
def test_two_sessions_of_an_untested_pyspark_are_one_warning(
    version: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(of_spark, "full_version", lambda: version)
    sessions.warn_of_version.cache_clear()
    with caplog.at_level(logging.WARNING):
        sessions.warn_of_version()
        sessions.warn_of_version()
    sessions.warn_of_version.cache_clear()
    told = f"PySpark {version} is installed, but this version of sparkbeam is tested with 3.5 to"
    assert caplog.messages == [f"{told} 4.3."] * (version in UNTESTED)


def test_a_jvm_is_asked_of_pyspark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(of_spark, "starts_jvms", lambda: False)
    with pytest.raises(ConfigurationError, match="a client without a JVM"):
        sessions._require_java()
