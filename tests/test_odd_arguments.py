"""Whatever is given to the public API, it is taken or told in a short error that names it."""

# mypy: disable-error-code="arg-type,misc"
# Wrong arguments are what it is about.

import inspect
import threading
from collections.abc import Callable
from typing import Any

import apache_beam as beam
import pytest
from hypothesis import given
from hypothesis import strategies as st
from odd import ANYTHING, FEW, assert_short
from pyspark.sql.types import StructType

from sparkbeam import ConfigurationError, Explanation, SparkPipelineResult, SparkRunner
from sparkbeam.io import Foreach, ForeachBatch, ReadFromSpark, WriteToSpark

SCHEMA = StructType().add("name", "string").add("size", "long").add("at", "timestamp")


class Recorder:
    def process(self, row: Any) -> None:
        """Takes it."""


TRANSFORMS: dict[Any, dict[str, Any]] = {
    ReadFromSpark: {"format": "rate", "schema": SCHEMA, "timestamp_column": "at"},
    WriteToSpark: {"format": "noop", "schema": SCHEMA},
    ForeachBatch: {"function": lambda frame, number: None, "schema": SCHEMA},
    Foreach: {"writer": Recorder()},
}
ARGUMENTS = [(kind, name) for kind in TRANSFORMS for name in inspect.signature(kind).parameters]


def applied(kind: Any, arguments: dict[str, Any]) -> None:
    """Makes a transform and a pipeline of it; DDL is left alone, as Spark itself reads it."""
    transform = kind(**arguments)
    if isinstance(arguments.get("schema"), str):
        return
    pipeline = beam.Pipeline(SparkRunner())
    source = pipeline if kind is ReadFromSpark else pipeline | beam.Create([beam.Row(name="a")])
    if arguments.get("schema", SCHEMA) is not None or kind is not ReadFromSpark:
        source | "Odd" >> transform
        pipeline.to_runner_api()


def check(act: Callable[[], object], *names: str) -> None:
    try:
        act()
    except ConfigurationError as error:
        assert_short(str(error), *names)


@pytest.mark.parametrize(("kind", "name"), ARGUMENTS)
@FEW
@given(value=ANYTHING)
def test_arguments_of_transforms(kind: Any, name: str, value: object) -> None:
    # A name of a column is told as such, an option of the source by its own name.
    words = (name, "column", "option", "schema", "process")
    check(lambda: applied(kind, {**TRANSFORMS[kind], name: value}), *words)


@FEW
@given(options=st.dictionaries(ANYTHING.filter(lambda v: isinstance(v, (str, int))), ANYTHING))
def test_options_of_a_source(options: dict[Any, Any]) -> None:
    check(lambda: applied(ReadFromSpark, {**TRANSFORMS[ReadFromSpark], "options": options}))


@pytest.mark.parametrize("name", ["session", "drain"])
@FEW
@given(value=ANYTHING)
def test_arguments_of_the_runner(name: str, value: object) -> None:
    check(lambda: SparkRunner(**{name: value}), name)


@FEW
@given(value=ANYTHING)
def test_what_is_to_be_explained(value: object) -> None:
    check(lambda: SparkRunner().explain(value), "pipeline")
    if value is not None:
        check(lambda: SparkRunner().explain(beam.Pipeline(), value), "options")


@FEW
@given(value=ANYTHING.filter(lambda value: not isinstance(value, (int, float)) or value < 9))
def test_a_duration_to_wait(value: object) -> None:
    result = SparkPipelineResult(cancel_work=lambda: None)
    # Who waits without an end is woken.
    timer = threading.Timer(0.01, result._finish, [None])
    if value is None:
        timer.start()
    check(lambda: result.wait_until_finish(value), "duration")
    result._finish(None)


@FEW
@given(value=ANYTHING)
def test_where_an_explanation_is_saved(value: object) -> None:
    explanation = Explanation(_plan=None, pipeline="", stages="", spark="")
    if not isinstance(value, str) or not value.endswith((".mmd", ".html", ".txt")):
        check(lambda: explanation.save(value), "saved", "path")
    check(lambda: explanation.save("/proc/no/such/folder.txt"), "/proc/no")
