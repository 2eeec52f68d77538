"""User functions over columns: plain Python functions of one element as Arrow expressions.

A function is followed by its bytecode, never called (:mod:`~sparkbeam.columns.machine`). What
comes out evaluates blocks of elements that are Arrow columns, and gives **what Python gives,
or refuses the block**: ints are unbounded, ``//`` rounds down, None raises where it raises,
1, 1.0 and True are three results, a branch is evaluated only for the elements that take it.
A block for which that cannot be promised goes element by element, and an exception is then that
of the element::

    shape = shape_of(column.type, Bid)  # The Python types of the column.
    skip = compile_function(lambda bid: bid.auction % 123 == 0, shape, form=Form.FILTER)
    if isinstance(skip, Refused):
        print(f"elements, because {skip.reason}")
    else:
        try:
            rows = skip.kept(column)
        except NotExact as refusal:
            ...  # This block: element by element.

===============  ==========================================================================
``shapes``       what the values of a column are to Python
``bytecode``     the instructions, alike in all versions of Python
``captured``     what a function takes from around it, and how one knows that it stays the same
``machine``      follows the instructions; ``instructions``, ``objects``, ``calls``, ``methods``,
                 ``operators``, ``comparisons`` and ``times`` say what they do
``graph``        makes expressions and statements, which are in ``nodes``
``evaluate``     evaluates them over a block, by the kernels in ``numbers``, ``text``, ``lists``
                 and ``each``
``compiler``     the whole way
===============  ==========================================================================
"""

from sparkbeam.columns.compiler import Argument, Compiled, Form, Output, Refused, compile_function
from sparkbeam.columns.fields import ALL, Paths
from sparkbeam.columns.objects import Keyed
from sparkbeam.columns.python_types import (
    Opaque,
    Record,
    Scalar,
    Shape,
    Union,
    arrow_type_of,
    shape_of,
)
from sparkbeam.columns.reasons import NotExact, UnknownShape
from sparkbeam.columns.vectors import member_of

__all__ = [
    "ALL",
    "Argument",
    "Compiled",
    "Form",
    "Keyed",
    "NotExact",
    "Opaque",
    "Output",
    "Paths",
    "Record",
    "Refused",
    "Scalar",
    "Shape",
    "Union",
    "UnknownShape",
    "arrow_type_of",
    "compile_function",
    "member_of",
    "shape_of",
]
