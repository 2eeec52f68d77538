"""Effects of each instruction on the stack and variables of a function."""

import types
from dataclasses import dataclass, field, replace
from typing import Any

from sparkbeam.columns import comparisons, operators
from sparkbeam.columns.bytecode import Op
from sparkbeam.columns.captured import CapturedEnvironment
from sparkbeam.columns.expressions import (
    NULL,
    Appended,
    Const,
    Expression,
    Generated,
    Held,
    Item,
    Iterated,
    Listed,
    Method,
    Named,
    Slice,
)
from sparkbeam.columns.graph import Graph, named
from sparkbeam.columns.list_calls import as_list
from sparkbeam.columns.objects import Objects
from sparkbeam.columns.python_types import Lists, is_tuple
from sparkbeam.columns.reasons import NotCompiled
from sparkbeam.columns.times import computed


@dataclass
class Frame:
    """The state of a function on one path through it.

    Attributes:
        locals: its variables that are bound on this path.
        yielded: the values yielded so far; NOTHING where a value may not have been.
        keywords: the names of the next call's last arguments.
        result: the return value, once known.
        within: the instructions of the loop that it is an iteration of.
        shared: its variables that functions defined by it read.
    """

    function: types.FunctionType
    locals: dict[str, Item]
    stack: list[Item] = field(default_factory=list)
    yielded: tuple[Item, ...] = ()
    keywords: tuple[str, ...] = ()
    result: Item | None = None
    within: range | None = None
    shared: frozenset[str] = frozenset()

    def copy(self) -> "Frame":
        """Return a copy for another path."""
        return replace(self, locals=dict(self.locals), stack=list(self.stack), result=None)

    def pop(self, count: int) -> list[Item]:
        """Pop the last items of the stack, in order."""
        items = self.stack[len(self.stack) - count :]
        del self.stack[len(self.stack) - count :]
        return items


