"""Detection of misspelt options, which Beam would ignore."""

import argparse
import functools
import gc
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, NoReturn, cast

from apache_beam.options.pipeline_options import (
    PipelineOptions,
    SetupOptions,
    SparkRunnerOptions,
    StandardOptions,
)

from sparkbeam.common.arguments import listed, nearest, shown, squeezed
from sparkbeam.common.display_text import shortened
from sparkbeam.options.other_runners import OF_JAVA, are_tolerated

_CLOSE = 0.83
"""Similarity by difflib from which a name is taken for one of ours: a letter or two are wrong."""

_CLOSER = 0.87
"""The same for Beam's, which have more words in common with those of programs."""

_LEAST_LETTERS = 6
"""The fewest letters of an abbreviation."""

_LEAST_PART = 0.6
"""The smallest part of one of Beam's names that is an abbreviation."""

_PLURAL = 9
"""The most letters of one of Beam's names whose plural is another name."""

_OUR_PREFIX = "spark_"
_COUNTERPARTS = {"spark_master_url": "use --spark_master"}

_SYNONYMS = {
    "available_now": "trigger=available-now",
    "conf": "spark_conf",
    "cp_location": "checkpoint_location",
    "explain": "spark_explain",
    "master": "spark_master",
    "metrics_interval": "metrics_push_period",
    "metrics_push_interval": "metrics_push_period",
    "packages": "spark_packages",
    "py_files": "spark_py_files",
    "remote": "spark_connect",
    "streams": "streaming",
    "trigger_available_now": "trigger=available-now",
    "triggering": "trigger",
}
"""Our options by other names, such as those of Spark's own commands."""

_AFTER_PREFIX = {
    "app_name": "use --job_name",
    "home": "set the environment variable SPARK_HOME",
    "jars": "use --spark_conf=spark.jars=…",
    "name": "use --job_name",
    "remote": "use --spark_connect",
    "ui": "use --spark_page",
    "url": "use --spark_master",
}
"""Remedies for names that have our prefix and stand for something else."""

_STEMS = {
    "checkpoint": "checkpoint_location",
    "checkpoints": "checkpoint_location",
    "checkpointing": "checkpoint_location",
    "chkpoint": "checkpoint_location",
    "chkpt": "checkpoint_location",
    "ckpt": "checkpoint_location",
    "trigger": "trigger",
    "triggers": "trigger",
    "shard": "shards",
    "shards": "shards",
    "streaming": "streaming",
}
"""Options by a word that stands for one of them, as in ``checkpoint_dir``; the first one wins."""

_COMMON_STEMS = {"column": "columns", "columns": "columns", "columnar": "columns"}
"""The same for words that programs use too, as in ``key_columns``."""

_NEGATIONS = frozenset(["disable", "disabled", "no", "non", "not", "off", "without"])
_SWITCHING = _NEGATIONS | {"enable", "enabled", "is", "mode", "on", "run", "use", "with"}
"""Words around a common word that make it the name of one of our options."""

_VALUES_FOR_OFF = {"columns": "off", "spark_progress": "off"}

_FLAG = re.compile(r"(?s)([-\u2010-\u2015\u2212]+)([^=]+)(=.*)?")
_ASSIGNED = re.compile(r"(?s)(\w[\w.-]*)=.*")
_NEGATIVE = re.compile(r"no[-_]?(.+)")
_SWITCHES = frozenset(["spark_explain"])
"""Our options without a value."""

_APPEND = type(argparse.ArgumentParser().add_argument("--any", action="append"))
"""Class of the options that may be given several times."""

_OFF = ("false", "no", "off", "0")


class _Known(NamedTuple):
    """Names that exist: of flags on a command line, or of values in a program."""

    ours: frozenset[str]
    beams: frozenset[str]

    @property
    def all(self) -> frozenset[str]:
        return self.ours | self.beams


