"""Lets Beam's own parts of a pipeline take less of the time of tests; they do the same.

Beam looks at the signatures of all methods of each DoFn some twenty times for a pipeline, most of
which are those of its own base classes, and waits for a thread at the end of each bundle.
"""

from collections.abc import Callable
from typing import Any

from apache_beam.runners.worker import statesampler
from apache_beam.transforms import core

from sparkbeam.upstream.sampler import Sampler

_Arguments = tuple[list[str], list[Any]]


def prepare() -> None:
    """Replaces both in this process."""
    arguments = _remembering(core.get_function_args_defaults)
    core.get_function_args_defaults = arguments  # type: ignore[assignment]
    statesampler.StateSampler = Sampler  # type: ignore[assignment,misc]


def _remembering(arguments_of: Callable[[Any], _Arguments]) -> Callable[[Any], _Arguments]:
    known: dict[Any, _Arguments] = {}

    def remembered(function: Any) -> _Arguments:
        method = getattr(function, "__func__", None)
        if method is None or not method.__module__.startswith("apache_beam."):
            return arguments_of(function)
        if method not in known:
            known[method] = arguments_of(function)
        names, defaults = known[method]
        return names.copy(), defaults.copy()

    return remembered
