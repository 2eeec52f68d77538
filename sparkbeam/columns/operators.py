"""Python's operators on values of each type, as kernels over columns.

All functions here raise NotCompiled for operands without an exact columnar form.
"""

import operator
import re
from collections.abc import Callable
from typing import Any

import pyarrow.compute as pc

from sparkbeam.columns import list_kernels, lookups, number_kernels, text_kernels
from sparkbeam.columns.expressions import (
    ColumnRef,
    Const,
    Either,
    Expression,
    Item,
    Listed,
    Made,
    Slice,
)
from sparkbeam.columns.graph import Graph, named
from sparkbeam.columns.plain_data import is_plain
from sparkbeam.columns.python_kernels import called
from sparkbeam.columns.python_types import (
    BOOL,
    BYTES,
    FLOAT,
    INT,
    NONE,
    NUMBERS,
    STR,
    Lists,
    RecordShape,
    Scalar,
    Shape,
    Table,
    is_dict,
    is_tuple,
)
from sparkbeam.columns.reasons import NotCompiled

_INT_KERNELS = {
    "+": number_kernels.add_ints,
    "-": number_kernels.subtract_ints,
    "*": number_kernels.multiply_ints,
    "//": number_kernels.floor_divide_ints,
    "%": number_kernels.modulo_ints,
    "<<": number_kernels.shift_left,
    ">>": number_kernels.shift_right,
    "&": number_kernels.and_bits,
    "|": number_kernels.or_bits,
    "^": number_kernels.xor_bits,
}
_FLOAT_KERNELS = {
    "+": number_kernels.add_floats,
    "-": number_kernels.subtract_floats,
    "*": number_kernels.multiply_floats,
    "/": number_kernels.divide_floats,
    "//": number_kernels.floor_divide_floats,
    "%": number_kernels.modulo_floats,
}
_PYTHON: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "**": operator.pow,
    "<<": operator.lshift,
    ">>": operator.rshift,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
_PYTHON_UNARY: dict[str, Callable[[Any], Any]] = {
    "-": operator.neg,
    "+": operator.pos,
    "~": operator.invert,
}
_LARGEST_EXPONENT = 8
_MOST_BITS = 64
_LONGEST_CONSTANT = 1000
_LONG_NUMBER = re.compile(r"\d{4}")


def binary(graph: Graph, symbol: str, left: Item, right: Item) -> Expression:
    """Compute ``left + right`` and other binary operators."""
    one, other = operand(left, symbol), operand(right, symbol)
    if isinstance(one, Const) and isinstance(other, Const):
        return folded(graph, symbol, one.value, other.value)
    shapes = one.shape, other.shape
    if set(shapes) <= NUMBERS:
        return _arithmetic(graph, symbol, one, other)
    if symbol == "+" and shapes in ((STR, STR), (BYTES, BYTES)):
        return graph.apply(text_kernels.joined, one.shape, one, other)
    if symbol == "+" and is_tuple(one.shape) and is_tuple(other.shape):
        return tuple_of(graph, (*items_of(graph, one), *items_of(graph, other)))
    raise NotCompiled(f"it computes {one.shape} {symbol} {other.shape}")


def operand(item: Item, symbol: str) -> Expression:
    """Return an operand of an arithmetic operator."""
    if isinstance(item, Expression):
        return item
    raise NotCompiled(f"it computes {symbol} with {named(item)}")


def folded(graph: Graph, symbol: str, left: Any, right: Any) -> Const:
    """Return the result of an operator on constants, computed by Python."""
    if symbol == "%" and isinstance(left, str | bytes):
        raise NotCompiled("it formats by %")
    for value in (left, right):
        is_short = type(value) in (bool, float, type(None))
        if type(value) is int:
            is_short = value.bit_length() <= _MOST_BITS
        elif type(value) in (str, bytes, tuple):
            is_short = len(value) <= _LONGEST_CONSTANT
        if not is_short or not is_plain(value):
            raise NotCompiled(f"it computes {symbol} with a constant {type(value).__name__}")
    sizes = [value for value in (left, right) if type(value) is int]
    if symbol == "*" and len(sizes) == 2:
        sizes = []
    if symbol in ("**", "<<", "*") and any(size > _LONGEST_CONSTANT for size in sizes):
        raise NotCompiled("it computes a very large constant")
    return graph.folded(_PYTHON[symbol], left, right)


