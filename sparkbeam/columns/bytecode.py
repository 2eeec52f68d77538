"""Instructions of a function, normalized across Python 3.11, 3.12 and 3.13.

The operation names belong to this module. ``_PLAIN`` and ``_SPECIAL`` map the opcodes of each
version to them, and are the only version-dependent parts.
"""

import dis
import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType
from typing import Any
from weakref import WeakKeyDictionary

EXIT = -1
"""Position of the end of a function."""

_FIRST_END = -2


def end_of_round(head: int) -> int:
    """Return the position that stands for the end of an iteration of a loop.

    The position is unique to the loop and differs from all instruction positions.

    Args:
        head: the position of the ``for``.
    """
    return _FIRST_END - head


def head_of(end: int) -> int:
    """Return the position of the ``for`` whose iteration ends at this position."""
    return _FIRST_END - end


@dataclass(frozen=True)
class Op:
    """One instruction.

    Attributes:
        arg: its operand: a name, a constant or a number.
        target: the jump target; None if execution continues with the next instruction.
    """

    name: str
    arg: Any = None
    target: int | None = None


@dataclass(frozen=True)
class Program:
    """The instructions of a function.

    Attributes:
        meets: per instruction, the position where all paths from it join again; EXIT if they join
            only by returning. Paths skip the body of a loop; paths inside a body lead to the end of
            the iteration or leave the loop.
    """

    ops: tuple[Op, ...]
    meets: tuple[int, ...]


JUMPS = frozenset(["jump", "jump_if_true", "jump_if_false", "jump_if_none", "jump_if_not_none"])
JUMPS_OR_POPS = frozenset(["true_or_pop", "false_or_pop"])
_ENDS = frozenset(["return", "raise", "unknown"])

# By opcode: all of these take what dis calls the argval.
_PLAIN = {
    "LOAD_CONST": "const",
    "LOAD_FAST": "local",
    "LOAD_FAST_CHECK": "local",  # From 3.12.
    "LOAD_FAST_LOAD_FAST": "locals",  # From 3.13, as the two that follow.
    "STORE_FAST_LOAD_FAST": "store_local",
    "STORE_FAST_STORE_FAST": "stores",
    "STORE_FAST": "store",
    "LOAD_FAST_AND_CLEAR": "local_and_clear",  # From 3.12.
    "LOAD_DEREF": "free",
    "STORE_DEREF": "store_shared",
    "LOAD_CLOSURE": "share",  # Until 3.12.
    "LOAD_METHOD": "method",  # Until 3.11.
    "PUSH_NULL": "null",
    "COMPARE_OP": "compare",
    "IS_OP": "is",
    "CONTAINS_OP": "in",
    "BINARY_SUBSCR": "subscript",
    "BINARY_SLICE": "slice",  # From 3.12.
    "BUILD_SLICE": "build_slice",
    "BUILD_TUPLE": "tuple",
    "BUILD_LIST": "list",
    "BUILD_MAP": "map",
    "BUILD_CONST_KEY_MAP": "const_key_map",
    "LIST_EXTEND": "extend",
    "LIST_APPEND": "append",
    "LIST_TO_TUPLE": "list_to_tuple",  # Until 3.11.
    "DICT_MERGE": "merge",
    "DICT_UPDATE": "update",
    "BUILD_STRING": "string",
    "FORMAT_SIMPLE": "format_simple",  # From 3.13, as the two that follow.
    "FORMAT_WITH_SPEC": "format_spec",
    "CONVERT_VALUE": "convert",
    "CALL": "call",
    "CALL_KW": "call_kw",  # From 3.13.
    "CALL_FUNCTION_EX": "call_ex",
    "SWAP": "swap",
    "COPY": "copy",
    "POP_TOP": "pop",
    "UNPACK_SEQUENCE": "unpack",
    "JUMP_FORWARD": "jump",
    "POP_JUMP_IF_TRUE": "jump_if_true",  # From 3.12, as the three that follow.
    "POP_JUMP_IF_FALSE": "jump_if_false",
    "POP_JUMP_IF_NONE": "jump_if_none",
    "POP_JUMP_IF_NOT_NONE": "jump_if_not_none",
    "POP_JUMP_FORWARD_IF_TRUE": "jump_if_true",  # Until 3.11, as the five that follow.
    "POP_JUMP_FORWARD_IF_FALSE": "jump_if_false",
    "POP_JUMP_FORWARD_IF_NONE": "jump_if_none",
    "POP_JUMP_FORWARD_IF_NOT_NONE": "jump_if_not_none",
    "JUMP_IF_TRUE_OR_POP": "true_or_pop",
    "JUMP_IF_FALSE_OR_POP": "false_or_pop",
    "GET_ITER": "iterate",
    "FOR_ITER": "for",
    "JUMP_BACKWARD": "jump",
    "POP_JUMP_BACKWARD_IF_TRUE": "jump_if_true",  # Until 3.11, as the three that follow.
    "POP_JUMP_BACKWARD_IF_FALSE": "jump_if_false",
    "POP_JUMP_BACKWARD_IF_NONE": "jump_if_none",
    "POP_JUMP_BACKWARD_IF_NOT_NONE": "jump_if_not_none",
    "RETURN_VALUE": "return",
    "RAISE_VARARGS": "raise",
    "RERAISE": "raise",
    "YIELD_VALUE": "yield",
    "RETURN_GENERATOR": "generator",
    "TO_BOOL": "to_bool",  # From 3.13.
}
_NOTHING = frozenset(
    [
        "RESUME",
        "NOP",
        "CACHE",
        "PRECALL",
        "COPY_FREE_VARS",
        "MAKE_CELL",
        "EXTENDED_ARG",
        "END_FOR",
    ]  # PRECALL until 3.11, END_FOR from 3.12.
)
_UNARY = {"UNARY_NOT": "not", "UNARY_NEGATIVE": "-", "UNARY_POSITIVE": "+", "UNARY_INVERT": "~"}
_IS_BACKWARD = "it has a loop"
_TAKE_TARGETS = JUMPS | JUMPS_OR_POPS | {"for"}
_REFUSED = {
    "SEND": "it has a loop or waits for something",
    "GET_YIELD_FROM_ITER": "it has a yield from",
    "STORE_ATTR": "it sets an attribute",
    "DELETE_ATTR": "it deletes an attribute",
    "STORE_GLOBAL": "it assigns a global variable",
    "DELETE_GLOBAL": "it deletes a global variable",
    "STORE_SUBSCR": "it sets an item",
    "STORE_SLICE": "it sets items",
    "DELETE_SUBSCR": "it deletes an item",
    "IMPORT_NAME": "it imports a module",
    "BEFORE_WITH": "it has a with statement",
    "PUSH_EXC_INFO": "it handles an exception",
    "BUILD_SET": "it builds a set",
    "SET_UPDATE": "it builds a set",
    "LOAD_SUPER_ATTR": "it calls super",
    "GET_AWAITABLE": "it awaits something",
    "MATCH_CLASS": "it has a match statement",
    "MATCH_SEQUENCE": "it has a match statement",
    "MATCH_MAPPING": "it has a match statement",
    "GET_LEN": "it has a match statement",
}
_LIST_TO_TUPLE, _UNARY_POSITIVE = 6, 5  # Numbers of CALL_INTRINSIC_1.
_CLOSURE = 8  # Flag of MAKE_FUNCTION and number of SET_FUNCTION_ATTRIBUTE.


