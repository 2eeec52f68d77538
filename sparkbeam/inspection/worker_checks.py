"""A task that examines the worker it runs in.

It is pickled by value and imports nothing of sparkbeam at first, as a worker may lack it.
"""

import importlib
import importlib.metadata
import json
import os
import platform
import resource
import socket
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

PACKAGES = ("sparkbeam", "apache-beam", "cloudpickle", "numpy", "pandas", "pyarrow")
"""Packages that driver and workers need."""

_CGROUPS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
_UNLIMITED = 1 << 60
_SECONDS = 3.0


def versions(packages: Iterable[str]) -> dict[str, str | None]:
    """Return the versions of installed packages; None for a missing one."""
    return {name: _version(name) for name in packages}


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        pass
    try:  # An archive that travels has no metadata.
        return str(getattr(importlib.import_module(name.replace("-", "_")), "__version__", "?"))
    except ImportError:
        return None


def memory_limit() -> int | None:
    """Return the limit of this process's memory in bytes; None without one."""
    limits = [limit for limit in resource.getrlimit(resource.RLIMIT_AS) if limit > 0]
    for path in _CGROUPS:
        try:
            text = Path(path).read_text().strip()
        except OSError:
            continue
        limits += [int(text)] if text.isdecimal() else []
    found = min(limits, default=_UNLIMITED)
    return found if found < _UNLIMITED else None


def problem(action: Callable[[], object]) -> str:
    """Return the error of an action; empty if it succeeds."""
    try:
        action()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


@dataclass(frozen=True)
class Examination:
    """Task for ``mapInArrow`` that yields a row of JSON about its worker.

    Attributes:
        addresses: hosts and ports to connect to, by the text that names them.
        token: the content of the driver's file under the checkpoint.
    """

    packages: tuple[str, ...]
    modules: tuple[str, ...]
    addresses: Mapping[str, tuple[str, int]]
    checkpoint: str | None
    token: str

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Examine the worker."""
        import pyarrow as pa

        for _ in batches:
            yield pa.record_batch([pa.array([json.dumps(self._found())])], names=["found"])

    def _found(self) -> dict[str, Any]:
        return {
            "host": socket.gethostname(),
            "process": os.getpid(),
            "python": platform.python_version(),
            "program": sys.executable,
            "packages": versions(self.packages),
            "memory": memory_limit(),
            "temporary": problem(_write_temporary),
            "modules": {
                name: problem(partial(importlib.import_module, name)) for name in self.modules
            },
            "addresses": {
                name: problem(partial(_connect, address))
                for name, address in self.addresses.items()
            },
            "checkpoint": "" if self.checkpoint is None else problem(self._share),
        }

    def _share(self) -> None:
        """Read the driver's file under the checkpoint, and write one for the driver."""
        from sparkbeam.streaming.checkpoint_files import files

        assert self.checkpoint is not None
        found = files(self.checkpoint)
        if found.read(f"doctor/{self.token}") != self.token.encode():
            raise OSError("the file that the driver wrote there is missing")
        found.write(f"doctor/{self.token}-{uuid.uuid4().hex}", b"")


def _write_temporary() -> None:
    with tempfile.TemporaryFile() as file:
        file.write(b"x")


def _connect(address: tuple[str, int]) -> None:
    socket.create_connection(address, _SECONDS).close()