def _arithmetic(graph: Graph, symbol: str, left: Expression, right: Expression) -> Expression:
    if symbol in ("&", "|", "^") and left.shape == right.shape == BOOL:
        return graph.apply(_INT_KERNELS[symbol], BOOL, left, right)
    one, other = as_number(graph, left), as_number(graph, right)
    if FLOAT in (one.shape, other.shape):
        if symbol not in _FLOAT_KERNELS:
            raise NotCompiled(f"it computes {one.shape} {symbol} {other.shape}")
        return graph.apply(
            _FLOAT_KERNELS[symbol], FLOAT, as_float(graph, one), as_float(graph, other)
        )
    if symbol == "/":
        return graph.apply(number_kernels.divide_ints, FLOAT, one, other)
    if symbol == "**":
        exponent = other.value if isinstance(other, Const) else -1
        if not 0 <= exponent <= _LARGEST_EXPONENT:
            raise NotCompiled("it computes ** with an exponent that is not a small constant")
        return graph.apply(number_kernels.power(exponent), INT, one)
    if symbol not in _INT_KERNELS:
        raise NotCompiled(f"it computes {one.shape} {symbol} {other.shape}")
    return graph.apply(_INT_KERNELS[symbol], INT, one, other)


def as_number(graph: Graph, node: Expression) -> Expression:
    """Convert a bool to int; return other numbers unchanged."""
    if node.shape != BOOL:
        return node
    if isinstance(node, Const):
        return graph.const(int(node.value))
    return graph.apply(number_kernels.bool_as_int, INT, node)


def as_float(graph: Graph, node: Expression, kernel: Any = number_kernels.as_float) -> Expression:
    """Convert a number to float."""
    node = as_number(graph, node)
    if node.shape == FLOAT:
        return node
    if isinstance(node, Const):
        try:
            exact = float(node.value)
        except OverflowError:
            raise NotCompiled("an int exceeds 64 bits") from None
        if kernel is number_kernels.as_exact_float and exact != node.value:
            raise NotCompiled("it compares a float with an int that has no exact float")
        return graph.const(exact)
    return graph.apply(kernel, FLOAT, node)


def unary(graph: Graph, symbol: str, item: Item) -> Expression:
    """Compute ``-x``, ``+x``, ``~x`` or ``not x``."""
    if symbol == "not":
        return graph.negated(graph.truth(item))
    node = operand(item, symbol)
    if node.shape not in NUMBERS or (symbol == "~" and node.shape != INT):
        raise NotCompiled(f"it computes {symbol}{node.shape}")
    if isinstance(node, Const):
        return graph.const(_PYTHON_UNARY[symbol](node.value))
    number = as_number(graph, node)
    if symbol == "+":
        # None raises here, even if nothing is computed.
        graph.require(number)
        return number
    if symbol == "~":
        return graph.apply(number_kernels.invert_int, INT, number)
    kernel = number_kernels.negate_float if number.shape == FLOAT else number_kernels.negate_int
    return graph.apply(kernel, number.shape, number)


def items_of(graph: Graph, item: Item) -> tuple[Expression, ...]:
    """Return the items of a tuple, NamedTuple or Row, which must not be None."""
    if isinstance(item, Expression) and is_dict(item.shape):
        raise NotCompiled("it iterates over the keys of a dict")
    return fields_of(graph, item)


def fields_of(graph: Graph, item: Item) -> tuple[Expression, ...]:
    """Return the items of a tuple, NamedTuple or Row, or the values of a dict; not of None."""
    record = graph.unpacked_record(item) if isinstance(item, Expression) else None
    if record is None:
        raise NotCompiled(f"it unpacks {named(item)}")
    graph.require(record)
    return record.fields


def tuple_of(graph: Graph, fields: tuple[Expression, ...]) -> Made:
    """Return a tuple of values."""
    names = tuple(map(str, range(len(fields))))
    return graph.record(RecordShape(tuple, names, ()), fields)


