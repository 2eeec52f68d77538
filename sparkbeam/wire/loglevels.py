"""From which level on log records are written."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field

QUIET = {
    "apache_beam": logging.WARNING,
    # What LogElements writes belongs to the user.
    "apache_beam.transforms.util": logging.INFO,
    "apache_beam.yaml": logging.INFO,
}
"""Beam's own loggers, unless the user sets levels: what they tell at INFO is of no use to users."""


@dataclass(frozen=True)
class LogLevels:
    """From which level on records are written.

    Attributes:
        default: of loggers without a level of their own, as a number of :mod:`logging`. It is
            that of Beam's SDK harness.
        overrides: of loggers by their name.
    """

    default: int = logging.INFO
    overrides: Mapping[str, int] = field(default_factory=lambda: dict(QUIET))
