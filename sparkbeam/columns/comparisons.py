"""Comparisons: ordering, equality, None and membership.

All functions here raise NotCompiled for operands without an exact columnar form.
"""

import enum
import operator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow.compute as pc

from sparkbeam.columns import number_kernels, text_kernels
from sparkbeam.columns.expressions import (
    ClassOf,
    Const,
    Contents,
    DurationParts,
    Either,
    Expression,
    Held,
    IntervalParts,
    Item,
    Listed,
    Select,
    Stamped,
)
from sparkbeam.columns.graph import Graph, checked, named
from sparkbeam.columns.operators import as_float, as_number, folded, is_known, operand
from sparkbeam.columns.plain_data import as_compared, is_plain
from sparkbeam.columns.python_types import (
    BOOL,
    BYTES,
    FLOAT,
    NONE,
    NUMBERS,
    STR,
    Constants,
    RecordShape,
    Scalar,
    Shape,
    Table,
    Union,
    is_dict,
    is_tuple,
)
from sparkbeam.columns.reasons import NotCompiled
from sparkbeam.columns.times import Time, is_timestamp, micros_of
from sparkbeam.columns.vectors import Value, Vector, union_places

_KEYS = frozenset([*NUMBERS, STR, BYTES, NONE])
_ORDERS = {"<": "less", "<=": "less_equal", ">": "greater", ">=": "greater_equal"}


def compared(graph: Graph, symbol: str, left: Item, right: Item) -> Expression:
    """Compare by ``<``, ``<=``, ``>`` or ``>=``."""
    if symbol in ("==", "!="):
        if isinstance(left, ClassOf) and isinstance(right, Held) and type(right.value) is type:
            same = same_object(graph, left, right)
        else:
            same = equal(graph, *_operands(graph, left, right, "=="))
        return same if symbol == "==" else graph.negated(same)
    one, other = _operands(graph, left, right, symbol)
    if isinstance(one, Const) and isinstance(other, Const):
        return folded(graph, symbol, one.value, other.value)
    same_type = _same_type(graph, one, other)
    if same_type is None:
        raise NotCompiled(f"it compares {one.shape} with {other.shape}")
    one, other = same_type
    kernels = text_kernels if one.shape in (STR, BYTES) else number_kernels
    return graph.apply(getattr(kernels, _ORDERS[symbol]), BOOL, one, other)


def _same_type(
    graph: Graph, one: Expression, other: Expression
) -> tuple[Expression, Expression] | None:
    """Convert two comparable values to one type; return None if they do not compare."""
    if one.shape == other.shape and one.shape in NUMBERS | {STR, BYTES}:
        return one, other
    if is_timestamp(one.shape) and is_timestamp(other.shape):
        return micros_of(graph, one), micros_of(graph, other)
    if not {one.shape, other.shape} <= NUMBERS:
        return None
    if FLOAT in (one.shape, other.shape):
        exact = number_kernels.as_exact_float
        return as_float(graph, one, exact), as_float(graph, other, exact)
    return as_number(graph, one), as_number(graph, other)


def _operands(graph: Graph, left: Item, right: Item, symbol: str) -> tuple[Expression, Expression]:
    """Return the operands of a comparison; those of Durations are their microseconds."""
    if isinstance(left, DurationParts) and isinstance(right, DurationParts):
        return left.micros, right.micros
    return _operand(graph, left, symbol), _operand(graph, right, symbol)


def _operand(graph: Graph, item: Item, symbol: str) -> Expression:
    """Return an operand of a comparison; an enum member that compares as int or str becomes one."""
    if isinstance(item, Held) and isinstance(item.value, enum.Enum):
        return graph.const(as_compared(item.value))
    return operand(graph.stored(item), symbol)


def equal(graph: Graph, left: Expression, right: Expression) -> Expression:
    """Compare by ``==``, to a bool that is never None."""
    if isinstance(left, Const) and isinstance(right, Const):
        return folded(graph, "==", left.value, right.value)
    for one, other in ((left, right), (right, left)):
        if one.shape == NONE:
            return is_none(graph, other)
    if is_tuple(left.shape) and is_tuple(right.shape):
        return _equal_tuples(graph, left, right)
    same_type = _same_type(graph, left, right)
    if same_type is None:
        raise NotCompiled(f"it compares {left.shape} with {right.shape}")
    one, other = same_type
    return graph.apply(
        text_kernels.equal if one.shape in (STR, BYTES) else number_kernels.equal, BOOL, one, other
    )


def _equal_tuples(graph: Graph, left: Expression, right: Expression) -> Expression:
    """Compare all items for equality; refuses floats, as NaN may be the same object."""
    one, other = graph.unpacked_record(left), graph.unpacked_record(right)
    if one is None or other is None:
        raise NotCompiled("it compares tuples of two kinds")
    graph.require(one)
    graph.require(other)
    if len(one.fields) != len(other.fields):
        return graph.const(False)
    result: Expression = graph.const(True)
    for pair in zip(one.fields, other.fields, strict=True):
        if FLOAT in (pair[0].shape, pair[1].shape):
            raise NotCompiled("it compares tuples with floats in them")
        with graph.collected() as only_if_equal_so_far:
            same = equal(graph, *pair)
        graph.branch(result, only_if_equal_so_far, [])
        result = graph.chosen(result, same, graph.const(False))
    return result


