"""A representative third of Beam's ``FnApiRunnerTest``: every third test by name."""

from apache_beam.runners.portability.fn_api_runner.fn_runner_test import FnApiRunnerTest

ALL = sorted(name for name in dir(FnApiRunnerTest) if name.startswith("test"))
CHOSEN = ALL[::3]
