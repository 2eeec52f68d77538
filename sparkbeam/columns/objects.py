"""Calls and attributes of Python objects."""

import functools
import operator
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from apache_beam.metrics.execution import MetricUpdater
from apache_beam.utils.timestamp import Duration, Timestamp

from sparkbeam.columns import operators
from sparkbeam.columns.calls import constructed, full_name, known_function
from sparkbeam.columns.captured import CapturedEnvironment, is_defined, is_of_process
from sparkbeam.columns.expressions import (
    NOTHING,
    Assigned,
    ColumnRef,
    Const,
    Contents,
    DurationParts,
    Expression,
    Held,
    IntervalParts,
    Item,
    Listed,
    Named,
    Slice,
    TimestampParts,
)
from sparkbeam.columns.graph import Graph, named
from sparkbeam.columns.list_calls import CONSUMERS, ORDERS, as_list, is_list, ordered
from sparkbeam.columns.methods import of_dict, of_table, of_text, replaced_fields
from sparkbeam.columns.metric_calls import counted
from sparkbeam.columns.plain_data import is_plain
from sparkbeam.columns.python_types import (
    BYTES,
    STR,
    RecordShape,
    Scalar,
    Table,
    Union,
    is_dict,
    is_field,
    is_plain_namedtuple,
)
from sparkbeam.columns.reasons import NotCompiled
from sparkbeam.columns.times import (
    is_datetime,
    micros_in,
    newest,
    of_datetime,
    whole_seconds,
)

_VARARGS, _VARKEYWORDS = 0x04, 0x08
_MOST_ITEMS = 10_000
"""Lookups in a mutable container, guarded for each block."""


@dataclass(frozen=True)
class Keyed:
    """A function that returns pairs of a key and a list of values, by its parts.

    Attributes:
        keys: functions that return the fields of a key.
    """

    key_type: type
    keys: tuple[Callable[[Any], Any], ...]
    values: tuple[Callable[[Any], Any], ...]


Inliner = Callable[[types.FunctionType, list[Item], dict[str, Item]], Item | None]
"""Returns the result of a call of a Python function; None if it always raises.

A generator function returns a generator.
"""


