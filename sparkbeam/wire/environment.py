"""The part of the driver's environment that a worker adopts for a pipeline."""

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

from sparkbeam.upstream.logical_types import register
from sparkbeam.upstream.saved_sessions import load_sessions
from sparkbeam.wire.heap import WORKER_HEAP, Heap
from sparkbeam.wire.usercode import Sources, unfindable

_LOG = logging.getLogger(__name__)
_MOST_BYTES = 1 << 20

ClassName = tuple[str, str]
"""Module and class name."""


class Variables(NamedTuple):
    """Environment variables."""

    values: dict[str, str]
    unset: list[str]

    def enter(self) -> None:
        """Apply to this process."""
        changed = {k: v for k, v in self.values.items() if os.environ.get(k) != v}
        os.environ.update(changed)
        for name in self.unset:
            os.environ.pop(name, None)


@dataclass(frozen=True)
class Environment:
    """Environment of user code; sent with a stage.

    Attributes:
        values: given values of the options that the pipeline has declared with
            ``add_value_provider_argument``, by name.
        folder: the driver's working directory, for relative paths; None if the workers do not share
            the driver's files.
        sources: the driver's module search path, such as the folder of the program.
        variables: the file with the driver's environment variables; None likewise.
        classes: pickled classes of the program itself, and of modules that cannot be imported, by
            module and name; elements refer to them by name.
        plugins: modules, or their classes, to import; see Beam's option ``--beam_plugins``.
        heap: the memory of the JVM that receives the worker's rows.
        session: the parts of the state of the program, for Beam's option ``--save_main_session``.
        types: the logical types of schemas that the program has registered.
    """

    values: Mapping[str, Any] = field(default_factory=dict)
    folder: str | None = None
    sources: Sources = field(default_factory=Sources)
    variables: str | None = None
    # Not compared: the loaded modules of a process are no property of a pipeline.
    classes: Mapping[ClassName, bytes] = field(default_factory=dict, repr=False, compare=False)
    plugins: tuple[str, ...] = ()
    heap: Heap = field(default_factory=Heap)
    session: tuple[bytes, ...] = field(default=(), repr=False, compare=False)
    types: tuple[ClassName, ...] = field(default=(), repr=False, compare=False)

    def enter_session(self) -> None:
        """Adopt the state of the program, in a process other than the driver's."""
        load_sessions(self.session)

    def enter_variables(self) -> None:
        """Adopt the environment variables, in a process other than the driver's."""
        if self.variables is not None:
            with contextlib.suppress(OSError):  # A finished run needs none.
                Variables(**json.loads(Path(self.variables).read_text())).enter()

    def enter(self, *, anew: bool = False) -> None:
        """Adopt the environment in this process.

        Args:
            anew: reload the classes, as their modules may have been reloaded.
        """
        if anew:
            _ENTERED.clear()
        RuntimeValueProvider.set_runtime_options(dict(self.values))
        WORKER_HEAP.heap = self.heap
        for plugin in self.plugins:
            _import(plugin)
        for place, pickled in self.classes.items():
            if _ENTERED.get(place) == pickled:
                continue
            # It may need a module that is missing here, and need not be used here.
            with contextlib.suppress(Exception):
                # Functions that were pickled with the class share it.
                _put(*place, pickle.loads(pickled))
            _ENTERED[place] = pickled
        for place in self.types:
            register(*place)
        if self.folder is not None and self.folder != _current():
            with contextlib.suppress(OSError):  # It may be gone, and is often not needed.
                os.chdir(self.folder)


_ENTERED: dict[ClassName, bytes] = {}
"""Classes that this process has adopted."""


@functools.cache
def _import(plugin: str) -> None:
    """Import a module, or that of a class, once; warn if it does not exist."""
    for module in (plugin, plugin.rpartition(".")[0]):
        with contextlib.suppress(ImportError, ValueError):
            importlib.import_module(module)
            return
    _LOG.warning("The workers cannot import '%s', which --beam_plugins names.", plugin)


def _put(module: str, name: str, kind: Any) -> None:
    if module != "__main__":
        # An empty module in its place would hide its other content.
        with contextlib.suppress(Exception):  # It does not exist, or fails to import.
            importlib.import_module(module)
    setattr(sys.modules.setdefault(module, ModuleType(module)), name, kind)


def classes_of_program() -> dict[ClassName, bytes]:
    """Return classes that cannot be imported and that elements may have."""
    found = {}
    for module in (sys.modules["__main__"], *unfindable()):
        for name, kind in list(vars(module).items()):
            if not isinstance(kind, type) or kind.__module__ != module.__name__:
                continue
            if issubclass(kind, HasDisplayData):  # A DoFn or a transform, not an element.
                continue
            with contextlib.suppress(Exception), _Small() as file:
                CloudPickler(file, config=DEFAULT_CONFIG).dump(kind)
                found[module.__name__, name] = file.getvalue()
    return found


class _Small(io.BytesIO):
    """Buffer of limited size: classes that refer to data of the program are skipped."""

    def write(self, data: Any) -> int:
        if self.tell() + memoryview(data).nbytes > _MOST_BYTES:
            raise OverflowError
        return super().write(data)


def _current() -> str | None:
    with contextlib.suppress(OSError):
        return os.getcwd()
    return None
