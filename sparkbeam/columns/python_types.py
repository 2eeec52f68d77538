"""Python types of the values of columns.

The Arrow type alone does not determine them: a struct may stand for a Row, a tuple or any
NamedTuple class. Any column may hold nulls, which are None.
"""

from collections import namedtuple
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any, TypeAlias, get_args, get_origin, get_type_hints

import pyarrow as pa
from apache_beam.pvalue import Row

from sparkbeam.columns.reasons import UnknownShape


@dataclass(frozen=True)
class Scalar:
    """Values of exactly one plain type; a bool is not an int.

    Attributes:
        type: int, float, bool, str, bytes, or NoneType if all are None.
    """

    type: type

    def __str__(self) -> str:
        return "None" if self.type is type(None) else self.type.__name__


@dataclass(frozen=True)
class Opaque:
    """Values that are only passed on: dates, decimals, lists and others.

    Attributes:
        is_as_in_arrow: whether values convert as in Arrow, for example to ``datetime``, and not as
            in Beam's schemas, for example to ``Timestamp``.
    """

    arrow_type: pa.DataType
    is_as_in_arrow: bool = False

    def __str__(self) -> str:
        return str(self.arrow_type)


@dataclass(frozen=True)
class RecordShape:
    """Values with fields: tuples, NamedTuples of one class, Rows, lists of one length, dicts.

    Attributes:
        type: ``tuple``, a NamedTuple class, ``beam.Row``, ``list`` or ``dict``.
        names: the field names; positions for a tuple or list, keys for a dict.
        fields: the type of each field.
    """

    type: type
    names: tuple[str, ...]
    fields: "tuple[Shape, ...]"

    def __str__(self) -> str:
        if self.type is tuple:
            return f"({', '.join(map(str, self.fields))})"
        return self.type.__name__


@dataclass(frozen=True)
class Union:
    """Values of several record classes, distinguished by the type codes of a dense union.

    Attributes:
        members: in the order of the union's children, whose type codes are 0, 1, ….
    """

    members: tuple[RecordShape, ...]

    def __str__(self) -> str:
        return " or ".join(map(str, self.members))


@dataclass(frozen=True)
class Mixed:
    """Values whose type depends on the path through a function; no column can hold them."""

    shapes: "tuple[Shape, ...]"

    def __str__(self) -> str:
        return either(*map(str, self.shapes))


def either(*names: str) -> str:
    """Join the names of types by "or"."""
    distinct = list(dict.fromkeys(names))
    return " or ".join(distinct) if len(distinct) > 1 else f"{distinct[0]} of several types"


@dataclass(frozen=True)
class Lists:
    """Lists of any length, such as the values of a group."""

    item: "Shape"

    def __str__(self) -> str:
        return f"list of {self.item}"


@dataclass(frozen=True)
class Table:
    """Dicts with any keys, or lists and sets for lookups; never in a result.

    Attributes:
        type: ``dict``, ``list``, ``set`` or ``frozenset``.
        key: the type of the keys, or of the items of a list or set.
        value: the type of a dict's values; None for the others.
    """

    type: type
    key: "Shape"
    value: "Shape"

    def __str__(self) -> str:
        return self.type.__name__


@dataclass(frozen=True)
class Constants:
    """A constant set, for membership tests."""

    values: frozenset[Any] = field(default_factory=frozenset)

    def __str__(self) -> str:
        return "frozenset"


Shape: TypeAlias = Scalar | Opaque | RecordShape | Union | Lists | Mixed | Constants | Table

INT, FLOAT, BOOL = Scalar(int), Scalar(float), Scalar(bool)
STR, BYTES, NONE = Scalar(str), Scalar(bytes), Scalar(type(None))
NUMBERS = frozenset([INT, FLOAT, BOOL])
PLAIN = NUMBERS | {STR, BYTES, NONE}
TIMESTAMP = Opaque(pa.timestamp("us", "UTC"))
"""Beam Timestamps that a function makes."""

_ARROW = {
    INT: pa.int64(),
    FLOAT: pa.float64(),
    BOOL: pa.bool_(),
    STR: pa.string(),
    BYTES: pa.binary(),
    NONE: pa.null(),
}