class Objects:
    """Resolver of calls and attributes of objects.

    Args:
        inline: compiles calls of Python functions.
    """

    def __init__(self, graph: Graph, surroundings: CapturedEnvironment, inline: Inliner) -> None:
        self._graph = graph
        self._surroundings = surroundings
        self._inline = inline

    def call(self, callee: Any, args: list[Item], by_name: dict[str, Item] | None = None) -> Item:
        """Call a Python object.

        Raises:
            NotCompiled: the call has no columnar form.
        """
        given = by_name or {}
        if isinstance(callee, types.BuiltinFunctionType) and callee in CONSUMERS:
            args = [as_list(self._graph, arg) for arg in args]
            if callee in ORDERS and (given or callee is sorted or any(map(is_list, args[:1]))):
                return ordered(self._graph, self.call, callee, args, given)
        handler = known_function(callee)
        if handler is not None:
            if given:
                raise NotCompiled(f"it calls {full_name(callee)} with keyword arguments")
            return handler(self._graph, tuple(args))
        if callee is getattr:
            return self._named_attribute(args, given)
        match callee:
            case MetricUpdater() if not given:
                return counted(self._graph, callee, tuple(args))
            case functools.partial():
                bound = [self.held(arg) for arg in callee.args]
                known = {name: self.held(value) for name, value in callee.keywords.items()}
                return self.call(callee.func, [*bound, *args], known | given)
            case types.FunctionType():
                result = self._inline(callee, args, given)
                return NOTHING if result is None else result
            case types.MethodType() if isinstance(callee.__func__, types.FunctionType):
                return self.call(callee.__func__, [self.held(callee.__self__), *args], given)
            case operator.itemgetter():
                return self._got(callee, args, self._item)
            case operator.attrgetter():
                return self._got(callee, args, self._attributes)
            case types.MethodDescriptorType() if _is_method_of(callee, args):
                return self.method(args[0], callee.__name__, args[1:], given)
        if isinstance(callee, type):
            self._surroundings.of_class(callee, "__new__")
            return constructed(self._graph, callee, tuple(args), given)
        of_class = self._surroundings.of_class(type(callee), "__call__")
        if isinstance(of_class, types.FunctionType):
            return self.call(of_class, [self.held(callee), *args], given)
        raise NotCompiled(f"it calls {full_name(callee)}")

    def held(self, value: Any) -> Item:
        """Return a captured object, as a constant if it is plain data."""
        if is_plain(value):
            return self._graph.const(value)
        if type(value) in (Timestamp, Duration):
            try:
                micros = self._graph.const(value.micros)
            except ValueError:
                raise NotCompiled("it uses a Timestamp finer than a microsecond") from None
            return TimestampParts(micros) if type(value) is Timestamp else DurationParts(micros)
        if type(value) in (set, list, dict) and len(value) <= _MOST_ITEMS:
            items = self._surroundings.contents_of(value)
            return Contents(type(value), items)
        if isinstance(value, list | dict | set | bytearray):
            raise NotCompiled(f"it uses a {type(value).__name__}, which may change")
        return Held(value)

    def found(self, value: Any, owner: Any, name: str) -> Item:
        """Return a looked-up object; as an unknown value, if it may differ in another process.

        Args:
            owner: the owner of the name; see :func:`~sparkbeam.columns.captured.is_of_process`.
        """
        if not is_of_process(owner, name) or is_defined(value, name):
            return self.held(value)
        self._surroundings.is_told_apart = True
        return self._graph.unknown(value, name) if self._surroundings.is_open else self.held(value)

    def _named_attribute(self, args: list[Item], by_name: dict[str, Item]) -> Item:
        """Compute ``getattr``."""
        name = args[1].value if len(args) == 2 and isinstance(args[1], Const) else None
        if type(name) is not str or by_name:
            raise NotCompiled("it calls getattr with a name that is not constant")
        return self.read(args[0], name)

    def keyed(self, function: Keyed, args: list[Item]) -> Item:
        """Return the pair of a key and a list."""
        key = self.call(function.key_type, [self.call(one, args) for one in function.keys])
        values = [self.call(one, args) for one in function.values]
        return self.tuple_of([key, self._list_of(values)])

    def _list_of(self, items: list[Item]) -> Item:
        fields = tuple(item for item in items if isinstance(item, Expression))
        if len(fields) < len(items):
            odd = next(item for item in items if not isinstance(item, Expression))
            raise NotCompiled(f"it makes a list with {named(odd)} in it")
        names = tuple(str(at) for at in range(len(fields)))
        return self._graph.record(RecordShape(list, names, ()), fields)

    def _got(self, getter: Any, args: list[Item], get: Callable[[Item, Any], Item]) -> Item:
        keys = getter.__reduce__()[1]
        if len(args) != 1:
            raise NotCompiled("it raises TypeError")
        items = [get(args[0], key) for key in keys]
        return items[0] if len(items) == 1 else self.tuple_of(items)

    def _item(self, owner: Item, key: Any) -> Item:
        index = Slice(key) if isinstance(key, slice) else self.held(key)
        return operators.subscript(self._graph, owner, index)

    def _attributes(self, owner: Item, path: str) -> Item:
        for name in path.split("."):
            owner = self.read(owner, name)
        return owner

    def dict_of(self, items: dict[str, Item]) -> Item:
        """Return a dict of columns, or named arguments if some items are not columns."""
        fields = self._graph.fields(items.values())
        if fields is None:
            return Named(items)
        return self._graph.record(RecordShape(dict, tuple(items), ()), fields)

    def named_in(self, item: Item) -> dict[str, Item]:
        """Return the items of a dict by their keys."""
        if isinstance(item, Named):
            return item.items
        if not isinstance(item, Expression) or not is_dict(item.shape):
            raise NotCompiled(f"it uses {named(item)} as a dict")
        assert isinstance(item.shape, RecordShape)
        return dict(zip(item.shape.names, operators.fields_of(self._graph, item), strict=True))

    def tuple_of(self, items: list[Item]) -> Item:
        """Return a tuple of columns or of objects."""
        fields = self._graph.fields(items)
        if fields is not None:
            return operators.tuple_of(self._graph, fields)
        if all(isinstance(item, Held | Const) for item in items):
            return Held(tuple(item.value for item in items if isinstance(item, Held | Const)))
        if any(isinstance(item, IntervalParts) for item in items):
            return Listed(tuple(items))
        odd = next(item for item in items if not isinstance(item, Expression | TimestampParts))
        raise NotCompiled(f"it makes a tuple with {named(odd)} in it")

    def bound(
        self, function: types.FunctionType, args: list[Item], by_name: dict[str, Item]
    ) -> dict[str, Item]:
        """Return the variables that are bound when a call of a function starts."""
        code = function.__code__
        by_position = code.co_varnames[: code.co_argcount]
        count = code.co_argcount + code.co_kwonlyargcount
        names = code.co_varnames[:count]
        bound: dict[str, Item] = dict(zip(by_position, args, strict=False))
        more, given = args[len(by_position) :], dict(by_name)
        for name in names[code.co_posonlyargcount :]:
            if name in given and name in bound:
                raise NotCompiled("it raises TypeError")
            if name in given:
                bound[name] = given.pop(name)
        defaults = function.__defaults__ or ()
        late = dict(zip(by_position[len(by_position) - len(defaults) :], defaults, strict=True))
        for name in names:
            if name not in bound:
                late |= function.__kwdefaults__ or {}
                if name not in late:
                    raise NotCompiled("it raises TypeError")
                bound[name] = self.found(late[name], function, name)
        if code.co_flags & _VARARGS:
            bound[code.co_varnames[count]] = self.tuple_of(more)
            count, more = count + 1, []
        if code.co_flags & _VARKEYWORDS:
            bound[code.co_varnames[count]] = Named(given)
            given = {}
        if more or given:
            raise NotCompiled("it raises TypeError")
        return bound

    def read(self, owner: Item, name: str) -> Item:
        """Return an attribute.

        Raises:
            NotCompiled: there is none besides a method.
        """
        found = self.attribute(owner, name)
        if found is None:
            raise NotCompiled(f"it reads .{name} of {named(owner)}")
        return found

    def attribute(self, owner: Item, name: str) -> Item | None:
        """Return an attribute; None if there is none besides a method."""
        if isinstance(owner, Held):
            return self._attribute_of_object(owner.value, name)
        if name == "micros" and (micros := micros_in(self._graph, owner)) is not None:
            return micros
        if isinstance(owner, DurationParts) and name == "micros":
            return owner.micros
        if isinstance(owner, IntervalParts) and name in ("start", "end"):
            return owner.start if name == "start" else owner.end
        if isinstance(owner, Assigned) and name in ("timestamp", "element"):
            return owner.timestamp if name == "timestamp" else owner.element
        if not isinstance(owner, Expression):
            return None
        shape = owner.shape
        if isinstance(shape, RecordShape):
            return self._attribute_of_record(owner, shape, name)
        if isinstance(shape, Union) and isinstance(owner, ColumnRef):
            if any(name in one.names and not is_field(one, name) for one in shape.members):
                return None
            return self._graph.of_union(owner, name)
        return None

    def _attribute_of_record(
        self, owner: Expression, record: RecordShape, name: str
    ) -> Item | None:
        if is_field(record, name):
            if issubclass(record.type, tuple):
                self._surroundings.of_class(record.type, name)
            return operators.items_of(self._graph, owner)[record.names.index(name)]
        found = self._of_class(record.type, name)
        if isinstance(found, property) and isinstance(found.fget, types.FunctionType):
            self._graph.require(owner)
            return self.call(found.fget, [owner])
        return None

    def _of_class(self, kind: type, name: str) -> Any:
        """Return what a NamedTuple's class defines under a name itself; None if nothing."""
        if not is_plain_namedtuple(kind):
            return None
        if not any(name in vars(one) for one in kind.__mro__ if one not in (tuple, object)):
            return None
        return self._surroundings.of_class(kind, name)

    def _attribute_of_object(self, owner: Any, name: str) -> Item:
        if owner in (Timestamp, Duration) and name == "of":
            return Held(owner.of)
        if (owner is str or owner is bytes) and isinstance(
            vars(owner).get(name), types.MethodDescriptorType
        ):
            return Held(vars(owner)[name])
        return self.found(self._surroundings.attribute(owner, name), owner, name)

    def method(self, owner: Item, name: str, args: list[Item], by_name: dict[str, Item]) -> Item:
        """Call a method of a value."""
        if isinstance(owner, IntervalParts) and name == "max_timestamp" and not (args or by_name):
            return newest(self._graph, owner)
        micros = micros_in(self._graph, owner) if name == "seconds" else None
        if micros is not None and not (args or by_name):
            return whole_seconds(self._graph, micros)
        if not isinstance(owner, Expression):
            raise NotCompiled(f"it calls .{name} of {named(owner)}")
        shape = owner.shape
        if shape in (STR, BYTES):
            if by_name:
                raise NotCompiled(f"it calls {shape}.{name} with keyword arguments")
            return of_text(self._graph, owner, name, tuple(args))
        if is_dict(shape):
            return of_dict(self._graph, owner, name, tuple(args), by_name)
        if isinstance(shape, Table):
            return of_table(self._graph, owner, name, tuple(args), by_name)
        if is_datetime(shape) and not by_name:
            return of_datetime(self._graph, owner, name, tuple(args))
        if isinstance(shape, RecordShape) and is_plain_namedtuple(shape.type):
            self._graph.require(owner)
            if name == "_replace" and not args and _is_of_namedtuples(shape.type, name):
                return replaced_fields(self._graph, owner, by_name)
            method = self._of_class(shape.type, name)
            if isinstance(method, types.FunctionType) and method.__module__ != "collections":
                return self.call(method, [owner, *args], by_name)
        raise NotCompiled(f"it calls {shape}.{name}")


def _is_method_of(method: types.MethodDescriptorType, args: list[Item]) -> bool:
    """Return whether a method descriptor of str or bytes is called on a value of that type."""
    owner = args[0] if args else None
    return isinstance(owner, Expression) and owner.shape == Scalar(method.__objclass__)


def _is_of_namedtuples(kind: type, name: str) -> bool:
    made = getattr(kind, name)
    return getattr(made, "__module__", None) == "collections"


def is_generator_function(function: types.FunctionType) -> bool:
    """Return whether calling a function returns a generator."""
    return bool(function.__code__.co_flags & 0x20)