def is_none(graph: Graph, item: Item) -> Expression:
    """Test ``item is None``."""
    if isinstance(item, Held | Listed | Contents | Stamped | Time | IntervalParts):
        return graph.const(False)
    if not isinstance(item, Expression):
        raise NotCompiled(f"it tests whether {named(item)} is None")
    if isinstance(item, Const):
        return graph.const(item.value is None)
    if isinstance(item.shape, RecordShape):
        return graph.negated(graph.presence(item))
    if isinstance(item.shape, Constants | Table):
        return graph.const(False)
    if isinstance(item, Select):
        return graph.of_both(item, partial(is_none, graph))
    return graph.apply(number_kernels.is_none, BOOL, item)


def same_object(graph: Graph, left: Item, right: Item) -> Expression:
    """Test ``left is right``, if one side is None or both are classes or similar constants."""
    for one, other in ((left, right), (right, left)):
        if isinstance(one, Const) and one.value is None:
            return is_none(graph, other)
        if isinstance(one, Either):
            yes, no = (same_object(graph, way, other) for way in (one.yes, one.no))
            return graph.chosen(one.condition, yes, no)
        if isinstance(other, Held) and isinstance(other.value, type):
            if isinstance(one, Held):
                return graph.const(one.value is other.value)
            if isinstance(one, ClassOf):
                assert isinstance(one.column.shape, Union)
                members = enumerate(one.column.shape.members)
                codes = tuple(code for code, member in members if member.type is other.value)
                return graph.apply(HasTypeCode(codes), BOOL, one.column)
    raise NotCompiled("it tests the identity of two values")


@dataclass(frozen=True)
class HasTypeCode:
    """Kernel that tests elements of a union for membership in some of its types."""

    codes: tuple[int, ...]

    def __call__(self, value: Value) -> Vector:
        assert isinstance(value, Vector)
        codes, _ = union_places(value.data)
        found = np.zeros(len(codes), np.bool_)
        for code in self.codes:
            found |= codes == code
        return Vector(found)


def contains(graph: Graph, item: Item, container: Item) -> Expression:
    """Test ``item in container``."""
    node = _operand(graph, item, "in")
    if isinstance(container, Contents):
        return _in_contents(graph, node, container.items)
    if isinstance(container, Held) and type(container.value) in (tuple, frozenset):
        return _in_contents(graph, node, tuple(container.value))
    inside = operand(container, "in")
    if isinstance(node, Const) and isinstance(inside, Const):
        return graph.folded(operator.contains, inside.value, node.value)
    if isinstance(inside.shape, Table):
        return is_known(graph, inside, node)
    if is_dict(inside.shape) and isinstance(node, Const) and node.shape in _KEYS:
        assert isinstance(inside.shape, RecordShape)
        if graph.is_in_document(inside) and type(node.value) is str:
            return graph.item_of(inside, node.value)[0]
        graph.require(inside)
        return graph.const(node.value in inside.shape.names)
    if isinstance(inside, Const) and isinstance(inside.value, tuple | frozenset):
        return _in_constants(graph, node, tuple(inside.value))
    if inside.shape in (STR, BYTES) and isinstance(node, Const) and node.shape == inside.shape:
        return graph.apply(text_kernels.matched(pc.match_substring, (node.value,)), BOOL, inside)
    raise NotCompiled(f"it tests whether {node.shape} is in {inside.shape}")


def _in_contents(graph: Graph, node: Expression, items: tuple[Any, ...]) -> Expression:
    items = tuple(map(as_compared, items))
    if not all(map(is_plain, items)):
        raise NotCompiled("it tests membership in something other than plain data")
    if isinstance(node, Const):
        return graph.const(node.value in items)
    return _in_constants(graph, node, items)


def _in_constants(graph: Graph, node: Expression, constants: tuple[Any, ...]) -> Expression:
    has_none = None in constants
    if node.shape == FLOAT and any(one != one for one in constants):
        raise NotCompiled("it tests whether a float is in constants with a NaN")
    if node.shape in (STR, BYTES):
        wanted = [one for one in constants if Scalar(type(one)) == node.shape]
        for one in wanted:
            checked(graph.const(one))
    elif node.shape in NUMBERS:
        numbers = [one for one in constants if type(one) in (int, float, bool)]
        wanted = _representable(numbers, node.shape)
    else:
        raise NotCompiled(f"it tests whether {node.shape} is in constants")
    return graph.apply(number_kernels.contained(frozenset(wanted), has_none), BOOL, node)


def _representable(values: list[Any], shape: Shape) -> list[Any]:
    """Return the numbers that a value of a type can equal, converted to that type."""
    if shape == FLOAT:
        return [float(one) for one in values if _has_float(one)]
    whole = [int(one) for one in values if one == one and abs(one) < 2.0**64 and one == int(one)]
    if shape == BOOL:
        return [bool(one) for one in whole if one in (0, 1)]
    return [one for one in whole if number_kernels.SMALLEST <= one <= number_kernels.LARGEST]


def _has_float(value: Any) -> bool:
    try:
        return float(value) == value
    except OverflowError:
        return False