def subscript(graph: Graph, item: Item, index: Item) -> Item:
    """Compute ``item[index]``."""
    if isinstance(item, Const) and item.shape in (STR, BYTES) and isinstance(index, Const | Slice):
        return graph.folded(operator.getitem, item.value, index.value)
    if isinstance(index, Slice):
        return _part(graph, item, index.value)
    if (
        isinstance(item, Expression)
        and isinstance(item.shape, Table)
        and isinstance(index, Expression)
    ):
        return _item_of_dict(graph, item, index)
    at = index.value if isinstance(index, Const) else None
    if isinstance(item, Expression) and is_dict(item.shape) and isinstance(index, Const):
        return of_dict(graph, item, at)
    if not isinstance(item, Expression):
        raise NotCompiled(f"it takes an item of {named(item)}")
    if type(at) is not int:
        raise NotCompiled("it takes an item at a position that is not constant")
    if is_tuple(item.shape):
        assert isinstance(item.shape, RecordShape)
        if not -len(item.shape.names) <= at < len(item.shape.names):
            raise NotCompiled("it raises IndexError")
        return items_of(graph, item)[at]
    if abs(at) > number_kernels.LARGEST // 2:
        raise NotCompiled("it takes an item at a very large position")
    if item.shape == STR:
        return graph.apply(text_kernels.item(at), STR, item)
    if isinstance(item.shape, Lists):
        return _item_of_list(graph, item, at)
    raise NotCompiled(f"it takes an item of {item.shape}")


def _item_of_list(graph: Graph, item: Expression, at: int, of: int | None = None) -> Expression:
    """Compute ``item[at]`` of a list, which must have a length if one is given."""
    return graph.pick(item, graph.apply(list_kernels.place(at, of), INT, item))


def _item_of_dict(graph: Graph, table: Expression, key: Expression) -> Expression:
    """Compute ``table[key]`` of a dict."""
    shape = _dict_for(table)
    places = graph.apply(lookups.required, INT, _place(graph, table, key))
    return _of_table(graph, table, places, shape.value)


def _of_table(
    graph: Graph, table: Expression, places: Expression, shape: Shape, path: tuple[int, ...] = ()
) -> Expression:
    """Return the items at positions of a table, or fields of them."""
    if shape == NONE:
        return graph.const(None)
    if isinstance(shape, RecordShape):
        fields = (
            _of_table(graph, table, places, one, (*path, at)) for at, one in enumerate(shape.fields)
        )
        return graph.record(shape, tuple(fields))
    return graph.apply(lookups.item(path, shape), shape, table, places)


def is_known(graph: Graph, table: Expression, key: Expression) -> Expression:
    """Compute ``key in table``."""
    return graph.apply(lookups.is_there, BOOL, _place(graph, table, key))


def got(graph: Graph, table: Expression, key: Item, default: Item) -> Item:
    """Compute ``table.get(key, default)`` of a dict."""
    node = operand(key, ".get")
    shape = _dict_for(table)
    found = is_known(graph, table, node)
    with graph.collected() as where_it_is:
        item = _of_table(graph, table, _place(graph, table, node), shape.value)
    graph.branch(found, where_it_is, [])
    return graph.select(found, item, default)


def _place(graph: Graph, table: Expression, key: Expression) -> Expression:
    """Return the position of a key's item in a dict or list, or of the key in a set."""
    shape = table.shape
    assert isinstance(shape, Table)
    if key.shape != shape.key:
        raise NotCompiled(f"it looks up {key.shape} in a {shape} of {shape.key}")
    return graph.apply(lookups.place, INT, table, key)


def _dict_for(table: Expression) -> Table:
    """Return the type of a dict that is indexed by key, and refuse other tables."""
    shape = table.shape
    assert isinstance(shape, Table)
    if shape.type is not dict:
        raise NotCompiled(f"it takes an item of a {shape}")
    return shape


def of_dict(graph: Graph, item: Expression, key: Any, default: Item | None = None) -> Item:
    """Return the value of a key; ``default`` if missing.

    Raises:
        NotCompiled: there is neither.
    """
    assert isinstance(item.shape, RecordShape)
    if graph.is_in_document(item) and type(key) is str:
        return _of_document(graph, item, key, default)
    fields = fields_of(graph, item)
    if type(key) is str and key in item.shape.names:
        return fields[item.shape.names.index(key)]
    if default is None or type(key) not in (str, int, float, bool, bytes, type(None)):
        raise NotCompiled("it raises KeyError")
    return default