def misspelt(options: PipelineOptions) -> str | None:
    """Return the problem with the names of options, or None.

    A name is an error that resembles one of ours or of Beam's, shares a distinctive word with one
    of ours or has our prefix, unless the program declares it: in a subclass of
    ``PipelineOptions``, or for a parser of argparse whose result it holds.
    """
    own = cast(Any, type(options))
    flags_of_spark = _flags(cast(Any, SparkRunnerOptions))
    # Beam's views share these words; unknown options are not available otherwise.
    given: Iterable[Any] = getattr(options, "_flags", None) or sys.argv[1:]
    words = [word if isinstance(word, str) else "" for word in given]
    words = words[: words.index("--")] if "--" in words else words
    flags = [found[2] for word in words if (found := _FLAG.fullmatch(word))]
    values = [*getattr(options, "_all_options", ())]
    for name in (*flags, *values):
        is_sparks = name in flags_of_spark and not are_tolerated()
        if is_sparks and (name in flags or _is_set(options, name)):
            return (
                f"--{name} is an option of Beam's own runner for Spark, which starts a Java job "
                f"server: {_COUNTERPARTS.get(name, 'leave it out')} with sparkbeam.SparkRunner."
            )
    kinds = (
        (flags, _Known(_flags(own), _of_beam(_flags)), is_declared),
        (values, _Known(_names(own), _of_beam(_names)), _is_declared_value),
    )
    for names, known, is_known in kinds:
        for name in names:
            remedy = None if name in known.all else _remedy(name, known)
            if remedy is not None and not is_known(name) and not _is_of_program(name):
                return (
                    f"There is no option --{shortened(name, 60)}: {remedy}. If it is your own "
                    "option, declare it in a subclass of PipelineOptions."
                )
    return _malformed(words, own)


def _malformed(words: Sequence[str], own: Any) -> str | None:
    """Return the problem with an option of the right name that Beam would ignore."""
    ours = _flags(own)
    known = ours | _of_beam(_flags)
    for before, word in zip(["", *words], words, strict=False):
        flag, assigned = _FLAG.fullmatch(word), _ASSIGNED.fullmatch(word)
        if flag and flag[1] != "--" and flag[2] in known:
            return f"{shown(word)} is not an option: write --{flag[2]}, with two hyphens."
        if flag and flag[3] and flag[2] in ours and _is_switch(flag[2]):
            return f"--{flag[2]} has no value: leave out {shown(flag[3])}."
        last = _FLAG.fullmatch(before)
        if last and not last[3]:
            if word.startswith("=") and last[2] in ours:
                return f"--{last[2]} is followed by a space and '=': write --{last[2]}=…"
            if word.lower() in _OFF and last[2] in known and _is_switch(last[2]):
                return f"--{last[2]} has no value: leave it out instead of giving {shown(word)}."
        elif assigned and assigned[1].replace("-", "_") in ours:
            return f"{shown(word)} is not an option: write --{assigned[1].replace('-', '_')}=…"
        elif assigned and assigned[1].startswith("spark."):
            setting = f"{shortened(assigned[1], 60)}=…"  # The value may be a secret.
            return f"'{setting}' belongs to no option: write --spark_conf={setting}"
    return _repeated(words, own)


def _repeated(words: Sequence[str], own: Any) -> str | None:
    """Return the problem with an option of ours that is given twice, of which Beam uses the last.

    The values may be secrets.
    """
    actions = [each for each in _actions(own) if not isinstance(each, _APPEND)]
    once = {flag[2:] for action in actions for flag in action.option_strings} - _SWITCHES
    given: dict[str, str] = {}
    for word, after in pairwise([*words, ""]):
        flag = _FLAG.fullmatch(word)
        if flag and flag[2] in once:
            value = flag[3][1:] if flag[3] else "" if after.startswith("-") else after
            if given.setdefault(flag[2], value) != value:
                return f"--{flag[2]} is given twice, with different values: give it once."
    return None


@functools.lru_cache(1024)  # The names of Beam's own options come with each pipeline.
def _remedy(name: str, known: _Known) -> str | None:
    """Return the remedy for a name that stands for a known one; None for any other."""
    if squeezed(name) in OF_JAVA:
        return None
    negated = _NEGATIVE.fullmatch(name)
    off = nearest(negated[1], known.all, similarity=1) if negated else None
    if off is not None:
        return _turned_off(off)
    # Of any style.
    words = re.sub("(?<=[a-z])(?=[A-Z])|[-.]", "_", name).lower().split("_")
    close = nearest(name, known.ours, similarity=_CLOSE)
    if close is not None:
        return _use(close, words)
    if len(words) > 1 and f"{words[0]}_" == _OUR_PREFIX:
        return _remedy_after_prefix(words[1:], known)
    of_beam = _beams(name, known.beams)
    if of_beam is not None:
        if of_beam not in known.beams:
            return f"leave it out, or use --no_{of_beam} to turn it off"
        return f"use --{of_beam}"
    meant = _ours(name, words, known.ours)
    return None if meant is None else _use(meant, words)


