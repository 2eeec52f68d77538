"""What a trial of the fuzzer counts and finds, and trials of single functions."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import numpy as np
from in_python import ELEMENT, Element, called, column, results, written
from oddvalues import Mixed, elements_of, values_for
from physical import FORMS
from writing import Writer, a_function, made

from sparkbeam.columns import Compiled, FallBack, Refused, ResultKind, compile_function

_MOST = 40
_ATTEMPTS = 5
_OPERATIONS = 8


@dataclass
class Figures:
    """What has been tried.

    Attributes:
        functions: functions written.
        compiled: those that have a form over columns.
        blocks: blocks that a compiled function has been compared over.
        refused: blocks that it has refused.
        pipelines: pipelines run with columns and without.
        evaluated: blocks that steps of those have taken as columns.
        failed: pipelines that fail, with columns and without.
        combines: pipelines with a combine that have been compared.
        other_runners: pipelines that Beam's own runner has run, too.
    """

    functions: int = 0
    compiled: int = 0
    blocks: int = 0
    refused: int = 0
    pipelines: int = 0
    evaluated: int = 0
    failed: int = 0
    combines: int = 0
    other_runners: int = 0


def try_function(random: Random, figures: Figures) -> str | None:
    """Compares a random function over random blocks with calling it; what differs, if it does."""
    elements = elements_of(values_for(random), random.randint(0, _MOST))
    if random.random() < 0.5:
        source, form = a_function(random.randint)
    else:
        source, form = of_operations(random, elements), ResultKind.MAP
    function = made(source)
    compiled = compile_function(function, ELEMENT, form=form)
    figures.functions += 1
    if not isinstance(compiled, Compiled):
        return None
    figures.compiled += 1
    for _ in range(_ATTEMPTS):
        before, step = random.choice([0, 0, 0, 1, 8, 9]), random.choice([1, 1, 2, 3])
        seed, one = random.getrandbits(32), random.choice([None, *FORMS])
        trial = _FunctionTrial(source, form, function, compiled, before, step)
        found = trial.difference(elements, Mixed(seed, one), figures)
        if found is not None:
            return trial.shortest(elements, seed)
    return None


def of_operations(random: Random, elements: list[Element]) -> str:
    """A function that does several things, none of which raises an exception over elements."""
    writer = Writer(random.randint)
    found: list[str] = []
    for _ in range(_OPERATIONS):
        some = writer.operation()
        function = made(f"def function(x):\n    return {some}")
        if isinstance(compile_function(function, ELEMENT), Refused):
            continue
        if not isinstance(called(function, elements, ResultKind.MAP), Exception):
            found.append(some)
    return f"def function(x):\n    return ({', '.join([*found, 'x.a'])})"


@dataclass(frozen=True)
class _FunctionTrial:
    """A function over blocks.

    Attributes:
        source: its text.
        form: what its results mean.
        function: the function.
        compiled: its form over columns.
        before: the block is a slice, with so many elements before it.
        step: each so many elements of it are evaluated.
    """

    source: str
    form: ResultKind
    function: Callable[..., Any]
    compiled: Compiled
    before: int
    step: int

    def difference(
        self, elements: list[Element], make: Mixed, figures: Figures | None = None
    ) -> tuple[Any, Any] | None:
        """What the function gives over columns and what when it is called, if that differs."""
        figures = figures or Figures()
        every = [*elements[: self.before], *elements]
        block = column(every, ELEMENT, make).slice(len(every) - len(elements))
        rows = None if self.step == 1 else np.arange(0, len(elements), self.step)
        meant = elements[:: self.step]
        try:
            output = self.compiled.evaluate(block, rows=rows)
            output.values.validate(full=True)
        except FallBack:
            figures.refused += 1
            return None
        except Exception as error:
            return f"{type(error).__name__}: {error}", None
        figures.blocks += 1
        expected = called(self.function, meant, self.form)
        found = results(self.compiled, output, len(meant))
        if rows is not None and output.rows is not None:
            found = [(int(at) // self.step, value) for at, value in found]
        if isinstance(expected, Exception):
            return written(found), expected
        pair = written(found), written(expected)
        return None if pair[0] == pair[1] else pair

    def shortest(self, elements: list[Element], seed: int) -> str:
        """A reproduction with as few elements, and forms, as still differ."""
        makes: list[tuple[str, Callable[[], Mixed]]] = [
            (f"each array is {name!r}", lambda name=name: Mixed(0, name))  # type: ignore[misc]
            for name in ("plain", *FORMS)
        ]
        makes.append((f"forms of the seed {seed}", lambda: Mixed(seed)))
        simpler = [replace(self, before=0, step=1), replace(self, step=1), self]
        trial, words, make = next(
            (one, words, make)
            for one in simpler
            for words, make in makes
            if one.difference(elements, make()) is not None
        )
        elements = shortened(elements, lambda some: trial.difference(some, make()) is not None)
        over, python = trial.difference(elements, make()) or (None, None)
        return (
            f"{self.source}\n\nform: {self.form}, {words}, {trial.before} elements before, "
            f"each {trial.step}. element\nelements: {elements!r}\n"
            f"over columns: {over!r}\nin Python:    {python!r}"
        )


def shortened(values: list[Any], differs: Callable[[list[Any]], bool]) -> list[Any]:
    """Some of a list of values that still differ, as few as leaving some out comes to."""
    size = len(values) // 2
    while size:
        at = 0
        while at < len(values):
            fewer = values[:at] + values[at + size :]
            if differs(fewer):
                values = fewer
            else:
                at += size
        size //= 2
    return values
