"""Assumptions about Beam's transforms that need the client library of their system."""

import functools
import importlib
from collections.abc import Callable
from typing import Any

_NEEDS = (
    ("apache_beam.io.mongodbio", "MongoClient", "pymongo", ("ReadFromMongoDB", "WriteToMongoDB")),
    (
        "apache_beam.io.gcp.bigquery",
        "bigquery_tools.TableReference",
        "apache-beam[gcp]",
        ("ReadFromBigQuery", "ReadAllFromBigQuery", "WriteToBigQuery"),
    ),
)
"""Modules with the name that is None without a library, what installs it, and the transforms."""


@functools.cache
def before_constructors(missing: Callable[[str, str], Exception]) -> None:
    """Raise an error in the constructors of transforms whose client library is missing.

    Some fail there already, long before a runner hears of them, and others in the workers.

    Args:
        missing: returns the error, given the name of the transform and what installs the library.
    """
    for name, library, package, transforms in _NEEDS:
        module = importlib.import_module(name)
        for transform in transforms:
            _guard(module, library, transform, functools.partial(missing, transform, package))


def _guard(module: Any, library: str, transform: str, missing: Callable[[], Exception]) -> None:
    kind = getattr(module, transform)
    construct = kind.__init__

    @functools.wraps(construct)
    def checked(self: Any, *given: Any, **named: Any) -> None:
        if functools.reduce(getattr, library.split("."), module) is None:
            raise missing()
        construct(self, *given, **named)

    kind.__init__ = checked
