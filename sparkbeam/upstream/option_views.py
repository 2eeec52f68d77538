"""Options of a pipeline that Beam parses once.

Beam asks for a view of the options whenever it applies a transform or compares two types, a hundred
times for a small pipeline, and each time makes a parser and parses the command line.
"""

import weakref
from collections.abc import Callable
from typing import Any

from apache_beam.options.pipeline_options import PipelineOptions

_View = Callable[[PipelineOptions, Any], Any]

_Views = dict[type, Any]

_known: dict[int, tuple[weakref.ref[PipelineOptions], _Views]] = {}
"""Views by the identity of the values that all views share; no longer than the options live."""


def remember(options: PipelineOptions) -> None:
    """Keep the views of a pipeline's options until :func:`forget`, or until the options are freed.

    All views share the values of the options, so a view that is kept has those that are set later.
    """
    if _views_of(options) is None:
        identity = id(options._all_options)
        reference = weakref.ref(options, lambda _: _known.pop(identity, None))
        _known[identity] = reference, {}


def forget(options: PipelineOptions) -> None:
    """Keep no views any longer."""
    _known.pop(id(options._all_options), None)


def is_building() -> bool:
    """Return whether the views of any pipeline's options are kept."""
    return bool(_known)


def remembering(view_as: _View) -> _View:
    """A ``view_as`` that hands out the views that are kept, and calls the given one for all others.

    Views of users' classes are never kept.
    """

    def view(options: PipelineOptions, cls: Any) -> Any:
        views = _views_of(options)
        if views is None or not _is_kept(cls):
            return view_as(options, cls)
        if cls not in views:
            views[cls] = view_as(options, cls)
        return views[cls]

    return view


def _views_of(options: PipelineOptions) -> _Views | None:
    reference, views = _known.get(id(options._all_options), (None, None))
    alive = reference() if reference is not None else None
    return views if getattr(alive, "_all_options", None) is options._all_options else None


def _is_kept(cls: Any) -> bool:
    """Return whether it is a class of Beam's or ours; the base has the options of all classes."""
    return cls.__module__.startswith(OF_THE_PROCESS) and cls is not PipelineOptions


OF_THE_PROCESS = ("apache_beam.", "sparkbeam.")
"""Prefixes of modules that stay loaded as long as the process; those of users may not."""


def known_values(options: PipelineOptions) -> dict[str, Any]:
    """Return the values of all options that have been viewed as any class, or set by a program."""
    return dict(options._all_options)
