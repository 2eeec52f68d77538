"""Beam's own test classes, as they are, over this runner.

A module of Beam's tests becomes a suite in one line::

    globals().update(suite("apache_beam.transforms.util_test"))

which defines a subclass of each of its test classes, under the name
``util_test.ClassName``. No test is ever changed or left out: one that cannot
pass stands in :data:`expected_failures.EXPECTED_FAILURES` with the reason, and
has to fail for as long as it stands there.

Beam's tests build their pipelines on ``TestPipeline()`` or ``Pipeline()``; the
fixture of this folder makes this runner the default of both. A class that is
made for several runners has a ``create_pipeline``, which is overridden. A test
that names a runner of Beam's own runs on that.

The tests that Beam itself means for every runner are in
:func:`validates_runner_suite`, and in no other suite.
"""

import functools
import importlib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import TestCase

import apache_beam
import expected_failures
import pytest
from apache_beam.options.pipeline_options import StandardOptions
from apache_beam.testing.test_pipeline import TestPipeline
from expected_failures import EXPECTED_FAILURES, Failures

VALIDATES_RUNNER = "it_validatesrunner"
"""The mark of the tests that Beam itself means for every runner."""

_CLOUD = "apache_beam.runners.dataflow."
"""Modules whose tests start jobs in a cloud."""


def suite(module_name: str, failures: Failures = EXPECTED_FAILURES) -> dict[str, type[TestCase]]:
    """The test classes of a module, ready to be collected.

    Args:
        module_name: where in Beam's package the classes are.
        failures: the tests that fail, with the reasons.

    Returns:
        The classes by the name that they have in pytest's ids.
    """
    return _suite(module_name, failures, validates_runner=False)


def validates_runner_suite(failures: Failures = EXPECTED_FAILURES) -> dict[str, type[TestCase]]:
    """The tests in all of Beam's modules that carry its mark for tests of runners."""
    cases = {}
    for module_name in _modules_with_mark():
        if not module_name.startswith(_CLOUD):
            cases.update(_suite(module_name, failures, validates_runner=True))
    return cases


def _modules_with_mark() -> Iterator[str]:
    """The names of the modules that hold the mark; none is imported for that."""
    root = Path(apache_beam.__path__[0])
    for path in sorted(root.rglob("*_test.py")):
        if f"@pytest.mark.{VALIDATES_RUNNER}" in path.read_text():
            yield ".".join(path.relative_to(root.parent).with_suffix("").parts)


def _suite(
    module_name: str, failures: Failures, *, validates_runner: bool
) -> dict[str, type[TestCase]]:
    module = importlib.import_module(module_name)
    cases = {}
    for case in _cases(module):
        wanted = [test for test in _tests(case) if _is_marked(case, test) == validates_runner]
        if wanted:
            name = f"{module_name.rpartition('.')[2]}.{case.__name__}"
            cases[name] = _subclass(case, name, wanted, failures)
    return cases


def _cases(module: ModuleType) -> Iterator[type[TestCase]]:
    """The test classes that a module itself defines, each once."""
    classes = dict.fromkeys(value for value in vars(module).values() if isinstance(value, type))
    for case in classes:
        if issubclass(case, TestCase) and case.__module__ == module.__name__:
            yield case


def _tests(case: type[TestCase]) -> list[str]:
    return [name for name in dir(case) if name.startswith("test") and callable(getattr(case, name))]


def _is_marked(case: type[TestCase], test: str) -> bool:
    marks = [*getattr(case, "pytestmark", ()), *getattr(getattr(case, test), "pytestmark", ())]
    return any(mark.name == VALIDATES_RUNNER for mark in marks)


def _subclass(
    case: type[TestCase], name: str, wanted: list[str], failures: Failures
) -> type[TestCase]:
    namespace: dict[str, Any] = {"__doc__": case.__doc__, "__module__": case.__module__}
    if hasattr(case, "create_pipeline"):
        namespace["create_pipeline"] = lambda _, is_drain=False: TestPipeline(
            runner=_default_runner(drain=is_drain)
        )
    for test in _tests(case):
        reason = expected_failures.reason(f"{case.__module__}.{case.__name__}.{test}", failures)
        if test not in wanted:
            namespace[test] = None  # Which hides it from the loader.
        elif reason is not None:
            namespace[test] = _expected_to_fail(getattr(case, test), reason)
    return type(name, (case,), namespace)


def _default_runner(*, drain: bool) -> Any:
    module, _, name = StandardOptions.DEFAULT_RUNNER.rpartition(".")
    return getattr(importlib.import_module(module), name)(drain=drain)


def _expected_to_fail(test: Callable[..., None], reason: str) -> Callable[..., None]:
    @functools.wraps(test)
    def failing(self: TestCase) -> None:
        test(self)

    marked: Callable[..., None] = pytest.mark.xfail(
        reason=reason, strict=reason not in expected_failures.BY_CHANCE
    )(failing)
    return marked
