"""User functions over columns: plain Python functions of one element as Arrow expressions.

A function is interpreted from its bytecode and never called (:mod:`~sparkbeam.columns.machine`).
The compiled function evaluates blocks of elements stored as Arrow columns. It gives **Python's
exact results or refuses the block**: ints are unbounded, ``//`` rounds down, None raises where it
raises in Python, 1, 1.0 and True stay distinct, and a branch is evaluated only for the elements
that take it. A refused block is processed element by element, and exceptions then come from the
element itself::

    shape = shape_of(column.type, Bid)  # The Python types of the column.
    skip = compile_function(lambda bid: bid.auction % 123 == 0, shape, form=ResultKind.FILTER)
    if isinstance(skip, Refused):
        print(f"elements, because {skip.reason}")
    else:
        try:
            rows = skip.selected_rows(column)
        except FallBack as refusal:
            ...  # This block: element by element.

================  =========================================================================
``python_types``  Python types of the values of a column
``bytecode``      instructions, normalized across Python versions
``captured``      captured values of a function, and guards against changes
``machine``       symbolic execution of the instructions; their effects are in ``instructions``,
                  ``objects``, ``calls``, ``methods``, ``operators``, ``comparisons`` and
                  ``times``
``graph``         construction of ``expressions`` and statements
``evaluate``      evaluation over a block, by ``number_kernels``, ``text_kernels``,
                  ``list_kernels``, ``json_kernels`` and ``python_kernels``
``compiled``      the result, and its evaluation over blocks
``compiler``      the entry point
================  =========================================================================
"""

from sparkbeam.columns.compiled import BlockResult, Compiled, DataDependent, Refused
from sparkbeam.columns.compiler import (
    Argument,
    ResultKind,
    TimeArgument,
    WindowArgument,
    compile_function,
)
from sparkbeam.columns.fields import ALL, Paths
from sparkbeam.columns.objects import Keyed
from sparkbeam.columns.python_types import (
    Opaque,
    RecordShape,
    Scalar,
    Shape,
    Union,
    arrow_type_of,
    shape_of,
)
from sparkbeam.columns.reasons import FallBack, UnknownShape
from sparkbeam.columns.vectors import member_of

__all__ = [
    "ALL",
    "Argument",
    "BlockResult",
    "Compiled",
    "DataDependent",
    "FallBack",
    "Keyed",
    "Opaque",
    "Paths",
    "RecordShape",
    "Refused",
    "ResultKind",
    "Scalar",
    "Shape",
    "TimeArgument",
    "Union",
    "UnknownShape",
    "WindowArgument",
    "arrow_type_of",
    "compile_function",
    "member_of",
    "shape_of",
]
