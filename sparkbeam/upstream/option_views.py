"""Views of pipeline options that Beam need not parse again, and parsers that are made with less.

Beam asks for a view of the options a hundred times while it builds a small pipeline, and each time
makes a parser of arguments and parses the command line. That is a fifth of the pipeline's time.
"""

import argparse
import functools
import logging
import sys
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

from apache_beam.options.pipeline_options import PipelineOptions

_MOST = 16
_NEVER_SHARED = type(None), bool, int, float, str

_View = Callable[[PipelineOptions, Any], Any]

_Parsed = tuple[dict[str, Any], dict[str, Any]]


def remembering_views(view_as: _View) -> _View:
    """A ``view_as`` that parses once what is seen in the same arguments by the same class.

    Lists and dictionaries of plain values are each view's own. Where an option's value can be
    changed in place in another way, or the class makes itself in its own way, it calls the given
    one each time.

    Args:
        view_as: Beam's.
    """
    # A program may make the same class again and again, and Beam looks at all that there are.
    classes: WeakKeyDictionary[type, dict[tuple[Any, ...], _Parsed]] = WeakKeyDictionary()

    def view(options: PipelineOptions, cls: Any) -> Any:
        if getattr(cls, "__init__", None) is not PipelineOptions.__init__:
            return view_as(options, cls)
        flags: Any = options._flags
        seen = tuple(sys.argv[1:] if flags is None else flags)
        known = classes.setdefault(cls, {})
        parsed = known.get(seen)
        if parsed is None:
            made = view_as(options, cls)
            values = vars(made._visible_options)
            names = {*made._visible_option_list()}
            if names == values.keys() and all(map(_can_be_copied, values.values())):
                if len(known) >= _MOST:
                    known.clear()
                known[seen] = _parted(values)
            return made
        logging.basicConfig()  # As Beam does whenever it makes options.
        made = cls.__new__(cls)
        made._flags = flags
        shared, own = parsed
        made._visible_options = argparse.Namespace()
        values = vars(made._visible_options)
        values.update(shared)
        values.update({name: value.copy() for name, value in own.items()})
        if not values.keys() <= options._all_options.keys():
            for name in sorted(values):
                options._all_options.setdefault(name, values[name])
        made._all_options = options._all_options
        return made

    return view


def _can_be_copied(value: Any) -> bool:
    if type(value) is dict:
        return all(type(part) in _NEVER_SHARED for pair in value.items() for part in pair)
    if type(value) is list:
        return all(type(part) in _NEVER_SHARED for part in value)
    return type(value) in _NEVER_SHARED


def _parted(values: dict[str, Any]) -> _Parsed:
    """The values that all views may have, and copies of those of which each has its own."""
    own = {name: value for name, value in values.items() if type(value) not in _NEVER_SHARED}
    shared = {name: value for name, value in values.items() if name not in own}
    return shared, {name: value.copy() for name, value in own.items()}


def telling_names(tell: Callable[[Any], list[str]]) -> Callable[[Any], list[str]]:
    """A function that tells the names of a view's options, and looks at no methods for that.

    Args:
        tell: Beam's, which does.
    """

    @functools.wraps(tell)
    def told(options: Any) -> list[str]:
        shown = options._visible_options
        if type(shown) is not argparse.Namespace:
            return tell(options)
        return sorted(name for name in vars(shown) if name[0] != "_")

    return told


def known_values(options: PipelineOptions) -> dict[str, Any]:
    """All values of options that have been viewed as any class, or given in a program."""
    return dict(options._all_options)


def checking_with_one_formatter(add_argument: Callable[..., Any]) -> Callable[..., Any]:
    """An ``add_argument`` of a parser that makes no formatter of help for each argument.

    Python sees with one, which asks for the size of the terminal, whether the argument could be
    shown. Where a parser has a formatter of another class, that is made as it was.

    Args:
        add_argument: Python's.
    """
    formatter = argparse.HelpFormatter("")

    @functools.wraps(add_argument)
    def add(parser: Any, *arguments: Any, **keywords: Any) -> Any:
        if parser.formatter_class is not argparse.HelpFormatter:
            return add_argument(parser, *arguments, **keywords)
        parser._get_formatter = lambda: formatter
        try:
            return add_argument(parser, *arguments, **keywords)
        finally:
            del parser._get_formatter

    return add
