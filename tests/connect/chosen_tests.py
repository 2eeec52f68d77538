"""A part of Beam's ``FnApiRunnerTest``, which runs as a whole on a classic session."""

from apache_beam.runners.portability.fn_api_runner.fn_runner_test import FnApiRunnerTest
from whole import is_whole

ALL = sorted(name for name in dir(FnApiRunnerTest) if name.startswith("test"))


def chosen() -> list[str]:
    """The names of those that run; both processes have the same environment."""
    return ALL[:: 3 if is_whole() else 90]