def _global(instruction: dis.Instruction) -> list[Op]:
    loaded = Op("global", instruction.argval)
    return [Op("null"), loaded] if (instruction.arg or 0) & 1 else [loaded]


def _attribute(instruction: dis.Instruction) -> list[Op]:
    # From 3.12 the lowest bit makes a LOAD_METHOD of it.
    is_method = _HAS_METHOD_BIT and instruction.arg is not None and instruction.arg & 1
    return [Op("method" if is_method else "attr", instruction.argval)]


def _intrinsic(instruction: dis.Instruction) -> list[Op]:
    if instruction.arg == _LIST_TO_TUPLE:
        return [Op("list_to_tuple")]
    if instruction.arg == _UNARY_POSITIVE:
        return [Op("unary", "+")]
    return [Op("unknown", "it uses an unsupported instruction")]


def _function(instruction: dis.Instruction) -> list[Op]:
    flags = instruction.arg or 0
    if flags & ~_CLOSURE:
        return [Op("unknown", "it defines a function with defaults or annotations")]
    made = [Op("function")] if instruction.opname == "MAKE_FUNCTION" else []
    return [*made, Op("closure")] if flags else made


def _format_value(instruction: dis.Instruction) -> list[Op]:
    flags = instruction.arg or 0
    ops = [Op("convert", _conversion(flags & 3))] if flags & 3 else []
    if flags & 4:  # The specification is on top of the value.
        return [*([Op("swap", 2), *ops, Op("swap", 2)] if ops else []), Op("format_spec")]
    return [*ops, Op("format_simple")]


def _conversion(number: int) -> str:
    return ("", "str", "repr", "ascii")[number]


_SPECIAL: dict[str, Callable[[dis.Instruction], list[Op]]] = {
    "LOAD_GLOBAL": _global,
    "LOAD_ATTR": _attribute,
    "CALL_INTRINSIC_1": _intrinsic,  # From 3.12.
    "FORMAT_VALUE": _format_value,  # Until 3.12.
    "CONVERT_VALUE": lambda one: [Op("convert", _conversion(one.arg or 0))],
    "RETURN_CONST": lambda one: [Op("const", one.argval), Op("return")],  # From 3.12.
    "BINARY_OP": lambda one: [Op("binary", one.argrepr.removesuffix("="))],
    "LOAD_ASSERTION_ERROR": lambda one: [Op("const", AssertionError)],
    "MAKE_FUNCTION": _function,
    "SET_FUNCTION_ATTRIBUTE": _function,  # From 3.13.
    "KW_NAMES": lambda one: [Op("kw_names", one.arg)],  # Until 3.12.
}
LEAVES_ITERATOR = sys.version_info >= (3, 13)
"""True if a loop leaves its iterable on the stack, to be popped behind the loop."""
_HAS_METHOD_BIT = "LOAD_METHOD" not in dis.opmap or dis.opmap["LOAD_METHOD"] > 255


