"""Views of pipeline options that Beam need not parse again.

Beam asks for a view of the options a hundred times while it builds a small pipeline, and each time
makes a parser of arguments and parses the command line. That is a fifth of the pipeline's time.
"""

import argparse
import logging
import sys
from collections.abc import Callable
from typing import Any

from apache_beam.options.pipeline_options import PipelineOptions

_MOST = 64
_NEVER_SHARED = type(None), bool, int, float, str

_View = Callable[[PipelineOptions, Any], Any]


def remembering_views(view_as: _View) -> _View:
    """A ``view_as`` that parses once what is seen in the same arguments by the same class.

    Where an option's value can be changed in place, or the class makes itself in its own way, it
    calls the given one each time.

    Args:
        view_as: Beam's.
    """
    known: dict[Any, dict[str, Any]] = {}

    def view(options: PipelineOptions, cls: Any) -> Any:
        if getattr(cls, "__init__", None) is not PipelineOptions.__init__:
            return view_as(options, cls)
        flags: Any = options._flags
        seen = cls, tuple(sys.argv[1:] if flags is None else flags)
        parsed = known.get(seen)
        if parsed is None:
            made = view_as(options, cls)
            values = vars(made._visible_options)
            names = {*made._visible_option_list()}
            if names == values.keys() and all(
                type(value) in _NEVER_SHARED for value in values.values()
            ):
                if len(known) >= _MOST:
                    known.clear()
                known[seen] = {name: values[name] for name in sorted(names)}
            return made
        logging.basicConfig()  # As Beam does whenever it makes options.
        made = cls.__new__(cls)
        made._flags = flags
        made._visible_options = argparse.Namespace(**parsed)
        for name in parsed:
            options._all_options.setdefault(name, parsed[name])
        made._all_options = options._all_options
        return made

    return view
