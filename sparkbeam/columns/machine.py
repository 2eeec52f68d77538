"""Symbolic execution of a function's instructions, with expressions in place of values.

At a branch whose condition is an expression, both paths are followed to the point where they join.
Execution goes on with values that depend on the condition. Thus each instruction is executed once
per path, and an expression that may raise is evaluated only for the elements on that path.
"""

import sys
import types

from sparkbeam.columns import comparisons
from sparkbeam.columns.bytecode import (
    EXIT,
    JUMPS_OR_POPS,
    LEAVES_ITERATOR,
    Op,
    Program,
    end_of_round,
    followers,
    head_of,
    names_set,
    program_of,
)
from sparkbeam.columns.calls import full_name
from sparkbeam.columns.captured import CapturedEnvironment
from sparkbeam.columns.expressions import (
    Appended,
    Const,
    Expression,
    Generated,
    Item,
    Iterated,
    Listed,
    Loop,
    Looped,
    Statement,
)
from sparkbeam.columns.graph import Graph
from sparkbeam.columns.instructions import Frame, Instructions
from sparkbeam.columns.objects import Objects, is_generator_function
from sparkbeam.columns.reasons import NotCompiled
from sparkbeam.columns.slots import list_of, selected_slots

_DEEPEST = 10
_MOST_STEPS, _MOST_NESTED = 5000, 40
_COROUTINES = 0x80 | 0x100 | 0x200
_JUMPS_IF_TRUE = frozenset(["jump_if_true", "true_or_pop", "jump_if_none"])