def program_of(code: CodeType) -> Program:
    """Return the instructions of a function, cached for the lifetime of its code object."""
    program = _PROGRAMS.get(code)
    if program is None:
        program = _PROGRAMS[code] = _program_of(code)
    return program


_PROGRAMS: WeakKeyDictionary[CodeType, Program] = WeakKeyDictionary()


def _program_of(code: CodeType) -> Program:
    """Return the instructions of a function.

    An unsupported instruction becomes ``unknown`` with a reason, so that only functions that reach
    it are refused. The same holds for exception handlers, as a block that raises does not run over
    columns, and for a loop over nothing.
    """
    ops: list[Op] = []
    starts: dict[int, int] = {}
    for instruction in dis.get_instructions(code):
        starts[instruction.offset] = len(ops)
        ops += _translated(instruction, code)
    placed = [op if op.target is None else Op(op.name, op.arg, starts[op.target]) for op in ops]
    for at, op in enumerate(placed):
        if op.target is not None and op.target <= at:
            head = placed[op.target]
            if head.name != "for" or head.target is None or head.target <= at:
                placed[at] = Op("unknown", _IS_BACKWARD)
    return Program(tuple(placed), _meets(placed))


def names_set(ops: tuple[Op, ...]) -> frozenset[str]:
    """Return the variables that instructions assign."""
    found: set[str] = set()
    for op in ops:
        if op.name in ("store", "store_shared"):
            found.add(op.arg)
        elif op.name == "store_local":
            found.add(op.arg[0])
        elif op.name == "stores":
            found.update(op.arg)
    return frozenset(found)


def _translated(instruction: dis.Instruction, code: CodeType) -> list[Op]:
    name = instruction.opname
    if name in _NOTHING:
        return []
    if name in _UNARY:
        return [Op("unary", _UNARY[name])]
    if name in _SPECIAL:
        ops = _SPECIAL[name](instruction)
        return [Op("kw_names", code.co_consts[ops[0].arg])] if name == "KW_NAMES" else ops
    if name not in _PLAIN:
        why = _REFUSED.get(name, f"it uses an unsupported instruction ({name.lower()})")
        return [Op("unknown", _IS_BACKWARD if "BACKWARD" in name else why)]
    neutral = _PLAIN[name]
    if name == "LOAD_FAST" and instruction.argval in code.co_cellvars + code.co_freevars:
        return [Op("share", instruction.argval)]  # Its cell, from 3.13.
    if neutral in _TAKE_TARGETS:
        return [Op(neutral, target=instruction.argval)]
    # The number is what is wanted where dis would show what it stands for.
    shown = name in ("IS_OP", "CONTAINS_OP", "RAISE_VARARGS", "YIELD_VALUE")
    return [Op(neutral, instruction.arg if shown else instruction.argval)]


def _meets(ops: list[Op]) -> tuple[int, ...]:
    """Return, per instruction, the nearest position that all paths from it pass through.

    These are the immediate postdominators of an acyclic graph, as the end of an iteration leads to
    the code behind the loop. Positions are processed from last to first.
    """
    exits = {at: _exits(ops, at) for at, op in enumerate(ops) if op.name == "for"}

    def order(at: int) -> tuple[float, int]:
        if at == EXIT:
            return len(ops), 0
        head = head_of(at)
        return (at, 0) if at >= 0 else (exits[head][0] - 0.5, -head)

    meets = {EXIT: EXIT}
    for at in sorted([*range(len(ops)), *map(end_of_round, exits)], key=order, reverse=True):
        loop = exits.get(head_of(at) if at < EXIT else at)
        meets[at], *others = followers(ops, at) if loop is None else loop
        for other in others:
            one = meets[at]
            while one != other:
                if order(one) < order(other):
                    one = meets[one]
                else:
                    other = meets[other]
            meets[at] = one
    return tuple(meets[at] for at in range(len(ops)))


def _exits(ops: list[Op], head: int) -> list[int]:
    """Return the positions that follow a loop: past it, or the targets of leaving it."""
    past = ops[head].target
    assert past is not None
    within = range(head, past)
    found = {after: None for at in within[1:] for after in followers(ops, at)}
    return [past, *(at for at in found if (at if at >= EXIT else head_of(at)) not in within)]


def followers(ops: "list[Op] | tuple[Op, ...]", at: int) -> list[int]:
    """Return the positions that may follow an instruction, the jump target first."""
    op = ops[at]
    if op.name in _ENDS or at + 1 == len(ops):
        return [EXIT]
    if op.target is None:
        return [at + 1]
    target = op.target if op.target > at else end_of_round(op.target)
    return [target] if op.name in ("jump", "for") else [target, at + 1]
