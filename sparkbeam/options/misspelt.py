"""Detection of misspelt options, which Beam would ignore."""

import functools
import re
import sys
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn, cast

from apache_beam.options.pipeline_options import (
    PipelineOptions,
    SetupOptions,
    SparkRunnerOptions,
    StandardOptions,
)

from sparkbeam.common.arguments import listed, nearest, shown, squeezed
from sparkbeam.common.display_text import shortened
from sparkbeam.options.other_runners import are_tolerated

_CLOSE = 0.83
"""Similarity by difflib from which a name is taken for one of ours: a letter or two are wrong."""

_CLOSER = 0.87
"""The same for Beam's, which have more words in common with those of programs."""

_SIMILAR = 0.6
"""The same for names with our prefix."""

_LEAST_LETTERS = 6
"""The fewest letters of an abbreviation."""

_LEAST_PART = 0.6
"""The smallest part of one of Beam's names that is an abbreviation."""

_PLURAL = 9
"""The most letters of one of Beam's names whose plural is another name."""

_OUR_PREFIX = "spark_"
_COUNTERPARTS = {"spark_master_url": "use --spark_master"}
_SYNONYMS = {"master": "spark_master", "py_files": "spark_py_files"}
"""Our options by their names in Spark's own commands."""

_STEMS = {"checkpoint": "checkpoint_location", "trigger": "trigger", "shards": "shards"}
"""Our options by the first one of two words, as in ``checkpoint_dir``."""

_FLAG = re.compile(r"(?s)([-\u2010-\u2015\u2212]+)([^=]+)(=.*)?")
_ASSIGNED = re.compile(r"(?s)(\w[\w-]*)=.*")
_NEGATIVE = re.compile(r"no[-_]?(.+)")
_OFF = ("false", "no", "off", "0")


def misspelt(options: PipelineOptions) -> str | None:
    """Return the problem with the names of options, or None.

    A name that resembles one of ours or of Beam's, or has our prefix, is an error, unless the
    program declares it in a subclass of ``PipelineOptions``.

    Args:
        options: a view of the runner's options.
    """
    own = _names(cast(Any, type(options)))
    others = _names(cast(Any, SparkRunnerOptions))
    words = _words(options)
    flags = [found[2] for word in words if (found := _FLAG.fullmatch(word))]
    given = (*flags, *getattr(options, "_all_options", ()))
    for name in given:
        if name in others and not are_tolerated() and (name in flags or _is_set(options, name)):
            return (
                f"--{name} is an option of Beam's own runner for Spark, which starts a Java job "
                f"server: {_COUNTERPARTS.get(name, 'leave it out')} with sparkbeam.SparkRunner."
            )
    for name in given:
        remedy = None if name in own | _of_beam() else _remedy(name, own)
        if remedy is not None and not is_declared(name):
            return (
                f"There is no option --{shortened(name, 60)}: {remedy}. If it is your own option, "
                "declare it in a subclass of PipelineOptions."
            )
    return _malformed(words, own)


def _words(options: PipelineOptions) -> list[str]:
    """Return the words of the command line that may be options."""
    # Beam's views share these; unknown options are not available otherwise.
    flags: Iterable[Any] | None = getattr(options, "_flags", None)
    words = [word if isinstance(word, str) else "" for word in flags or sys.argv[1:]]
    return words[: words.index("--")] if "--" in words else words


def _malformed(words: Sequence[str], own: frozenset[str]) -> str | None:
    """Return the problem with an option of the right name that Beam would ignore."""
    known = own | _of_beam()
    for before, word in zip(["", *words], words, strict=False):
        flag, assigned = _FLAG.fullmatch(word), _ASSIGNED.fullmatch(word)
        if flag and flag[1] != "--" and flag[2] in known:
            return f"{shown(word)} is not an option: write --{flag[2]}, with two hyphens."
        last = _FLAG.fullmatch(before)
        if last and not last[3]:
            if word.lower() in _OFF and last[2] in known and _is_switch(last[2]):
                return f"--{last[2]} has no value: leave it out instead of giving {shown(word)}."
        elif assigned and assigned[1].replace("-", "_") in own:
            return f"{shown(word)} is not an option: write --{assigned[1].replace('-', '_')}=…"
    return None


