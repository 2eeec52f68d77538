"""Modules whose functions and classes are pickled by value."""

import sys
from collections.abc import Iterable
from types import ModuleType

from apache_beam.internal.cloudpickle import cloudpickle


def register(modules: Iterable[ModuleType]) -> None:
    """Pickle functions and classes of modules by value from now on."""
    known = cloudpickle.list_registry_pickle_by_value()
    for module in modules:
        if module.__name__ not in known and sys.modules.get(module.__name__) is module:
            cloudpickle.register_pickle_by_value(module)
