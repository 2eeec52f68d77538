"""Functions and classes whose calls have an exact columnar form."""

import json
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from apache_beam.pvalue import Row
from apache_beam.transforms.window import IntervalWindow, TimestampedValue, WindowFn
from apache_beam.utils.timestamp import Duration, Timestamp

from sparkbeam.columns import list_kernels, number_kernels, text_kernels, times
from sparkbeam.columns.comparisons import HasTypeCode, compared, is_none
from sparkbeam.columns.expressions import (
    Apply,
    Assigned,
    ClassOf,
    ColumnRef,
    Const,
    Expression,
    Held,
    IntervalParts,
    Item,
    Listed,
    Made,
    Select,
    Stamped,
    TimestampParts,
)
from sparkbeam.columns.graph import Graph, named
from sparkbeam.columns.list_calls import as_list, has_true, is_list
from sparkbeam.columns.metric_calls import METRICS
from sparkbeam.columns.operators import (
    as_float,
    as_number,
    as_text,
    as_written,
    binary,
    fields_of,
    in_format,
    items_of,
    tuple_of,
)
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
    Union,
    is_plain_namedtuple,
    is_tuple,
)
from sparkbeam.columns.reasons import NotCompiled
from sparkbeam.columns.times import micros_in, whole_seconds
from sparkbeam.columns.vectors import Value, Vector
from sparkbeam.upstream.beam import named_tuple_class

Handler = Callable[[Graph, tuple[Item, ...]], Item]
_MICROS = 1_000_000
_MOST_DIGITS = 22
"""Largest exponent for which a power of ten is exact as a float."""


def known_function(function: Any) -> Handler | None:
    """Return the handler of a builtin or library function; None if it has none."""
    try:
        return _KNOWN.get(function)
    except TypeError:  # Unhashable.
        return None


def _node(items: tuple[Item, ...], function: str, count: int = 1) -> Expression:
    if len(items) != count or not isinstance(items[0], Expression):
        raise NotCompiled(f"it calls {function} with {', '.join(map(named, items)) or 'nothing'}")
    return items[0]


def _folding(function: Callable[..., Any], handler: Handler) -> Handler:
    """Return a handler that calls the function itself on short constant arguments."""

    def handled(graph: Graph, items: tuple[Item, ...]) -> Item:
        constants = [item.value for item in items if isinstance(item, Const)]
        if not items or len(constants) < len(items):
            return handler(graph, items)
        return graph.folded(function, *constants)

    return handled


def _length(graph: Graph, items: tuple[Item, ...]) -> Item:
    node = _node(items, "len")
    kernels = {STR: text_kernels.length, BYTES: text_kernels.length_of_bytes}
    if node.shape in kernels:
        return graph.apply(kernels[node.shape], INT, node)
    if isinstance(node.shape, Lists):
        return graph.apply(list_kernels.lengths, INT, node)
    if isinstance(node.shape, RecordShape) and node.shape.type is not Row:
        return graph.const(len(fields_of(graph, node)))
    raise NotCompiled(f"it calls len with {node.shape}")


def _absolute(graph: Graph, items: tuple[Item, ...]) -> Item:
    node = _number(graph, _node(items, "abs"), "abs")
    kernel = number_kernels.abs_float if node.shape == FLOAT else number_kernels.abs_int
    return graph.apply(kernel, node.shape, node)


def _number(graph: Graph, node: Expression, function: str) -> Expression:
    if node.shape not in NUMBERS:
        raise NotCompiled(f"it calls {function} with {node.shape}")
    return as_number(graph, node)


def _extreme(symbol: str, name: str) -> Handler:
    """Return the handler of ``min`` or ``max`` of several values, where the first extreme wins."""

    def handled(graph: Graph, items: tuple[Item, ...]) -> Item:
        several = _spread(graph, items[0]) if len(items) == 1 else items
        if not several:
            raise NotCompiled(f"it calls {name} with {', '.join(map(named, items)) or 'nothing'}")
        best, *others = several
        for item in others:
            best = graph.select(compared(graph, symbol, item, best), item, best)
        return best

    return handled


def _spread(graph: Graph, item: Item) -> tuple[Item, ...]:
    """Return the items of a tuple or of a list built by the function; none for other items."""
    if isinstance(item, Listed):
        return item.items
    is_one = isinstance(item, Expression) and is_tuple(item.shape)
    return items_of(graph, item) if is_one else ()