class Machine:
    """Interpreter of functions over expressions.

    Attributes:
        objects: handles calls and attributes.
    """

    def __init__(self, graph: Graph, surroundings: CapturedEnvironment) -> None:
        self._graph = graph
        self._surroundings = surroundings
        self.objects = Objects(graph, surroundings, self._returned)
        self._instructions = Instructions(graph, surroundings, self.objects)
        self._callers: list[types.FunctionType] = []
        self._steps = 0
        self._nested = 0

    def _generator(
        self, function: types.FunctionType, args: list[Item], by_name: dict[str, Item]
    ) -> Generated:
        """Return a generator that has not started."""
        graph = self._graph
        updates = graph.updates
        with graph.collected() as statements:
            items = self._run_function(function, args, by_name).yielded
        return Generated(items, tuple(statements), graph.around, graph.updates > updates)

    def _returned(
        self, function: types.FunctionType, args: list[Item], by_name: dict[str, Item]
    ) -> Item | None:
        try:
            if is_generator_function(function):
                return self._generator(function, args, by_name)
            return self._run_function(function, args, by_name).result
        except NotCompiled as refusal:
            raise NotCompiled(self._blamed(function, str(refusal))) from None

    def _blamed(self, function: types.FunctionType, reason: str) -> str:
        """Return the reason for refusing a function, as seen by the function that calls it."""
        caller = self._callers[-1] if self._callers else None
        if caller is None or _package(caller) == "apache_beam":
            return reason
        called = f"it calls {full_name(function)}"
        is_python_s_own = _package(function) in sys.stdlib_module_names - {"__main__"}
        return called if is_python_s_own else f"{called}, where {reason}"

    def _run_function(
        self, function: types.FunctionType, args: list[Item], by_name: dict[str, Item]
    ) -> Frame:
        if len(self._callers) == _DEEPEST:
            raise NotCompiled(f"it calls {full_name(function)} too deeply")
        code = self._surroundings.code_of(function)
        if code.co_flags & _COROUTINES:
            raise NotCompiled("it is a coroutine")
        program = program_of(code)
        frame = Frame(function, self.objects.bound(function, args, by_name))
        self._callers.append(function)
        try:
            self._run(program, 0, EXIT, frame)
        finally:
            self._callers.pop()
        return frame

    def _run(self, program: Program, at: int, stop: int, frame: Frame) -> None:
        """Run up to a position at which all paths join."""
        while at != stop:
            self._steps += 1
            if self._steps > _MOST_STEPS:
                raise NotCompiled("it has too many paths")
            if at < EXIT:
                at = head_of(at)
            if at < 0 or (frame.within is not None and at not in frame.within):
                raise NotCompiled("it leaves a loop before its end")
            op = program.ops[at]
            if op.name == "for":
                at = self._next_round(program, at, frame)
            elif op.target is None or op.name == "jump":
                self._instructions.do(op, frame)
                at = followers(program.ops, at)[0]
            else:
                at = self._jump(program, at, frame)

    def _next_round(self, program: Program, head: int, frame: Frame) -> int:
        """Begin an iteration of a loop, or run all of them; return the next position."""
        iterated = frame.stack[-1]
        if not isinstance(iterated, Iterated):
            return self._loop(program, head, frame)
        if iterated.items:
            first, *others = iterated.items
            frame.stack[-1:] = [Iterated(tuple(others)), first]
            return head + 1
        return self._behind(program, head, frame)

    def _behind(self, program: Program, head: int, frame: Frame) -> int:
        """Leave a loop; return the next position."""
        if not LEAVES_ITERATOR:
            frame.stack.pop()
        target = program.ops[head].target
        assert target is not None
        return target

    def _loop(self, program: Program, head: int, frame: Frame) -> int:
        """Run one iteration of a loop over expressions; return the position behind the loop.

        Iterations are independent: a variable that an iteration assigns is unbound at its start and
        after the loop.
        """
        target = program.ops[head].target
        assert target is not None
        lists = frame.stack[-1]
        assert isinstance(lists, Expression)
        within = range(head + 1, target)
        for name in names_set(program.ops[within.start : within.stop]):
            frame.locals.pop(name, None)
        one, stack = frame.copy(), frame.stack
        one.yielded, one.within = (), within
        one.stack = [Appended(()) if isinstance(x, Listed | Appended) else x for x in stack]
        with self._graph.iteration(lists) as (loop, item):
            one.stack.append(item)
            self._run(program, within.start, end_of_round(head), one)
        if one.result is not None:
            raise NotCompiled("it returns within a loop")
        frame.yielded += _looped(loop, one.yielded)
        for at, (below, after) in enumerate(zip(stack, one.stack, strict=True)):
            if isinstance(after, Appended) and after.items:
                assert isinstance(below, Listed | Appended)
                items = (*below.items, *_looped(loop, after.items))
                is_in_loop = isinstance(below, Appended)
                stack[at] = Appended(items) if is_in_loop else list_of(self._graph, items)
        return self._behind(program, head, frame)

    def _jump(self, program: Program, at: int, frame: Frame) -> int:
        """Follow one path of a jump or both; return the next position."""
        op = program.ops[at]
        condition = self._condition(op, frame)
        target, after = followers(program.ops, at)
        yes, no = (target, after) if op.name in _JUMPS_IF_TRUE else (after, target)
        if not isinstance(condition, Const):
            return self._both_ways(program, at, condition, (yes, no), frame)
        way = yes if condition.value else no
        self._after_jump(op, frame, way == target)
        return way

    def _both_ways(
        self,
        program: Program,
        at: int,
        condition: Expression,
        targets: tuple[int, int],
        frame: Frame,
    ) -> int:
        """Follow both paths to the position where they join; return it."""
        meet = program.meets[at]
        if self._nested == _MOST_NESTED:
            raise NotCompiled("it has too many paths")
        self._nested += 1
        ways: list[tuple[Frame, list[Statement]]] = []
        for holds, target in zip((True, False), targets, strict=True):
            way = frame.copy()
            self._after_jump(program.ops[at], way, target == program.ops[at].target)
            if not holds:
                self._graph.replace_absent(condition, way.stack)
            with self._graph.collected() as statements:
                self._run(program, target, meet, way)
            ways.append((way, statements))
        self._nested -= 1
        (yes, if_yes), (no, if_no) = ways
        self._graph.branch(condition, if_yes, if_no)
        self._merge(condition, yes, no, frame)
        return meet

    def _merge(self, condition: Expression, yes: Frame, no: Frame, frame: Frame) -> None:
        select = self._graph.select
        frame.shared = yes.shared | no.shared
        if yes.result is not None or no.result is not None:
            # A way without a result has failed.
            frame.result = (
                select(condition, yes.result, no.result)
                if yes.result is not None and no.result is not None
                else yes.result or no.result
            )
        elif len(yes.stack) == len(no.stack):
            stacks = zip(yes.stack, no.stack, strict=True)
            frame.stack = [
                Appended(selected_slots(self._graph, condition, one.items, other.items))
                if isinstance(one, Appended) and isinstance(other, Appended)
                else select(condition, one, other)
                for one, other in stacks
            ]
        both = yes.locals.keys() & no.locals.keys()
        frame.locals = {name: select(condition, yes.locals[name], no.locals[name]) for name in both}
        frame.yielded = selected_slots(self._graph, condition, yes.yielded, no.yielded)

    def _condition(self, op: Op, frame: Frame) -> Expression:
        """Return the condition of a jump."""
        if op.name in JUMPS_OR_POPS:
            return self._graph.truth(frame.stack[-1])
        item = frame.stack.pop()
        if op.name in ("jump_if_none", "jump_if_not_none"):
            return comparisons.is_none(self._graph, item)
        return self._graph.truth(item)

    def _after_jump(self, op: Op, frame: Frame, jumps: bool) -> None:
        if op.name in JUMPS_OR_POPS and not jumps:
            frame.stack.pop()


def _package(function: types.FunctionType) -> str:
    return (function.__module__ or "").partition(".")[0]


def _looped(loop: Loop, items: tuple[Item, ...]) -> tuple[Item, ...]:
    """Return the values that a loop emits, given those of one iteration."""
    return tuple(Looped(loop, item) for item in items)
