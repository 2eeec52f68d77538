"""Options of a pipeline that Beam parses once.

Beam asks for a view of the options whenever it applies a transform or compares two types, a hundred
times for a small pipeline, and each time makes a parser and parses the command line.
"""

import weakref
from collections.abc import Callable
from typing import Any

from apache_beam.options import pipeline_options
from apache_beam.options.pipeline_options import PipelineOptions

_View = Callable[[PipelineOptions, Any], Any]

_Views = dict[type, Any]

_known: dict[int, tuple[weakref.ref[PipelineOptions], _Views]] = {}
"""Views by the identity of the options, which need not have a hash; no longer than these live."""


def remember(options: PipelineOptions) -> None:
    """Keep the views of a pipeline's options until :func:`forget`, or until the options are freed.

    All views share the values of the options, so a view that is kept has those that are set later.
    """
    if _views_of(options) is None:
        identity = id(options)
        reference = weakref.ref(options, lambda _: _known.pop(identity, None))
        _known[identity] = reference, {}


def forget(options: PipelineOptions) -> None:
    """Keep no views any longer."""
    _known.pop(id(options), None)


def remembering(view_as: _View) -> _View:
    """A ``view_as`` that hands out the views that are kept, and calls the given one for all others.

    Views of users' classes are never kept.

    Args:
        view_as: Beam's function.
    """

    def view(options: PipelineOptions, cls: Any) -> Any:
        views = _views_of(options)
        if views is None or not _is_of_beam(cls):
            return view_as(options, cls)
        if cls not in views:
            views[cls] = view_as(options, cls)
        return views[cls]

    return view


def _views_of(options: PipelineOptions) -> _Views | None:
    reference, views = _known.get(id(options), (None, None))
    return views if reference is not None and reference() is options else None


def _is_of_beam(cls: Any) -> bool:
    """Return whether it is a class of some of Beam's options; the base has those of all classes."""
    return cls.__module__ == pipeline_options.__name__ and cls is not PipelineOptions


def known_values(options: PipelineOptions) -> dict[str, Any]:
    """Return the values of all options that have been viewed as any class, or set by a program."""
    return dict(options._all_options)
