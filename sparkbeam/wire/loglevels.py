"""Log levels of workers."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field

QUIET = {
    "apache_beam": logging.WARNING,
    # The output of LogElements is the user's.
    "apache_beam.transforms.util": logging.INFO,
    "apache_beam.yaml": logging.INFO,
}
"""Beam's own loggers by default: their INFO records are not useful to users."""


@dataclass(frozen=True)
class LogLevels:
    """Log levels.

    Attributes:
        default: of loggers without their own level, as a number of :mod:`logging`; the default of
            Beam's SDK harness.
    """

    default: int = logging.INFO
    overrides: Mapping[str, int] = field(default_factory=lambda: dict(QUIET))