class Instructions:
    """All instructions but jumps, each a method of its name.

    Args:
        objects: handles calls and attributes.
    """

    def __init__(self, graph: Graph, surroundings: CapturedEnvironment, objects: Objects) -> None:
        self._graph = graph
        self._surroundings = surroundings
        self._objects = objects
        self._variables: dict[types.FunctionType, dict[str, Item]] = {}

    def do(self, op: Op, frame: Frame) -> None:
        """Execute one instruction.

        Raises:
            NotCompiled: it has no columnar form.
        """
        if op.name == "unknown":
            raise NotCompiled(op.arg)
        getattr(self, f"_op_{op.name}")(frame, op.arg)

    def _op_jump(self, frame: Frame, arg: Any) -> None:
        pass

    def _op_iterate(self, frame: Frame, arg: Any) -> None:
        item = frame.stack[-1]
        if isinstance(item, Generated):
            item = frame.stack[-1] = as_list(self._graph, item)
        if isinstance(item, Expression) and isinstance(item.shape, Lists):
            self._graph.require(item)
            return
        if not isinstance(item, Listed) and not (
            isinstance(item, Expression) and is_tuple(item.shape)
        ):
            raise NotCompiled("it has a loop")
        frame.stack[-1] = Iterated(self._spread(item))

    def _op_const(self, frame: Frame, arg: Any) -> None:
        frame.stack.append(Held(arg) if isinstance(arg, type) else self._objects.held(arg))

    def _op_local(self, frame: Frame, name: str) -> None:
        if name not in frame.locals:
            raise NotCompiled(f"its variable {name} may have no value")
        frame.stack.append(frame.locals[name])

    def _op_locals(self, frame: Frame, names: tuple[str, ...]) -> None:
        for name in names:
            self._op_local(frame, name)

    def _op_store(self, frame: Frame, name: str) -> None:
        item = frame.stack.pop()
        if item is NULL:
            frame.locals.pop(name, None)
        else:
            frame.locals[name] = item

    def _op_local_and_clear(self, frame: Frame, name: str) -> None:
        frame.stack.append(frame.locals.pop(name, NULL))

    def _op_store_shared(self, frame: Frame, name: str) -> None:
        # A function that reads the variable would get the new value.
        if name in frame.shared or name in frame.function.__code__.co_freevars:
            raise NotCompiled("it assigns a variable of an enclosing function")
        self._op_store(frame, name)

    def _op_stores(self, frame: Frame, names: tuple[str, ...]) -> None:
        for name in names:
            self._op_store(frame, name)

    def _op_store_local(self, frame: Frame, names: tuple[str, str]) -> None:
        self._op_store(frame, names[0])
        self._op_local(frame, names[1])

    def _op_global(self, frame: Frame, name: str) -> None:
        value = self._surroundings.global_of(frame.function, name)
        frame.stack.append(self._objects.found(value, frame.function, name))

    def _op_free(self, frame: Frame, name: str) -> None:
        if name in frame.function.__code__.co_cellvars:
            self._op_local(frame, name)
            return
        shared = self._variables.get(frame.function)
        if shared is not None:
            if shared[name] is NULL:
                raise NotCompiled(f"its variable {name} may have no value")
            frame.stack.append(shared[name])
            return
        value = self._surroundings.free_variable(frame.function, name)
        frame.stack.append(self._objects.found(value, frame.function, name))

    def _op_share(self, frame: Frame, name: str) -> None:
        frame.shared |= {name}
        if name in frame.function.__code__.co_cellvars and name not in frame.locals:
            self._op_null(frame, None)
        else:
            self._op_free(frame, name)
        frame.stack.append(Held((name, frame.stack.pop())))

    def _op_function(self, frame: Frame, arg: Any) -> None:
        code = frame.stack.pop()
        assert isinstance(code, Held)
        cells = tuple(types.CellType() for _ in code.value.co_freevars)
        made = types.FunctionType(code.value, frame.function.__globals__, closure=cells)
        self._variables[made] = {}
        frame.stack.append(Held(made))

    def _op_closure(self, frame: Frame, arg: Any) -> None:
        shared, made = frame.pop(2)
        assert isinstance(shared, Held)
        assert isinstance(made, Held)
        self._variables[made.value] = dict(shared.value)
        frame.stack.append(made)

    def _op_null(self, frame: Frame, arg: Any) -> None:
        frame.stack.append(NULL)

    def _op_attr(self, frame: Frame, name: str) -> None:
        frame.stack.append(self._objects.read(frame.stack.pop(), name))

    def _op_method(self, frame: Frame, name: str) -> None:
        owner = frame.stack.pop()
        found = self._objects.attribute(owner, name)
        # A call follows: whether there is such a method is seen then.
        frame.stack += [NULL, Method(owner, name) if found is None else found]

    def _op_binary(self, frame: Frame, symbol: str) -> None:
        frame.stack.append(computed(self._graph, symbol, *frame.pop(2)))

    def _op_compare(self, frame: Frame, symbol: str) -> None:
        frame.stack.append(comparisons.compared(self._graph, symbol, *frame.pop(2)))

    def _op_unary(self, frame: Frame, symbol: str) -> None:
        frame.stack.append(operators.unary(self._graph, symbol, frame.stack.pop()))

    def _op_to_bool(self, frame: Frame, arg: Any) -> None:
        frame.stack.append(self._graph.truth(frame.stack.pop()))

    def _op_is(self, frame: Frame, inverted: int) -> None:
        self._push_condition(frame, comparisons.same_object(self._graph, *frame.pop(2)), inverted)

    def _op_in(self, frame: Frame, inverted: int) -> None:
        self._push_condition(frame, comparisons.contains(self._graph, *frame.pop(2)), inverted)

    def _push_condition(self, frame: Frame, condition: Expression, inverted: int) -> None:
        frame.stack.append(self._graph.negated(condition) if inverted else condition)

    def _op_subscript(self, frame: Frame, arg: Any) -> None:
        frame.stack.append(operators.subscript(self._graph, *frame.pop(2)))

    def _op_slice(self, frame: Frame, arg: Any) -> None:
        owner, start, stop = frame.pop(3)
        part = self._slice([start, stop])
        frame.stack.append(operators.subscript(self._graph, owner, part))

    def _op_build_slice(self, frame: Frame, count: int) -> None:
        frame.stack.append(self._slice(frame.pop(count)))

    def _slice(self, bounds: list[Item]) -> Slice:
        if not all(isinstance(bound, Const) for bound in bounds):
            raise NotCompiled("it takes a slice with bounds that are not constant")
        return Slice(slice(*(bound.value for bound in bounds if isinstance(bound, Const))))

    def _op_tuple(self, frame: Frame, count: int) -> None:
        frame.stack.append(self._objects.tuple_of(frame.pop(count)))

    def _op_list(self, frame: Frame, count: int) -> None:
        frame.stack.append(Listed(tuple(frame.pop(count))))

    def _op_extend(self, frame: Frame, depth: int) -> None:
        more = frame.stack.pop()
        into = frame.stack[-depth]
        if not isinstance(into, Listed):
            raise NotCompiled("it builds a list of unsupported items")
        frame.stack[-depth] = Listed((*into.items, *self._spread(more)))

    def _op_append(self, frame: Frame, depth: int) -> None:
        more = frame.stack.pop()
        into = frame.stack[-depth]
        if not isinstance(into, Listed | Appended):
            raise NotCompiled("it builds a list of unsupported items")
        frame.stack[-depth] = type(into)((*into.items, more))

    def _op_list_to_tuple(self, frame: Frame, arg: Any) -> None:
        (items,) = frame.pop(1)
        assert isinstance(items, Listed)
        frame.stack.append(self._objects.tuple_of(list(items.items)))

    def _spread(self, item: Item) -> tuple[Item, ...]:
        if isinstance(item, Listed):
            return item.items
        return operators.items_of(self._graph, item)

    def _op_map(self, frame: Frame, count: int) -> None:
        parts = frame.pop(2 * count)
        names = [key.value if isinstance(key, Const) else None for key in parts[::2]]
        self._push_named(frame, names, parts[1::2])

    def _op_const_key_map(self, frame: Frame, count: int) -> None:
        (keys,) = frame.pop(1)
        names = list(keys.value) if isinstance(keys, Const) else []
        self._push_named(frame, names, frame.pop(count))

    def _push_named(self, frame: Frame, names: list[Any], items: list[Item]) -> None:
        if not all(type(name) is str for name in names) or len(set(names)) < len(items):
            raise NotCompiled("it builds a dict with keys that are not constant text")
        frame.stack.append(self._objects.dict_of(dict(zip(names, items, strict=True))))

    def _op_merge(self, frame: Frame, depth: int) -> None:
        more = self._objects.named_in(frame.stack.pop())
        into = self._objects.named_in(frame.stack[-depth])
        if into.keys() & more.keys():
            raise NotCompiled("it raises TypeError")
        frame.stack[-depth] = Named(into | more)

    def _op_update(self, frame: Frame, depth: int) -> None:
        more = self._objects.named_in(frame.stack.pop())
        into = self._objects.named_in(frame.stack[-depth])
        frame.stack[-depth] = self._objects.dict_of(into | more)

    def _op_string(self, frame: Frame, count: int) -> None:
        frame.stack.append(operators.formatted(self._graph, tuple(frame.pop(count))))

    def _op_format_simple(self, frame: Frame, arg: Any) -> None:
        frame.stack.append(operators.as_text(self._graph, frame.stack.pop()))

    def _op_format_spec(self, frame: Frame, arg: Any) -> None:
        frame.stack.append(operators.in_format(self._graph, *frame.pop(2)))

    def _op_convert(self, frame: Frame, function: str) -> None:
        if function == "ascii":
            raise NotCompiled("it calls ascii")
        convert = operators.as_text if function == "str" else operators.as_written
        frame.stack.append(convert(self._graph, frame.stack.pop()))

    def _op_swap(self, frame: Frame, depth: int) -> None:
        stack = frame.stack
        stack[-1], stack[-depth] = stack[-depth], stack[-1]

    def _op_copy(self, frame: Frame, depth: int) -> None:
        frame.stack.append(frame.stack[-depth])

    def _op_pop(self, frame: Frame, arg: Any) -> None:
        frame.stack.pop()

    def _op_unpack(self, frame: Frame, count: int) -> None:
        frame.stack += reversed(operators.unpacked(self._graph, frame.stack.pop(), count))

    def _op_kw_names(self, frame: Frame, names: tuple[str, ...]) -> None:
        frame.keywords = names

    def _op_call(self, frame: Frame, count: int) -> None:
        names, frame.keywords = frame.keywords, ()
        self._call_on_stack(frame, count, names)

    def _op_call_kw(self, frame: Frame, count: int) -> None:
        (names,) = frame.pop(1)
        assert isinstance(names, Const)
        self._call_on_stack(frame, count, names.value)

    def _call_on_stack(self, frame: Frame, count: int, names: tuple[str, ...]) -> None:
        args = frame.pop(count)
        by_name = dict(zip(names, args[len(args) - len(names) :], strict=True))
        self._push_called(frame, args[: len(args) - len(names)], by_name)

    def _op_call_ex(self, frame: Frame, flags: int) -> None:
        by_name = self._objects.named_in(frame.stack.pop() if flags & 1 else Named({}))
        spread = self._spread(frame.stack.pop())
        self._push_called(frame, list(spread), by_name)

    def _push_called(self, frame: Frame, args: list[Item], by_name: dict[str, Item]) -> None:
        # The callable is beside a NULL: before it from 3.13, after it until 3.12. Or it is a
        # method, and its first argument comes after it.
        one, other = frame.pop(2)
        callee = other if one is NULL else one
        if NULL not in (one, other):
            args = [other, *args]
        if isinstance(callee, Method):
            result = self._objects.method(callee.owner, callee.name, args, by_name)
        elif isinstance(callee, Held):
            result = self._objects.call(callee.value, args, by_name)
        else:
            raise NotCompiled(f"it calls {named(callee)}")
        frame.stack.append(result)

    def _op_return(self, frame: Frame, arg: Any) -> None:
        frame.result = frame.stack.pop()

    def _op_raise(self, frame: Frame, arg: Any) -> None:
        self._graph.fail("it raises an exception")

    def _op_generator(self, frame: Frame, arg: Any) -> None:
        frame.stack.append(self._graph.const(None))

    def _op_yield(self, frame: Frame, arg: Any) -> None:
        frame.yielded = (*frame.yielded, frame.stack.pop())
        frame.stack.append(self._graph.const(None))