def _of_document(graph: Graph, item: ColumnRef, key: str, default: Item | None) -> Item:
    is_there, value = graph.item_of(item, key)
    if default is not None:
        return graph.select(is_there, value, default)
    if isinstance(is_there, Const):
        raise NotCompiled("it raises KeyError")
    graph.require_all(is_there)
    return value


def _part(graph: Graph, item: Item, part: slice) -> Item:
    if not isinstance(item, Expression) or any(
        bound is not None and (type(bound) is not int or abs(bound) > 2**31)
        for bound in (part.start, part.stop, part.step)
    ):
        raise NotCompiled("it takes a slice with bounds that are not constant")
    if is_tuple(item.shape) and part.step != 0:
        return tuple_of(graph, items_of(graph, item)[part])
    if part.step not in (None, 1):
        raise NotCompiled("it takes a slice with a step")
    if isinstance(item.shape, Lists):
        return graph.apply(list_kernels.sliced(part.start, part.stop), item.shape, item)
    if item.shape != STR:  # Arrow's slices of bytes fail where nothing is left.
        raise NotCompiled(f"it takes a slice of {item.shape}")
    start, stop = part.start or 0, part.stop
    kernel = text_kernels.in_arrow(pc.utf8_slice_codeunits, start=start, stop=stop)
    return graph.apply(kernel, STR, item)


def unpacked(graph: Graph, item: Item, count: int) -> tuple[Item, ...]:
    """Return the items that are unpacked into ``count`` variables."""
    if isinstance(item, Either) and isinstance(item.yes, Listed) and isinstance(item.no, Listed):
        ways = (unpacked(graph, way, count) for way in (item.yes, item.no))
        return tuple(graph.select(item.condition, *pair) for pair in zip(*ways, strict=True))
    if isinstance(item, Expression) and isinstance(item.shape, Lists) and count:
        return tuple(_item_of_list(graph, item, at, count) for at in range(count))
    items = item.items if isinstance(item, Listed) else items_of(graph, item)
    if len(items) != count:
        raise NotCompiled("it unpacks the wrong number of items")
    return items


def as_text(graph: Graph, item: Item) -> Expression:
    """Compute ``str(item)``, also for f-strings."""
    node = operand(item, "str")
    if node.shape == STR:
        graph.require(node)
        return node
    if isinstance(node, Const) and node.shape in NUMBERS | {NONE}:
        return graph.const(str(node.value))
    if node.shape in (INT, BOOL):
        return graph.apply(
            text_kernels.of_int if node.shape == INT else text_kernels.of_bool, STR, node
        )
    if node.shape == FLOAT:
        return graph.apply(called(str, STR), STR, node)
    raise NotCompiled(f"it writes {node.shape} as text")


def as_written(graph: Graph, item: Item) -> Expression:
    """Compute ``repr(item)``."""
    node = operand(item, "repr")
    if node.shape not in NUMBERS | {STR, BYTES, NONE}:
        raise NotCompiled(f"it calls repr with {node.shape}")
    if isinstance(node, Const):
        return graph.const(repr(node.value))
    return graph.apply(called(repr, STR), STR, node)


def in_format(graph: Graph, item: Item, specification: Item) -> Expression:
    """Compute ``format(item, specification)``."""
    node, wanted = operand(item, "format"), operand(specification, "format")
    if not isinstance(wanted, Const) or type(wanted.value) is not str:
        raise NotCompiled("it formats with a specification that is not constant")
    if node.shape not in NUMBERS | {STR} or _LONG_NUMBER.search(wanted.value):
        raise NotCompiled(f"it formats {node.shape} with a specification")
    assert isinstance(node.shape, Scalar)
    sample = node.value if isinstance(node, Const) else node.shape.type()
    written = graph.folded(format, sample, wanted.value)
    if isinstance(node, Const):
        return written
    return graph.apply(called(format, STR, wanted.value), STR, node)


def formatted(graph: Graph, parts: tuple[Item, ...]) -> Expression:
    """Join the parts of an f-string."""
    nodes = [operand(part, "an f-string") for part in parts]
    for node in nodes:
        if node.shape != STR:
            raise NotCompiled(f"it puts {node.shape} into text")
    if all(isinstance(node, Const) for node in nodes):
        return graph.const("".join(node.value for node in nodes if isinstance(node, Const)))
    return graph.apply(text_kernels.joined, STR, *nodes)