def _sum(graph: Graph, items: tuple[Item, ...]) -> Item:
    if len(items) == 1 and is_list(items[0]) and items[0].shape in (Lists(INT), Lists(BOOL)):
        return graph.apply(list_kernels.sums, INT, items[0])
    parts = _spread(graph, items[0]) if len(items) == 1 else ()
    # Python's summation of floats depends on the version.
    if not parts or not all(
        isinstance(one, Expression) and one.shape in (INT, BOOL) for one in parts
    ):
        raise NotCompiled(f"it calls sum with {', '.join(map(named, items)) or 'nothing'}")
    total: Item = graph.const(0)
    for part in parts:
        total = binary(graph, "+", total, part)
    return total


def _to_list(graph: Graph, items: tuple[Item, ...]) -> Item:
    made = as_list(graph, items[0]) if len(items) == 1 else None
    if isinstance(made, Listed):
        return made
    node = _node(items if made is None else (made,), "list")
    if not isinstance(node.shape, Lists):
        raise NotCompiled(f"it calls list with {node.shape}")
    graph.require(node)
    return node


def _to_int(graph: Graph, items: tuple[Item, ...]) -> Item:
    if len(items) == 1 and (micros := micros_in(graph, items[0])) is not None:
        return whole_seconds(graph, micros)
    node = _node(items, "int")
    if node.shape == STR:
        return graph.apply(text_kernels.as_int, INT, node)
    number = _number(graph, node, "int")
    if number.shape == FLOAT:
        return graph.apply(number_kernels.truncated, INT, number)
    graph.require(number)
    return number


def _index(graph: Graph, items: tuple[Item, ...]) -> Item:
    node = _node(items, "operator.index")
    if node.shape not in (INT, BOOL):
        raise NotCompiled(f"it calls operator.index with {node.shape}")
    return _to_int(graph, items)


def _to_float(graph: Graph, items: tuple[Item, ...]) -> Item:
    if len(items) == 1 and (micros := micros_in(graph, items[0])) is not None:
        return binary(graph, "/", micros, graph.const(_MICROS))
    node = _node(items, "float")
    if node.shape == STR:
        return graph.apply(text_kernels.as_float, FLOAT, node)
    number = as_float(graph, _number(graph, node, "float"))
    graph.require(number)
    return number


def _parsed(graph: Graph, items: tuple[Item, ...]) -> Item:
    node = _node(items, "json.loads")
    if node.shape not in (STR, BYTES) or isinstance(node, Const):
        raise NotCompiled(f"it calls json.loads with {node.shape}")
    return graph.document(node)


def _to_bool(graph: Graph, items: tuple[Item, ...]) -> Item:
    if len(items) != 1:
        raise NotCompiled("it calls bool with the wrong number of arguments")
    return graph.truth(items[0])


def _rounding(kernel: Callable[[Value], Vector], name: str) -> Handler:
    def handled(graph: Graph, items: tuple[Item, ...]) -> Item:
        number = _number(graph, _node(items, name), name)
        if number.shape == FLOAT:
            return graph.apply(kernel, INT, number)
        graph.require(number)
        return number

    return handled


def _rounded(graph: Graph, items: tuple[Item, ...]) -> Item:
    if len(items) != 2 or (isinstance(items[1], Const) and items[1].value is None):
        return _rounding(number_kernels.rounded, "round")(
            graph, items[:1] if len(items) == 2 else items
        )
    digits = items[1].value if isinstance(items[1], Const) else None
    if type(digits) is not int or not 0 <= digits <= _MOST_DIGITS:
        raise NotCompiled("it calls round with digits that are not a small constant")
    number = _number(graph, _node(items[:1], "round"), "round")
    if number.shape == FLOAT:
        return graph.apply(number_kernels.rounded_to(digits), FLOAT, number)
    graph.require(number)
    return number


def _divided(graph: Graph, items: tuple[Item, ...]) -> Item:
    if len(items) != 2:
        raise NotCompiled("it raises TypeError")
    return tuple_of(graph, tuple(binary(graph, symbol, *items) for symbol in ("//", "%")))


def _formatted(graph: Graph, items: tuple[Item, ...]) -> Item:
    if len(items) != 2:
        return as_text(graph, _node(items, "format"))
    return in_format(graph, *items)


def _of_float(kernel: Callable[[Value], Vector], name: str, shape: Shape) -> Handler:
    """Return the handler of a math function that converts its argument to float."""

    def handled(graph: Graph, items: tuple[Item, ...]) -> Item:
        number = as_float(graph, _number(graph, _node(items, name), name))
        return graph.apply(kernel, shape, number)

    return handled


def _by_operator(symbol: str) -> Handler:
    def handled(graph: Graph, items: tuple[Item, ...]) -> Item:
        if len(items) != 2:
            raise NotCompiled("it calls a function with the wrong number of arguments")
        operation = compared if symbol in ("<", "<=", ">", ">=", "==", "!=") else binary
        return operation(graph, symbol, *items)

    return handled


