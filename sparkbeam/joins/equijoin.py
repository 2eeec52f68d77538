"""Equijoins of two PCollections; in batch they are Spark's adaptive joins."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import apache_beam as beam
from apache_beam.transforms.core import Windowing
from apache_beam.transforms.trigger import DefaultTrigger
from apache_beam.transforms.window import TimestampCombiner
from apache_beam.typehints import typehints

from sparkbeam.common.arguments import function, listed, one_of, shown
from sparkbeam.errors import ConfigurationError
from sparkbeam.plan.join_payload import (
    AUTO,
    HOWS,
    JOIN_URN,
    LEFT,
    NEVER,
    RIGHT,
    JoinSpec,
    may_be_broadcast,
)
from sparkbeam.plan.same_windows import in_same_windows

_On = str | Callable[[Any], Any]

_EITHER = typehints.Union


class Join(beam.PTransform[Any, Any]):
    """Joins two PCollections by equal keys.

    ::

        {"sales": sales, "items": items} | Join(
            on="item_id", how="left", result=lambda key, sale, item: (sale, item)
        )

    The input is a dict of two PCollections with names of your choice, the left side first, or a
    tuple, whose sides are called ``left`` and ``right``. Keys are equal if Beam's deterministic
    coder of their type gives equal encodings: 1 and 1.0 are two keys if types are not declared, and
    None is an ordinary key. As with CoGroupByKey, elements are joined within a window, and the
    results have the timestamp of the window's end.

    In batch on sparkbeam, Spark joins the two sides adaptively: it broadcasts a side that turns out
    to be small, and splits skewed keys among several tasks. No group is ever in memory as a whole.
    In streaming, on other runners, and with a custom trigger, a timestamp combiner or merging
    windows, the join is a GroupByKey, and all elements of a key are in memory together; in
    streaming the elements of one pane are joined with each other.

    Args:
        on: the key of an element: the name of an attribute or of a dict's field, a function of an
            element, or a dict with one of these for each side.
        how: ``inner``, pairs of matching elements; ``left``, ``right`` and ``outer``, also the
            unmatched elements of that side, or of both; ``semi``, each left element with a match,
            once; ``anti``, the left elements without a match.
        broadcast: the name of the side to broadcast to all tasks of the other one; ``auto`` leaves
            the choice to Spark; ``never``. Only used by the adaptive join in batch. A side whose
            unmatched elements are output cannot be broadcast.
        result: makes a result of the key and an element of each side; a missing element is None,
            and so is the right side for ``semi`` and ``anti``. The default is ``(key, (left,
            right))``, for ``semi`` and ``anti`` the left element.

    Raises:
        ConfigurationError: an argument or an input is invalid.
    """

    def __init__(
        self,
        on: _On | Mapping[str, _On],
        how: str = "inner",
        broadcast: str = AUTO,
        result: Callable[[Any, Any, Any], Any] | None = None,
    ) -> None:
        super().__init__()
        self._on: Any
        if isinstance(on, Mapping):
            self._on = {name: _checked_key(f"on[{shown(name)}]", on[name]) for name in on}
        else:
            self._on = _checked_key("on", on)
        self._how = one_of("how", how, HOWS)
        if not isinstance(broadcast, str):
            raise ConfigurationError(
                f"broadcast={shown(broadcast)} must be a string: give '{AUTO}', '{NEVER}' or the "
                "name of a side."
            )
        self._broadcast = broadcast
        remedy = "give a function of the key and an element of each side, or None"
        self._result = None if result is None else function("result", result, remedy)

    def expand(self, pcoll: Any) -> Any:
        sides = _inputs(pcoll, self.label)
        names = tuple(sides)
        spec = JoinSpec(self._how, self._side_to_broadcast(names))
        if not in_same_windows(*sides.values()):
            raise ConfigurationError(
                f"Join '{self.label}': {names[0]} and {names[1]} are in different windows: give "
                "both the same beam.WindowInto(…)."
            )
        keyed = self._keyed(sides)
        # Spark joins if each window of a key is joined once, at its end.
        is_once = all(_fires_once_at_the_end(side.windowing) for side in keyed)
        match = _SparkJoin(spec) if is_once else _GroupedJoin(spec)
        joined = dict(zip((LEFT, RIGHT), keyed, strict=True)) | "Match" >> match
        return joined | self._result_step(spec)

    def _keyed(self, sides: Mapping[str, Any]) -> list[Any]:
        """Return each side as pairs of a key, of a common type, and an element."""
        on = self._on if isinstance(self._on, dict) else dict.fromkeys(sides, self._on)
        if on.keys() != sides.keys():
            raise ConfigurationError(
                f"on has keys for {listed(on)}, but the inputs are {listed(sides)}: give the key "
                "of each input."
            )
        keys = {name: beam.Map(_key_of(on[name])) for name in sides}
        types = [
            keys[name].get_type_hints().simple_output_type(name)
            or keys[name].infer_output_type(side.element_type)
            for name, side in sides.items()
        ]
        key_type = _EITHER[tuple(types)]
        return [
            side
            | f"Key {name}"
            >> beam.Map(_with_key(_key_of(on[name]))).with_output_types(
                beam.typehints.Tuple[key_type, side.element_type]
            )
            for name, side in sides.items()
        ]

    def _side_to_broadcast(self, names: tuple[str, ...]) -> str:
        if self._broadcast in (AUTO, NEVER) and self._broadcast not in names:
            return self._broadcast
        one_of("broadcast", self._broadcast, (AUTO, NEVER, *names))
        side = (LEFT, RIGHT)[names.index(self._broadcast)]
        if not may_be_broadcast(self._how, side):
            others = [
                name
                for name, end in zip(names, (LEFT, RIGHT), strict=True)
                if may_be_broadcast(self._how, end)
            ]
            remedy = f"broadcast '{others[0]}', or let" if others else "let"
            raise ConfigurationError(
                f"broadcast='{self._broadcast}' is not supported with how='{self._how}', which "
                f"needs all of that side in one place: {remedy} Spark choose with "
                f"broadcast='{AUTO}'."
            )
        return side

    def _result_step(self, spec: JoinSpec) -> Any:
        if self._result is not None:
            return "Result" >> beam.MapTuple(self._result)
        if spec.keeps_right:
            return "Result" >> beam.MapTuple(lambda key, left, right: (key, (left, right)))
        return "Result" >> beam.MapTuple(lambda key, left, right: left)


class _SparkJoin(beam.PTransform[Any, Any]):
    """A join that Spark can execute; other runners execute its expansion."""

    def __init__(self, spec: JoinSpec) -> None:
        super().__init__()
        self._spec = spec

    def expand(self, sides: Any) -> Any:
        left, right = sides[LEFT], sides[RIGHT]
        key_type, left_type = left.element_type.tuple_types
        _, right_type = right.element_type.tuple_types
        value_type = _EITHER[left_type, right_type]
        tagged_type = beam.typehints.Tuple[key_type, beam.typehints.Tuple[bool, value_type]]
        tagged = [
            side | f"Tag {name}" >> _TagElements(name == RIGHT, tagged_type)
            for name, side in sides.items()
        ]
        how = self._spec.how
        lefts = typehints.Optional[left_type] if how in ("right", "outer") else left_type
        rights = typehints.Optional[right_type] if how != "inner" else right_type
        triple = beam.typehints.Tuple[key_type, lefts, rights]
        return (
            tagged
            | beam.Flatten()
            | beam.GroupByKey()
            | "Pair" >> beam.FlatMap(_paired(how)).with_output_types(triple)
        )

    def to_runner_api_parameter(self, context: Any) -> tuple[str, Any]:
        return JOIN_URN, self._spec.pack()


class _GroupedJoin(_SparkJoin):
    """A join that Spark cannot execute."""

    def to_runner_api_parameter(self, context: Any) -> tuple[str, Any]:
        return beam.PTransform.to_runner_api_parameter(self, context)


class _TagElements(beam.PTransform[Any, Any]):
    """Tagging of the elements of one side; the keys get a deterministic coder."""

    def __init__(self, is_right: bool, tagged_type: Any) -> None:
        super().__init__()
        self._is_right = is_right
        self._tagged_type = tagged_type

    def expand(self, pairs: Any) -> Any:
        is_right = self._is_right
        tag = beam.MapTuple(lambda key, value: (key, (is_right, value)))
        return pairs | "Tag" >> tag.with_output_types(self._tagged_type)

    def runner_api_requires_keyed_input(self) -> bool:
        return True


def _fires_once_at_the_end(windowing: Windowing) -> bool:
    return (
        not windowing.windowfn.is_merging()
        and isinstance(windowing.triggerfn, DefaultTrigger)
        and windowing.timestamp_combiner == TimestampCombiner.OUTPUT_AT_EOW
    )


def _paired(how: str) -> Callable[[Any], Iterator[tuple[Any, Any, Any]]]:
    """Return a function that joins the elements of a key."""

    def pairs(group: tuple[Any, Iterable[tuple[bool, Any]]]) -> Iterator[tuple[Any, Any, Any]]:
        key, tagged = group
        left: list[Any] = []
        right: list[Any] = []
        for is_right, value in tagged:
            (right if is_right else left).append(value)
        if how in ("semi", "anti"):
            if bool(right) is (how == "semi"):
                for one in left:
                    yield key, one, None
            return
        if how in ("right", "outer"):
            left = left or [None]
        if how in ("left", "outer"):
            right = right or [None]
        for one in left:
            for other in right:
                yield key, one, other

    return pairs


def _key_of(on: _On) -> Callable[[Any], Any]:
    """Return a function that extracts the key of an element."""
    if not isinstance(on, str):
        return on

    def named(element: Any) -> Any:
        return element[on] if isinstance(element, Mapping) else getattr(element, on)

    return named


def _with_key(key_of: Callable[[Any], Any]) -> Callable[[Any], tuple[Any, Any]]:
    return lambda element: (key_of(element), element)


def _checked_key(name: str, on: Any) -> Any:
    if isinstance(on, str) or callable(on):
        return on
    raise ConfigurationError(
        f"{name}={shown(on)} is not a key: give the name of an attribute, or a function of an "
        "element."
    )


def _inputs(pcoll: Any, label: str) -> dict[str, Any]:
    """Return the two sides by name."""
    sides: Any = pcoll
    if isinstance(pcoll, tuple | list) and len(pcoll) == 2:
        sides = dict(zip((LEFT, RIGHT), pcoll, strict=True))
    if (
        not isinstance(sides, dict)
        or len(sides) != 2
        or not all(isinstance(name, str) and name for name in sides)
        or not all(isinstance(side, beam.PCollection) for side in sides.values())
    ):
        raise ConfigurationError(
            f"Join '{label}' takes two PCollections: write {{'sales': sales, 'items': items}} | "
            "Join(…), with names of your choice, or (left, right) | Join(…)."
        )
    return sides