def shape_of(arrow_type: pa.DataType, python_type: Any = None) -> Shape:
    """Return the Python type of the values of a column.

    Args:
        python_type: the class or type hint of structs: a NamedTuple class, ``tuple[int, Bid]``,
            ``beam.Row``. Rows if None. For a dense union, a tuple of the classes of its children.

    Raises:
        UnknownShape: the two types do not match.
    """
    if pa.types.is_struct(arrow_type):
        return _record_of(arrow_type, python_type)
    if pa.types.is_union(arrow_type):
        return _union_of(arrow_type, python_type)
    if pa.types.is_dictionary(arrow_type):
        # A lookup of fields would need a dictionary of structs.
        return Opaque(arrow_type) if _has_structs(arrow_type) else shape_of(arrow_type.value_type)
    if pa.types.is_integer(arrow_type):
        return INT
    if pa.types.is_float32(arrow_type) or pa.types.is_float64(arrow_type):
        return FLOAT
    if pa.types.is_boolean(arrow_type):
        return BOOL
    if pa.types.is_string(arrow_type) or pa.types.is_large_string(arrow_type):
        return STR
    if pa.types.is_binary(arrow_type) or pa.types.is_large_binary(arrow_type):
        return BYTES
    return NONE if pa.types.is_null(arrow_type) else Opaque(arrow_type)


def arrow_type_of(shape: Shape) -> pa.DataType:
    """Return the type of the columns that compiled functions make.

    Raises:
        UnknownShape: no column can hold the values.
    """
    match shape:
        case Scalar():
            return _ARROW[shape]
        case Opaque():
            return shape.arrow_type
        case RecordShape():
            types = map(arrow_type_of, shape.fields)
            return pa.struct(list(map(pa.field, shape.names, types)))
        case Union():
            types = map(arrow_type_of, shape.members)
            fields = [pa.field(str(at), kind) for at, kind in enumerate(types)]
            return pa.dense_union(fields)
        case Lists():
            return pa.list_(arrow_type_of(shape.item))
    raise UnknownShape(f"it produces {shape}")


def shape_in_arrow(arrow_type: pa.DataType) -> Shape:
    """Return the type of values converted by Arrow itself: structs become dicts.

    Raises:
        UnknownShape: a struct has two fields of the same name.
    """
    if pa.types.is_dictionary(arrow_type) and not _has_structs(arrow_type):
        arrow_type = arrow_type.value_type
    if not pa.types.is_struct(arrow_type):
        shape = shape_of(arrow_type) if not pa.types.is_union(arrow_type) else None
        return shape if isinstance(shape, Scalar) else Opaque(arrow_type, is_as_in_arrow=True)
    names = tuple(part.name for part in arrow_type)
    if len(set(names)) < len(names):
        raise UnknownShape("a dict cannot have two items with the same key")
    return RecordShape(dict, names, tuple(shape_in_arrow(part.type) for part in arrow_type))


def is_plain_namedtuple(kind: Any) -> bool:
    """Return whether a class is a NamedTuple with Python's own construction and comparison.

    This excludes classes with their own constructor, ``__eq__`` and the like.
    """
    if type(kind) is not type or not issubclass(kind, tuple):
        return False
    fields, make = getattr(kind, "_fields", None), kind.__new__
    return (
        type(fields) is tuple
        and isinstance(make, FunctionType)
        and "_tuple_new" in make.__globals__
        and make.__code__.co_varnames[1:] == fields
        and not any(_BEHAVIOUR & vars(one).keys() for one in kind.__mro__[:-1] if one is not tuple)
        and all(_is_field(kind, at, name) for at, name in enumerate(fields))
    )


_BEHAVIOUR = frozenset(
    f"__{name}__"
    for name in (
        *("init", "eq", "ne", "lt", "le", "gt", "ge", "hash", "bool", "len", "contains", "class"),
        *("getitem", "iter", "getattribute", "getattr", "add", "radd", "mul", "rmul"),
    )
)
_FIELD = type(vars(namedtuple("_Probe", "field"))["field"])


def _is_field(kind: type, position: int, name: str) -> bool:
    """Return whether a class attribute is the field of this name at its position."""
    found = [vars(one)[name] for one in kind.__mro__ if type(vars(one).get(name)) is _FIELD]
    return not found or found[0].__reduce__()[1][0] == position


def is_field(record: RecordShape, name: str) -> bool:
    """Return whether an attribute reads a field, and is not redefined by the class."""
    if record.type is dict:
        return False
    if name not in record.names or not issubclass(record.type, tuple):
        return name in record.names
    found = next((vars(one)[name] for one in record.type.__mro__ if name in vars(one)), None)
    return type(found) is _FIELD


