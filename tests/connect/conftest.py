"""Has all of the chosen tests run where that is asked for, in the other process too."""

import os

import pytest
from chosen_tests import WHOLE


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("whole", default=False):
        os.environ[WHOLE] = "1"