def _is_instance(graph: Graph, items: tuple[Item, ...]) -> Item:
    if len(items) != 2 or not isinstance(items[1], Held) or not isinstance(items[0], Expression):
        raise NotCompiled("it calls isinstance with an unsupported argument")
    node, kinds = items[0], _classes(items[1].value)
    of_none = graph.const(issubclass(type(None), kinds))
    match node.shape:
        case Union() if isinstance(node, ColumnRef):
            members = enumerate(node.shape.members)
            codes = tuple(code for code, one in members if issubclass(one.type, kinds))
            return graph.apply(HasTypeCode(codes), BOOL, node)
        case Scalar() | RecordShape():
            is_one = graph.const(issubclass(node.shape.type, kinds))
            if is_one.value == of_none.value or node.shape == NONE:
                return of_none
            if not _are_plain(kinds):
                # The code that follows often applies to one side only.
                graph.require(node)
                return is_one
            return graph.select(is_none(graph, node), of_none, is_one)
    raise NotCompiled(f"it calls isinstance with {node.shape}")


def _class_of(graph: Graph, items: tuple[Item, ...]) -> Item:
    node = _node(items, "type")
    match node.shape:
        case Union() if isinstance(node, ColumnRef):
            return ClassOf(node)
        case Scalar() | RecordShape():
            return graph.select(is_none(graph, node), Held(type(None)), Held(node.shape.type))
    raise NotCompiled(f"it reads the class of {node.shape}")


def _are_plain(kinds: tuple[Any, ...]) -> bool:
    return all(type(kind) is type for kind in kinds)


_ABSTRACT = (Mapping, Sequence)
"""Classes whose isinstance checks consult a registry."""


def _classes(held: Any) -> tuple[type, ...]:
    kinds = held if isinstance(held, tuple) else (held,)
    if not _are_plain(tuple(kind for kind in kinds if kind not in _ABSTRACT)):
        raise NotCompiled("it calls isinstance with an abstract class")
    return kinds


def type_codes(condition: Expression, every: frozenset[int]) -> frozenset[int]:
    """Return the union members, out of ``every``, for which a condition may hold."""
    match condition:
        case Apply(kernel=HasTypeCode(codes)):
            return frozenset(codes)
        case Select(yes=yes, no=Const(value=False)):
            return type_codes(condition.condition, every) & type_codes(yes, every)
    return every


def constructed(graph: Graph, kind: Any, args: tuple[Item, ...], by_name: dict[str, Item]) -> Item:
    """Return an instance of a class.

    Raises:
        NotCompiled: columns cannot hold instances of the class.
    """
    if kind is Row and not args and "self" not in by_name:
        return _record(graph, Row, tuple(by_name), tuple(by_name.values()))
    if kind is TimestampedValue:
        value, time = _bound(("value", "timestamp"), {}, args, by_name)
        if isinstance(value, Stamped | TimestampParts):
            raise NotCompiled(f"it makes a TimestampedValue of {named(value)}")
        return Stamped(value, times.moment(graph, time))
    if kind is WindowFn.AssignContext:
        time, element = _bound(
            ("timestamp", "element"), {"element": graph.const(None)}, args, by_name
        )
        return Assigned(times.moment(graph, time), element)
    if kind is IntervalWindow:
        start, end = _bound(("start", "end"), {}, args, by_name)
        return IntervalParts(times.moment(graph, start), times.moment(graph, end))
    if kind is Duration or (kind is Timestamp and len(args) <= 1):
        zero = graph.const(0)
        names = ("seconds", "micros")
        return times.time_of(graph, kind, *_bound(names, dict.fromkeys(names, zero), args, by_name))
    if is_plain_namedtuple(kind):
        missing = [name for name in kind._fields[len(args) :] if name not in by_name]
        defaults = {
            name: graph.const(kind._field_defaults[name])
            for name in missing
            if name in kind._field_defaults
        }
        fields = _bound(kind._fields, defaults, args, by_name)
        return _record(graph, kind, kind._fields, fields)
    if isinstance(kind, type) and issubclass(kind, BaseException) and _is_python_s_own(kind):
        return Held(kind)
    raise NotCompiled(f"it calls {full_name(kind)}")


def _is_python_s_own(kind: type) -> bool:
    """Return whether creating an instance runs no user code."""
    return kind.__module__ == "builtins" or (
        type(kind) is type
        and not any({"__init__", "__new__"} & vars(one).keys() for one in kind.__mro__[:1])
        and all(map(_is_python_s_own, kind.__bases__))
    )


