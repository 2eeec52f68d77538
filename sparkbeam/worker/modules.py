"""Modules of the user's program in a worker, which serves one pipeline after the other.

Functions of modules are pickled by their names, so the code that runs is the code that the worker
has loaded. Between two pipelines a module may have been edited, or another folder may come first
on the path.
"""

import functools
import hashlib
import importlib
import os
import shutil
import sys
import uuid
import zipfile
from collections.abc import Iterator, Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

from pyspark import TaskContext

from sparkbeam.wire.environment import Environment
from sparkbeam.wire.usercode import Sources, is_of_user
from sparkbeam.worker.archives_on_path import keep_directories, note_archives

Seen = tuple[str, str]
"""The file of a module and a digest of its content."""


class Modules:
    """Those that this process has loaded, with their content as it was then.

    It stands among the finders of Python, before the one that looks along the path, whose answers
    it notes.
    """

    def __init__(self) -> None:
        self._identities: dict[str, Seen] = {}
        self._stale: set[str] = set()
        self._added: set[str] = set()
        self.run_id = ""

    def follow(self, run_id: str, sources: Sources) -> bool:
        """Set up imports to find modules as the driver of a run finds them.

        Returns:
            True if modules have been forgotten, to be loaded anew.
        """
        self.run_id = run_id
        if self not in sys.meta_path:
            at = sys.meta_path.index(PathFinder) if PathFinder in sys.meta_path else 0
            sys.meta_path.insert(at, self)
        self._order(sources)
        keep_directories()
        importlib.invalidate_caches()
        note_archives()
        if not any(self._changed()):
            return False
        self._forget()
        return True

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find a module along the path; called by an import."""
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and is_of_user(name, spec.origin):
            seen = _content_identity(spec)
            if seen is not None:
                self._identities[name] = seen
            if name in self._stale and type(spec.loader) is SourceFileLoader:
                # Python tells bytecode of the same second and size from no other.
                spec.loader = _FromSource(name, spec.loader.path)
        return spec

    def _order(self, sources: Sources) -> None:
        """Put the driver's folders where they are found first, in its order."""
        there = [entry for entry in sys.path if entry not in self._added]
        by_name = {os.path.basename(entry): entry for entry in there}
        shipped = [by_name[name] for name in sources.archives if name in by_name]
        packages = [] if sources.packages is None else [_unpacked(sources.packages)]
        first = [*dict.fromkeys([*shipped, *sources.folders, *packages])]
        rest = [entry for entry in there if entry not in first]
        last = [entry for entry in sources.libraries if entry not in {*first, *rest}]
        self._added = {*first, *last}.difference(there)
        sys.path[:] = [*first, *rest, *last]

    def _changed(self) -> Iterator[str]:
        """Yield the names of modules that would be found otherwise now."""
        for name, _ in _loaded():
            found = _content_identity(_found_now(name))
            if found is not None and self._identities.setdefault(name, found) != found:
                yield name

    def _forget(self) -> None:
        """Forget all modules of the program.

        The origin of an object that one module has of another, such as a constant, is not known.
        """
        for name, module in _loaded():
            self._stale.add(name)
            del sys.modules[name]
            parent, _, child = name.rpartition(".")
            if getattr(sys.modules.get(parent), child, None) is module:
                delattr(sys.modules[parent], child)


@functools.cache
def _unpacked(packages: str) -> str:
    """Return the folder of packages; an archive is unpacked beside it, once in an executor."""
    if os.path.isabs(packages):
        return packages
    from pyspark import SparkFiles  # Which pyspark-client, on the driver, has not.

    archive = Path(SparkFiles.get(packages))
    folder = archive.with_suffix("")
    if not folder.is_dir():
        unfinished = archive.with_name(uuid.uuid4().hex)
        with zipfile.ZipFile(archive) as content:
            content.extractall(unfinished)
        try:
            unfinished.rename(folder)
        except OSError:  # Another worker was faster.
            shutil.rmtree(unfinished, ignore_errors=True)
    return str(folder)


def _loaded() -> list[tuple[str, ModuleType]]:
    """Return the modules of the program that are loaded."""
    modules = list(sys.modules.items())
    return [one for one in modules if is_of_user(one[0], getattr(one[1], "__file__", None))]


def _found_now(name: str) -> ModuleSpec | None:
    """Return the module that an import would find; None if that is unknown."""
    parent, _, _ = name.rpartition(".")
    path = getattr(sys.modules.get(parent), "__path__", None) if parent else None
    if parent and path is None:
        return None
    try:
        return PathFinder.find_spec(name, path)
    except (ImportError, ValueError):
        return None


def _content_identity(spec: ModuleSpec | None) -> Seen | None:
    """Return the identity of a module's content; None if it is not a plain Python module."""
    loader: Any = spec.loader if spec is not None else None
    if spec is None or spec.origin is None or not hasattr(loader, "get_data"):
        return None
    if not spec.origin.endswith(".py"):
        return None
    try:
        content = loader.get_data(spec.origin)
    except OSError:
        return None
    return spec.origin, hashlib.sha256(content).hexdigest()


class _FromSource(SourceFileLoader):
    """Loader that compiles a module from its source, whatever bytecode there is."""

    def get_code(self, fullname: str) -> Any:
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)


MODULES = Modules()
"""Those of this process."""


def enter(run_id: str, environment: Environment) -> None:
    """Set up this process so that the user's code of a run finds what it finds on the driver."""
    # Outside of Spark's workers the process is the driver's.
    if TaskContext.get() is None or MODULES.run_id == run_id:
        environment.enter()
        return
    # Modules may look at them when they are loaded.
    environment.enter_variables()
    environment.enter(anew=MODULES.follow(run_id, environment.sources))
    environment.enter_session()