def _remedy_after_prefix(words: Sequence[str], known: _Known) -> str:
    """Return the remedy for a name with our prefix, of which the other words are given."""
    rest = "_".join(words)
    name = _OUR_PREFIX + rest
    if nearest(name, _flags(cast(Any, SparkRunnerOptions)), similarity=_CLOSER):
        return "leave it out"
    if rest in _AFTER_PREFIX:
        return _AFTER_PREFIX[rest]
    ours = sorted(each for each in known.ours if each.startswith(_OUR_PREFIX))
    meant = (
        nearest(rest, known.all, similarity=1)
        or _ours(rest, words, known.ours)
        or next((each for each in ours if name.startswith(each)), None)
        or _abbreviated(name, ours, 0)
    )
    if meant is None:
        return f"use --spark_conf=spark.key=value for a setting of Spark, or one of {listed(ours)}"
    return _use(meant, words)


def _use(name: str, words: Sequence[str]) -> str:
    """Return the remedy with an option of ours for a name of some words."""
    is_negated = _NEGATIONS & {*words} and "of" not in words  # As in no_of_shards.
    return _turned_off(name) if is_negated else f"use --{name}"


def _turned_off(name: str) -> str:
    value = _VALUES_FOR_OFF.get(name)
    return f"leave --{name} out" if value is None else f"use --{name}={value}"


def _ours(name: str, words: Sequence[str], ours: frozenset[str]) -> str | None:
    """Return the option of ours that a name stands for."""
    return (
        _SYNONYMS.get("_".join(words))
        or _with_more_words(words, ours)
        or _by_stem(words)
        or _abbreviated(name, ours, 0)
    )


def _with_more_words(words: Sequence[str], ours: frozenset[str]) -> str | None:
    """Return the option of ours of which a name has all words but some in the middle or one."""
    if len(words) == 1:
        return None
    for each in sorted(ours):
        first, *others = each.split("_")
        rest = iter(others)
        if words == others or (words[0] == first and all(word in rest for word in words[1:])):
            return each
    return None


def _by_stem(words: Sequence[str]) -> str | None:
    found = [_STEMS[stem] for stem in _STEMS if stem in words]
    if not found and {*words} - _COMMON_STEMS.keys() <= _SWITCHING:
        found = [_COMMON_STEMS[word] for word in words if word in _COMMON_STEMS]
    return found[0] if found else None


def _beams(name: str, beams: frozenset[str]) -> str | None:
    """Return the option of Beam's that a name resembles, or its opposite that has only a no_."""
    opposites = {each for each in _of_beam(_names) if f"no_{each}" in beams}
    close = nearest(name, beams | opposites, similarity=_CLOSER)
    if close is None:
        return _abbreviated(
            name, _flags(cast(Any, StandardOptions)) | _flags(cast(Any, SetupOptions)), _LEAST_PART
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


def is_declared(name: str) -> bool:
    """Return whether any subclass of ``PipelineOptions`` declares the option of a command line."""
    return not _parsed(f"--{name}")[1]


def _is_declared_value(name: str) -> bool:
    """Return whether any subclass of ``PipelineOptions`` declares the option, by flag or name."""
    names, unknown = _parsed(f"--{name}")
    return name in names or not unknown


def _is_of_program(name: str) -> bool:
    """Return whether the program holds a result of argparse that has the option.

    Programs parse their own options with argparse and may pass the whole command line to Beam.
    """
    attribute = name.replace("-", "_")
    if attribute in _parsed()[0]:  # Beam's views hold results of argparse too.
        return False
    return any(
        type(each) is argparse.Namespace and attribute in vars(each) for each in gc.get_objects()
    )


def _is_switch(name: str) -> bool:
    """Return whether a declared option has no value."""
    return name in _SWITCHES or _parsed(f"--{name}", "x")[1] == ["x"]


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
    """Return the names of the values of a class of options."""
    return frozenset(kind([]).get_all_options(current_only=True))


@functools.cache
def _flags(kind: Any) -> frozenset[str]:
    """Return the names that the options of a class have on a command line."""
    flags = (flag for action in _actions(kind) for flag in action.option_strings)
    return frozenset(flag[2:] for flag in flags if flag.startswith("--") and flag != "--help")


@functools.cache
def _actions(kind: Any) -> Sequence[argparse.Action]:
    parsers: list[Any] = []
    kind([]).get_all_options(current_only=True, add_extra_args_fn=parsers.append)
    return tuple(parsers[0]._actions)


@functools.cache
def _of_beam(names: Callable[[Any], frozenset[str]]) -> frozenset[str]:
    """Return the names of the options that Beam declares: of flags or of values."""
    kinds: Iterable[Any] = PipelineOptions.__subclasses__()
    beams = [kind for kind in kinds if kind.__module__ == PipelineOptions.__module__]
    return frozenset[str]().union(*map(names, beams))