def is_tuple(shape: Shape) -> bool:
    """Return whether values are tuples or NamedTuples."""
    return isinstance(shape, RecordShape) and issubclass(shape.type, tuple)


def is_dict(shape: Shape) -> bool:
    """Return whether values are dicts with the same keys."""
    return isinstance(shape, RecordShape) and shape.type is dict


def tells_all(shape: Shape) -> bool:
    """Return whether a shape determines the type fully; that of nested structs does not."""
    match shape:
        case Opaque():
            return shape.is_as_in_arrow or not _has_structs(shape.arrow_type)
        case RecordShape():
            return all(map(tells_all, shape.fields))
        case Union():
            return all(map(tells_all, shape.members))
        case Lists():
            return tells_all(shape.item)
    return True


def _has_structs(kind: pa.DataType) -> bool:
    if pa.types.is_struct(kind) or pa.types.is_union(kind):
        return True
    if pa.types.is_dictionary(kind):
        return _has_structs(kind.value_type)
    return any(_has_structs(kind.field(at).type) for at in range(kind.num_fields))


def unified(left: Shape, right: Shape) -> Shape:
    """Return the common type of values of two columns; None is compatible with every type."""
    if left == right or right == NONE:
        return left
    if left == NONE:
        return right
    if (
        isinstance(left, RecordShape)
        and isinstance(right, RecordShape)
        and (left.type, left.names) == (right.type, right.names)
    ):
        fields = tuple(map(unified, left.fields, right.fields))
        if not any(isinstance(one, Mixed) for one in fields):
            return RecordShape(left.type, left.names, fields)
    return Mixed((*_parts(left), *_parts(right)))


def _parts(shape: Shape) -> tuple[Shape, ...]:
    return shape.shapes if isinstance(shape, Mixed) else (shape,)


def _record_of(arrow_type: pa.DataType, python_type: Any) -> RecordShape:
    children = [arrow_type.field(at) for at in range(arrow_type.num_fields)]
    names = tuple(child.name for child in children)
    positions = tuple(map(str, range(len(names))))
    hints: list[Any] = [None] * len(names)
    if python_type is None or python_type is Row:
        kind: type = Row
        if len(set(names)) < len(names):
            raise UnknownShape("a Row cannot have two fields with the same name")
    elif python_type is tuple or get_origin(python_type) is tuple:
        kind, names = tuple, positions
        hints = list(get_args(python_type)) or hints
    elif is_plain_namedtuple(python_type):
        kind, names = python_type, python_type._fields
        hints = _hints_of(python_type)
    else:
        raise UnknownShape(f"structs cannot represent {python_type}")
    if len(names) != len(children) or len(hints) != len(children):
        raise UnknownShape(f"{python_type} does not have {len(children)} fields")
    fields = (
        shape_of(child.type, _plain(hint)) for child, hint in zip(children, hints, strict=True)
    )
    return RecordShape(kind, names, tuple(fields))


def _hints_of(kind: Any) -> list[Any]:
    try:
        hints = get_type_hints(kind)
    except Exception:  # They may name what exists for type checkers alone.
        hints = {}
    return [hints.get(name) for name in kind._fields]


def _plain(hint: Any) -> Any:
    """Return a hint that determines the type of structs; None for other hints."""
    options = [option for option in get_args(hint) if option is not type(None)]
    if len(options) == 1 and get_origin(hint) is not tuple:
        return _plain(options[0])
    known = get_origin(hint) is tuple or hint in (Row, tuple) or is_plain_namedtuple(hint)
    return hint if known else None


def _union_of(arrow_type: pa.DataType, python_type: Any) -> Shape:
    kinds = python_type if isinstance(python_type, tuple) else ()
    count = arrow_type.num_fields
    if (
        arrow_type.mode != "dense"
        or len(kinds) != count
        or list(arrow_type.type_codes) != list(range(count))
    ):
        return Opaque(arrow_type)
    members = [shape_of(arrow_type.field(at).type, kinds[at]) for at in range(count)]
    if not all(isinstance(member, RecordShape) for member in members):
        return Opaque(arrow_type)
    return Union(tuple(member for member in members if isinstance(member, RecordShape)))
