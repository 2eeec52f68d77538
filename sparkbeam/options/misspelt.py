"""Detection of misspelt options, which Beam would ignore."""

import functools
import sys
from collections.abc import Iterable, Iterator
from typing import Any, NoReturn, cast

from apache_beam.options.pipeline_options import PipelineOptions, SparkRunnerOptions

from sparkbeam.common.arguments import listed, nearest
from sparkbeam.common.display_text import shortened
from sparkbeam.options.other_runners import are_tolerated

_CLOSE = 0.83
"""Similarity by difflib from which a name is taken for one of ours: a letter or two are wrong."""

_SIMILAR = 0.6
"""The same for names with our prefix."""

_OUR_PREFIX = "spark_"
_COUNTERPARTS = {"spark_master_url": "use --spark_master"}


def misspelt(options: PipelineOptions) -> str | None:
    """Return the problem with the names of options, or None.

    A name that is close to one of ours or has our prefix is an error, unless the program declares
    it in a subclass of ``PipelineOptions``.

    Args:
        options: a view of the runner's options.
    """
    own = _names(cast(Any, type(options)))
    others = _names(cast(Any, SparkRunnerOptions))
    flags = list(_flags(options))
    given = (*flags, *getattr(options, "_all_options", ()))
    doubtful = [name for name in given if name not in own and _resembles(name, own)]
    for name in doubtful:
        if name in others and not are_tolerated() and (name in flags or _is_set(options, name)):
            return (
                f"--{name} is an option of Beam's own runner for Spark, which starts a Java job "
                f"server: {_COUNTERPARTS.get(name, 'leave it out')} with sparkbeam.SparkRunner."
            )
    for name in doubtful:
        if not is_declared(name):
            ours = _nearest(name, own)
            remedy = f"use --{ours}" if ours else f"there are {listed(sorted(own))}"
            return (
                f"There is no option --{shortened(name, 60)}: {remedy}. If it is one of your own, "
                "declare it in a subclass of PipelineOptions."
            )
    return None


def _flags(options: PipelineOptions) -> Iterator[str]:
    """Yield the names of all options on the command line."""
    # Beam's views share these; unknown options are not available otherwise.
    flags: Iterable[Any] | None = getattr(options, "_flags", None)
    for flag in sys.argv[1:] if flags is None else flags:
        if flag == "--":
            break
        if isinstance(flag, str) and flag.startswith("-"):
            yield flag.lstrip("-").partition("=")[0]


def _resembles(name: str, own: frozenset[str]) -> bool:
    return _is_prefixed(name) or _nearest(name, own) is not None


@functools.lru_cache(1024)  # The names of Beam's own options come with each pipeline.
def _nearest(name: str, own: frozenset[str]) -> str | None:
    cutoff = _SIMILAR if _is_prefixed(name) else _CLOSE
    return nearest(name, own, similarity=cutoff)


def _is_prefixed(name: str) -> bool:
    return name.replace("-", "_").startswith(_OUR_PREFIX)


def is_declared(name: str) -> bool:
    """Return whether any subclass of ``PipelineOptions`` declares the option, by flag or name."""
    parsers: list[Any] = []
    if name in PipelineOptions([]).get_all_options(add_extra_args_fn=parsers.append):
        return True

    def complain(message: str) -> NoReturn:
        raise ValueError(message)

    parsers[0].error = complain
    try:
        _, unknown = parsers[0].parse_known_args([f"--{name}"])
    except ValueError:  # It lacks a value, so it is declared.
        return True
    return not unknown


def _is_set(options: PipelineOptions, name: str) -> bool:
    """Return whether an option of Beam's Spark runner differs from its default."""
    view = options.view_as(SparkRunnerOptions)
    return name in view.get_all_options(drop_default=True, current_only=True)


@functools.cache
def _names(kind: Any) -> frozenset[str]:
    return frozenset(kind([]).get_all_options(current_only=True))
