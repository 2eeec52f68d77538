"""Logical types of schemas that a program has registered with Beam, for its workers."""

import contextlib
import importlib
import sys

from apache_beam.typehints.schemas import LogicalType


def registered() -> tuple[tuple[str, str], ...]:
    """Return the module and the name of each class that is not registered by Beam's schemas."""
    kinds = LogicalType._known_logical_types.copy_custom().by_logical_type
    return tuple(sorted((kind.__module__, kind.__qualname__) for kind in kinds))


def register(module: str, name: str) -> None:
    """Register a class in this process, unless it is missing here."""
    with contextlib.suppress(Exception):  # Importing a module of the user's may fail in any way.
        found = sys.modules.get(module) or importlib.import_module(module)
        LogicalType.register_logical_type(getattr(found, name))