def _record(graph: Graph, kind: type, names: tuple[str, ...], items: tuple[Item, ...]) -> Made:
    fields = graph.fields(items)
    if fields is None:
        odd = next(item for item in items if not isinstance(item, Expression | TimestampParts))
        raise NotCompiled(f"it makes a {kind.__name__} with {named(odd)} in it")
    return graph.record(RecordShape(kind, names, ()), fields)


def _of_time(made: Callable[[Graph, Item], Item]) -> Handler:
    def handled(graph: Graph, items: tuple[Item, ...]) -> Item:
        if len(items) != 1:
            raise NotCompiled("it raises TypeError")
        return made(graph, items[0])

    return handled


def _bound(
    names: tuple[str, ...],
    defaults: dict[str, Any],
    args: tuple[Item, ...],
    by_name: dict[str, Item],
) -> tuple[Item, ...]:
    """Return the arguments of a call in parameter order."""
    given = dict(zip(names, args, strict=False))
    if len(args) > len(names) or not by_name.keys() <= set(names) - given.keys():
        raise NotCompiled("it raises TypeError")
    given = defaults | given | by_name
    if len(given) < len(names):
        raise NotCompiled("it raises TypeError")
    return tuple(given[name] for name in names)


def _named_tuple_class(graph: Graph, items: tuple[Item, ...]) -> Item:
    """Return the class that Beam makes of a name and the names of fields."""
    given = [item.value for item in items if isinstance(item, Const)]
    if len(given) != 2 or len(items) != 2:
        raise NotCompiled("it makes a NamedTuple class of names that are not constant")
    return Held(named_tuple_class(*given))


def full_name(function: Any) -> str:
    """Return the user-facing name of a function, such as re.match."""
    name = getattr(function, "__qualname__", None) or type(function).__qualname__
    module = getattr(function, "__module__", None)
    if module in (None, "builtins", "__main__"):
        return str(name)
    return f"{module}.{name}"


_KNOWN: dict[Any, Handler] = {
    **METRICS,
    len: _folding(len, _length),
    abs: _folding(abs, _absolute),
    min: _extreme("<", "min"),
    max: _extreme(">", "max"),
    int: _folding(int, _to_int),
    float: _folding(float, _to_float),
    str: lambda graph, items: as_text(graph, _node(items, "str")),
    bool: _to_bool,
    tuple: lambda graph, items: tuple_of(graph, items_of(graph, _node(items, "tuple"))),
    list: _to_list,
    sum: _sum,
    any: partial(has_true, "any"),
    all: partial(has_true, "all"),
    round: _folding(round, _rounded),
    divmod: _folding(divmod, _divided),
    repr: lambda graph, items: as_written(graph, _node(items, "repr")),
    format: _formatted,
    isinstance: _is_instance,
    type: _class_of,
    math.floor: _folding(math.floor, _rounding(number_kernels.floored, "math.floor")),
    math.ceil: _folding(math.ceil, _rounding(number_kernels.raised_up, "math.ceil")),
    math.trunc: _folding(math.trunc, _rounding(number_kernels.truncated, "math.trunc")),
    math.fabs: _folding(math.fabs, _of_float(number_kernels.abs_float, "math.fabs", FLOAT)),
    math.sqrt: _folding(math.sqrt, _of_float(number_kernels.square_root, "math.sqrt", FLOAT)),
    math.isnan: _folding(math.isnan, _of_float(number_kernels.is_nan, "math.isnan", BOOL)),
    math.isinf: _folding(math.isinf, _of_float(number_kernels.is_infinite, "math.isinf", BOOL)),
    math.isfinite: _folding(
        math.isfinite, _of_float(number_kernels.is_finite, "math.isfinite", BOOL)
    ),
    json.loads: _parsed,
    Timestamp.of: _of_time(times.moment),
    Duration.of: _of_time(times.duration),
    named_tuple_class: _named_tuple_class,
    operator.index: _folding(operator.index, _index),
    operator.add: _by_operator("+"),
    operator.sub: _by_operator("-"),
    operator.mul: _by_operator("*"),
    operator.truediv: _by_operator("/"),
    operator.floordiv: _by_operator("//"),
    operator.mod: _by_operator("%"),
    operator.lt: _by_operator("<"),
    operator.le: _by_operator("<="),
    operator.gt: _by_operator(">"),
    operator.ge: _by_operator(">="),
    operator.eq: _by_operator("=="),
    operator.ne: _by_operator("!="),
}
"""Handlers by function object, as a function may have several names."""
