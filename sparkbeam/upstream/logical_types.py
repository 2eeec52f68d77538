"""Logical types of schemas that a program has registered with Beam, for its workers."""

import contextlib
import importlib
import sys
from typing import Any

from apache_beam.typehints.schemas import LogicalType


def custom() -> dict[str, Any]:
    """Return the classes that are not registered by Beam's schemas, by their URNs."""
    return dict(LogicalType._known_logical_types.copy_custom().by_urn)


def registered() -> tuple[tuple[str, str], ...]:
    """Return the module and the name of each of them."""
    return tuple(sorted((kind.__module__, kind.__qualname__) for kind in custom().values()))


def register(module: str, name: str) -> None:
    """Register a class in this process, unless it is missing here."""
    with contextlib.suppress(Exception):  # Importing a module of the user's may fail in any way.
        found = sys.modules.get(module) or importlib.import_module(module)
        LogicalType.register_logical_type(getattr(found, name))
