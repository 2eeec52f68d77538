"""Kernels that call a builtin for each value, where Arrow and numpy have no equivalent."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from sparkbeam.columns.python_types import BOOL, FLOAT, INT, STR, Lists, Shape
from sparkbeam.columns.reasons import FallBack
from sparkbeam.columns.vectors import Value, Vector, bare

_MAKE: dict[Shape, Callable[[list[Any]], Any]] = {
    INT: lambda values: np.array(values, np.int64),
    FLOAT: lambda values: np.array(values, np.float64),
    BOOL: lambda values: np.array(values, np.bool_),
    STR: lambda values: pa.array(values, pa.string()),
    Lists(STR): lambda values: pa.array(values, pa.list_(pa.string())),
}


def called(function: Callable[..., Any], shape: Shape, *more: Any) -> Callable[[Value], Vector]:
    """Return a kernel that calls a function for each value.

    Args:
        function: takes a value of a plain type; free of side effects.
        shape: the exact type of its results, which are never None.
        more: constant arguments after the value.
    """

    def applied(value: Value) -> Vector:
        data = bare(value)
        values = data.tolist() if isinstance(data, np.ndarray) else data.to_pylist()
        try:
            return Vector(_MAKE[shape]([function(one, *more) for one in values]))
        except (ArithmeticError, ValueError) as error:
            raise FallBack(f"it raises {type(error).__name__}") from None

    return applied
