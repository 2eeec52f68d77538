"""What a worker takes over of the driver's process while it runs a pipeline."""

import contextlib
import functools
import importlib
import io
import json
import logging
import os
import pickle
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from apache_beam.internal.cloudpickle import CloudPickler
from apache_beam.internal.cloudpickle_pickler import DEFAULT_CONFIG
from apache_beam.options.value_provider import RuntimeValueProvider
from apache_beam.transforms.display import HasDisplayData

from sparkbeam.wire.heap import HERE, Heap
from sparkbeam.wire.usercode import Sources, unfindable

_LOG = logging.getLogger(__name__)
_MOST_BYTES = 1 << 20

Place = tuple[str, str]
"""The names of a module and of a class in it."""


class Variables(NamedTuple):
    """Environment variables.

    Attributes:
        values: by their names.
        unset: the names of those that there are not.
    """

    values: dict[str, str]
    unset: list[str]

    def enter(self) -> None:
        """Makes them those of this process."""
        changed = {k: v for k, v in self.values.items() if os.environ.get(k) != v}
        os.environ.update(changed)
        for name in self.unset:
            os.environ.pop(name, None)


@dataclass(frozen=True)
class Environment:
    """What user code finds around it; it travels with a stage.

    Attributes:
        values: of the options that the pipeline has declared with
            ``add_value_provider_argument``, as far as they were given, by their names.
        folder: the driver's working directory, to which relative paths refer; None where the
            workers do not share the driver's files.
        sources: where the driver finds modules, such as those beside the program.
        variables: the file with the driver's environment variables; None likewise.
        classes: those of the program itself, and of modules that no import finds, pickled, by
            module and name; elements of them are pickled as what is found there.
        plugins: modules, or classes of them, to be imported; see Beam's option ``--beam_plugins``.
        heap: the memory of the JVM that takes the worker's rows.
    """

    values: Mapping[str, Any] = field(default_factory=dict)
    folder: str | None = None
    sources: Sources = field(default_factory=Sources)
    variables: str | None = None
    # Not compared: which modules a process has loaded tells nothing of a pipeline.
    classes: Mapping[Place, bytes] = field(default_factory=dict, repr=False, compare=False)
    plugins: tuple[str, ...] = ()
    heap: Heap = field(default_factory=Heap)

    def enter_variables(self) -> None:
        """Takes over the environment variables; in a process other than the driver's."""
        if self.variables is not None:
            with contextlib.suppress(OSError):  # A run that has ended needs none.
                Variables(**json.loads(Path(self.variables).read_text())).enter()

    def enter(self, *, anew: bool = False) -> None:
        """Makes it that of this process.

        Args:
            anew: modules that its classes may refer to are loaded anew.
        """
        if anew:
            _ENTERED.clear()
        RuntimeValueProvider.set_runtime_options(dict(self.values))
        HERE.heap = self.heap
        for plugin in self.plugins:
            _import(plugin)
        for place, pickled in self.classes.items():
            if _ENTERED.get(place) == pickled:
                continue
            # It may need a module that is not here, and need not be here itself.
            with contextlib.suppress(Exception):
                # What functions have brought along of it is the same class.
                _put(*place, pickle.loads(pickled))
            _ENTERED[place] = pickled
        if self.folder is not None and self.folder != _current():
            with contextlib.suppress(OSError):  # It may be gone, and is often of no account.
                os.chdir(self.folder)


_ENTERED: dict[Place, bytes] = {}
"""The classes that this process has taken over."""


@functools.cache
def _import(plugin: str) -> None:
    """Imports a module, or that of a class, once; a warning says so where there is none."""
    for module in (plugin, plugin.rpartition(".")[0]):
        with contextlib.suppress(ImportError, ValueError):
            importlib.import_module(module)
            return
    _LOG.warning("The workers cannot import '%s', one of the --beam_plugins.", plugin)


def _put(module: str, name: str, kind: Any) -> None:
    if module != "__main__":
        # An empty module in its place would hide all else that is in it.
        with contextlib.suppress(Exception):  # There is none, or whatever it raises.
            importlib.import_module(module)
    setattr(sys.modules.setdefault(module, ModuleType(module)), name, kind)


def classes_of_program() -> dict[Place, bytes]:
    """The classes that no import finds elsewhere, as far as elements may be of them."""
    found = {}
    for module in (sys.modules["__main__"], *unfindable()):
        for name, kind in list(vars(module).items()):
            if not isinstance(kind, type) or kind.__module__ != module.__name__:
                continue
            if issubclass(kind, HasDisplayData):  # A DoFn or a transform, but no element.
                continue
            with contextlib.suppress(Exception), _Small() as file:
                CloudPickler(file, config=DEFAULT_CONFIG).dump(kind)
                found[module.__name__, name] = file.getvalue()
    return found


class _Small(io.BytesIO):
    """Takes few bytes: a class that refers to data of the program is not taken over."""

    def write(self, data: Any) -> int:
        if self.tell() + memoryview(data).nbytes > _MOST_BYTES:
            raise OverflowError
        return super().write(data)


def _current() -> str | None:
    with contextlib.suppress(OSError):
        return os.getcwd()
    return None