@functools.lru_cache(1024)  # The names of Beam's own options come with each pipeline.
def _remedy(name: str, own: frozenset[str]) -> str | None:
    """Return the remedy for a name that resembles a known one; None for any other."""
    negated = _NEGATIVE.fullmatch(name)
    off = nearest(negated[1], own | _of_beam(), similarity=1) if negated else None
    if off is not None:
        return f"leave --{off} out"
    meant = _ours(name, own) or _beams(name)
    if meant is not None:
        return f"use --{meant}"
    return f"use one of {listed(sorted(own))}" if _is_prefixed(name) else None


def _ours(name: str, own: frozenset[str]) -> str | None:
    """Return the option of ours that a name resembles."""
    close = nearest(name, own, similarity=_SIMILAR if _is_prefixed(name) else _CLOSE)
    words = re.sub("(?<=[a-z])(?=[A-Z])|-", "_", name).lower().split("_")
    stem = _STEMS.get(words[0]) if len(words) <= 2 else None
    return close or _SYNONYMS.get("_".join(words)) or stem or _abbreviated(name, own, 0)


def _beams(name: str) -> str | None:
    """Return the option of Beam's that a name resembles."""
    close = nearest(name, _of_beam(), similarity=_CLOSER)
    if close is None:
        return _abbreviated(
            name, _names(cast(Any, StandardOptions)) | _names(cast(Any, SetupOptions)), _LEAST_PART
        )
    shorter, longer = sorted((name.replace("-", "_"), close), key=len)
    more_words = longer.startswith(f"{shorter}_") or longer.endswith(f"_{shorter}")
    is_plural = longer == f"{shorter}s" and len(close) < _PLURAL
    return None if more_words or is_plural else close


def _abbreviated(name: str, known: Iterable[str], part: float) -> str | None:
    letters = squeezed(name)
    whole = [each for each in sorted(known) if squeezed(each).startswith(letters)]
    found = min(whole, key=len, default=None)
    if found is None or len(letters) < max(_LEAST_LETTERS, part * len(squeezed(found))):
        return None
    return found


def _is_prefixed(name: str) -> bool:
    return name.replace("-", "_").startswith(_OUR_PREFIX)


def is_declared(name: str) -> bool:
    """Return whether any subclass of ``PipelineOptions`` declares the option, by flag or name."""
    names, unknown = _parsed(f"--{name}")
    return name in names or not unknown


def _is_switch(name: str) -> bool:
    """Return whether a declared option has no value."""
    return _parsed(f"--{name}", "x")[1] == ["x"]


def _parsed(*words: str) -> tuple[Iterable[str], Sequence[str]]:
    """Return the names of all declared options, and the words that belong to none of them."""
    parsers: list[Any] = []
    names = PipelineOptions([]).get_all_options(add_extra_args_fn=parsers.append)

    def complain(message: str) -> NoReturn:
        raise ValueError(message)

    parsers[0].error = complain
    try:
        return names, parsers[0].parse_known_args(words)[1]
    except ValueError:  # A value is missing or wrong, so the option is declared.
        return names, ()


def _is_set(options: PipelineOptions, name: str) -> bool:
    """Return whether an option of Beam's Spark runner differs from its default."""
    view = options.view_as(SparkRunnerOptions)
    return name in view.get_all_options(drop_default=True, current_only=True)


@functools.cache
def _names(kind: Any) -> frozenset[str]:
    return frozenset(kind([]).get_all_options(current_only=True))


@functools.cache
def _of_beam() -> frozenset[str]:
    """Return the names of the options that Beam declares."""
    kinds: Iterable[Any] = PipelineOptions.__subclasses__()
    beams = [kind for kind in kinds if kind.__module__ == PipelineOptions.__module__]
    return frozenset[str]().union(*map(_names, beams))
