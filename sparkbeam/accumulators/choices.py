"""CombineFns that return one of their values: the few possible results among many, in columns.

The CombineFn takes in only these, with the same result as for all values.
"""

from abc import ABC, abstractmethod
from typing import Any, Literal

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.transforms.combiners import LatestCombineFn

from sparkbeam.columns.python_types import BYTES, STR, TIMESTAMP, RecordShape, Shape
from sparkbeam.columns.vectors import Positions
from sparkbeam.upstream.beam import function_of_combine, top_of_one


class ArgExtreme(ABC):
    """Way to choose one of many values.

    Attributes:
        name: a name for people.
    """

    name: str

    @abstractmethod
    def is_for(self, shape: Shape) -> bool:
        """Return whether it supports values of a shape."""

    @abstractmethod
    def chosen(self, places: Positions, values: pa.Array) -> tuple[Positions, pa.Array]:
        """Return one value for each group, which the CombineFn gives for all of them.

        Args:
            places: the group of each value.
            values: of a shape that this is for, none of them null, in the order in which the
                CombineFn would take them in.

        Returns:
            The groups, each once, and the value of each.
        """


class _Extreme(ArgExtreme):
    """The least or the greatest text, in Arrow's order of bytes: that of code points, too."""

    def __init__(self, name: Literal["min", "max"]) -> None:
        self.name = name

    def is_for(self, shape: Shape) -> bool:
        return shape in (STR, BYTES)

    def chosen(self, places: Positions, values: pa.Array) -> tuple[Positions, pa.Array]:
        if pa.types.is_dictionary(values.type):
            values = values.dictionary_decode()
        groups = pa.table({"place": places, "value": values}).group_by("place", use_threads=False)
        found = groups.aggregate([("value", self.name)]).combine_chunks()
        values = found[f"value_{self.name}"].combine_chunks()
        return found["place"].to_numpy(), values


class _Latest(ArgExtreme):
    """The pair of value and timestamp with the latest of these, and of equal ones the last."""

    name = "the latest"

    def is_for(self, shape: Shape) -> bool:
        if not isinstance(shape, RecordShape) or shape.type is not tuple or len(shape.fields) != 2:
            return False
        return shape.fields[1] == TIMESTAMP

    def chosen(self, places: Positions, values: pa.Array) -> tuple[Positions, pa.Array]:
        times = values.field(1).cast(pa.int64()).to_numpy()
        order = np.lexsort((times, places))
        of_runs = places[order]
        lasts = order[np.flatnonzero(np.append(of_runs[1:] != of_runs[:-1], [True]))]
        return places[lasts], values.take(pa.array(lasts))


_CHOICES: dict[str, ArgExtreme] = {"smallest": _Extreme("min"), "largest": _Extreme("max")}
_OF_FUNCTIONS: tuple[tuple[Any, ArgExtreme], ...] = (
    (min, _CHOICES["smallest"]),
    (max, _CHOICES["largest"]),
)
_LATEST = _Latest()


def choice_of(combine_fn: beam.CombineFn) -> ArgExtreme | None:
    """Return the choice that a CombineFn makes; None if it makes none, or in another way."""
    if type(combine_fn) is LatestCombineFn:
        return _LATEST
    function = function_of_combine(combine_fn)
    if function is not None:
        return next((choice for known, choice in _OF_FUNCTIONS if function is known), None)
    return _CHOICES.get(top_of_one(combine_fn) or "")
