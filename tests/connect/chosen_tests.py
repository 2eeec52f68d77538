"""A part of Beam's ``FnApiRunnerTest``, which runs as a whole on a classic session."""

import os

from apache_beam.runners.portability.fn_api_runner.fn_runner_test import FnApiRunnerTest

WHOLE = "SPARKBEAM_WHOLE"
"""Set where a third of the tests is to run, and not a ninth."""

ALL = sorted(name for name in dir(FnApiRunnerTest) if name.startswith("test"))


def chosen() -> list[str]:
    """The names of those that run; both processes have the same environment."""
    return ALL[:: 3 if WHOLE in os.environ else 9]
