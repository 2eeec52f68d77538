"""Writes the source of functions of an element that mostly make sense, to columns and Python."""

import math
import re
import warnings
from collections.abc import Callable
from typing import Any

from apache_beam.pvalue import Row
from apache_beam.transforms.window import TimestampedValue
from in_python import Element, Inner
from operations import EXAMPLES, NAMES

from sparkbeam.columns import ResultKind

SPACE: dict[str, Any] = {
    **{one.__name__: one for one in (Inner, Row, TimestampedValue, Element)},
    "NUMBERS": [0, 2.5, 2**70, 1e308, 2**63 - 1, True, None],
    "TEXTS": {"", "a", "é", b"a", 1, None, ("a", 1)},
    **NAMES,
    "KEYS": {"a": 1, 2: "b", -0.0: None, 2**53 + 1: []},
}

INT_LEAVES = [
    *("x.a", "x.b", "x.inner.i", "x.pair[0]", "x[0]", "x.item['i']"),
    *("(0)", "(1)", "(-3)", "(7)", "(2**53)", "(2**62)"),
]
FLOAT_LEAVES = ["x.f", "x.g", "x.row.u", "0.0", "-0.0", "1.5", "1e308", "3.0"]
STR_LEAVES = [
    *("x.s", "x.t", "x.inner.s", "x.pair[-1]", "x.item.get('s')", "x.item.get('z', 'a')"),
    *("''", "'a'", "'é'", "'ab'"),
]
BOOL_LEAVES = ["x.p", "x.q", "x.row.v", "True", "False"]
BYTES_LEAVES = ["x.y", "b''", "b'a'"]
LEAVES = {
    "int": INT_LEAVES,
    "float": FLOAT_LEAVES,
    "str": STR_LEAVES,
    "bool": BOOL_LEAVES,
    "bytes": BYTES_LEAVES,
}


_FIELD = re.compile(r"\bx\.(\w+)")
OPERATIONS = [
    [
        one
        for one in sources
        if set(_FIELD.findall(one)) <= {"a", "b", "f", "g", "s", "t", "y", "p", "q"}
    ]
    for sources in EXAMPLES.values()
]
"""Those examples that have to do with fields that the elements here have too."""
CASES = ["upper", "lower", "upper", "lower", "title", "capitalize", "swapcase", "casefold", "strip"]


class Writer:
    """Writes expressions that mostly make sense to Python."""

    def __init__(self, number: Callable[[int, int], int]) -> None:
        self.number = number

    def one_of(self, options: Any) -> Any:
        return options[self.number(0, len(options) - 1)]

    def expression(self, kind: str, depth: int) -> str:
        if self.number(0, 30) == 0:
            kind = self.one_of(list(LEAVES))  # One that may not make sense.
        if depth <= 0 or self.number(0, 4) == 0:
            return str(self.one_of(LEAVES[kind]))
        if self.number(0, 4) == 0:
            return self.of_any(kind, depth - 1)
        return str(getattr(self, f"of_{kind}")(depth - 1))

    def operation(self) -> str:
        """An example of any operation, over other texts."""
        example = str(self.one_of(self.one_of([some for some in OPERATIONS if some])))
        if self.number(0, 3) == 3 and "TimestampedValue" not in example and "f'" not in example:
            return example.replace("x.s", f"({self.expression('str', 1)})")
        return example.replace("TimestampedValue", "tuple")

    def of_any(self, kind: str, depth: int) -> str:
        one, other = self.expression(kind, depth), self.expression(kind, depth)
        condition = self.expression(self.one_of(["bool", "bool", "int", "str", "float"]), depth)
        return str(
            self.one_of(
                [
                    f"({one} if {condition} else {other})",
                    f"({one} if {condition} else None)",
                    f"({one} or {other})",
                    f"({one} and {other})",
                    f"({self.one_of(['x.inner', 'x.pair', 'x.row', 'x.item', 'x'])} and {one})",
                    f"min({one}, {other})",
                    f"max({one}, {other}, {one})",
                    f"({one}, {other})[1]",
                    f"helper({condition}, {one}, {other})",
                ]
            )
        )

    def of_int(self, depth: int) -> str:
        number = self.one_of(["int", "int", "int", "bool"])
        one, other = self.expression("int", depth), self.expression(number, depth)
        option = self.number(0, 18)
        if option == 17:
            return f"divmod({one}, {other})[{self.one_of([0, 1])}]"
        if option == 18:
            text = self.expression("str", depth)
            return f"{text}.{self.one_of(['rfind', 'index', 'find'])}({self.one_of(STR_LEAVES)})"
        if option < 9:
            symbol = self.one_of(["+", "-", "*", "//", "%", "&", "|", "^", "<<", ">>"])
            return f"({one} {symbol} {other})"
        if option == 9:
            return f"({one} ** {self.one_of([0, 1, 2, 3, 8, -1, 9])})"
        if option == 10:
            return f"({self.one_of(['-', '+', '~'])}{one})"
        if option == 11:
            return f"abs({one})"
        if option == 12:
            return f"len({self.expression(self.one_of(['str', 'bytes']), depth)})"
        if option == 13:
            kind = self.one_of(["float", "str", "int", "bool"])
            return f"int({self.expression(kind, depth)})"
        if option == 14:
            function = self.one_of(["round", "math.floor", "math.ceil", "math.trunc"])
            return f"{function}({self.expression(self.one_of(['float', 'int']), depth)})"
        if option == 15:
            text = self.expression("str", depth)
            return f"{text}.{self.one_of(['count', 'find'])}({self.one_of(STR_LEAVES[7:])})"
        return f"len({self.expression('str', depth)}.split({self.one_of(['chr(44)', ',', 'a'])!r}))"

    def of_float(self, depth: int) -> str:
        kinds = ["float", "float", "int", "bool"]
        one, other = (self.expression(self.one_of(kinds), depth) for _ in range(2))
        option = self.number(0, 11)
        if option == 11:
            value = self.one_of([f"divmod({one}, {other})[{self.number(0, 1)}]", f"({one})"])
            return f"round({value}, {self.one_of([0, 1, 2, 5, 16, 22, None])})"
        if option < 6:
            return f"({one} {self.one_of(['+', '-', '*', '/', '/', '//', '%'])} {other})"
        if option == 6:
            return f"(-{one})"
        if option == 7:
            function = self.one_of(["math.sqrt", "math.fabs", "abs", "float"])
            return f"{function}({one})"
        if option == 8:
            return f"float({self.expression('str', depth)})"
        return f"({self.expression('int', depth)} / {self.expression('int', depth)})"

    def of_bool(self, depth: int) -> str:
        kind = self.one_of(list(LEAVES))
        one, other = self.expression(kind, depth), self.expression(kind, depth)
        option = self.number(0, 15)
        if option == 15:
            method = self.one_of(["digit", "alpha", "space", "upper", "identifier", "ascii"])
            return f"{self.expression('str', depth)}.is{method}()"
        if option < 4:
            return f"({one} {self.one_of(['<', '<=', '>', '>=', '==', '!='])} {other})"
        if option == 4:
            number = self.expression(self.one_of(["int", "float", "bool"]), depth)
            more = self.expression(self.one_of(["int", "float", "bool"]), depth)
            return f"({number} {self.one_of(['<', '<=', '>', '>=', '==', '!='])} {more})"
        if option == 5:
            return f"(not {one})"
        if option == 6:
            return f"({one} is {self.one_of(['None', 'not None'])})"
        if option == 7:
            constants = self.one_of(
                [
                    "(1, 2.0, True, 'a', 'é', None, b'a', -0.0, 2**53 + 1)",
                    "NUMBERS",
                    "TEXTS",
                    "KEYS",
                ]
            )
            return f"({one} {self.one_of(['in', 'not in'])} {constants})"
        if option == 8:
            return f"({self.one_of(['a', '', 'é'])!r} in {self.expression('str', depth)})"
        if option == 9:
            method = self.one_of(["startswith", "endswith"])
            pattern = self.one_of(["a", "é", "", ("a", "b")])
            return f"{self.expression('str', depth)}.{method}({pattern!r})"
        if option == 10:
            return (
                f"isinstance({one}, {self.one_of(['int', 'bool', 'str', '(float, int)', 'Inner'])})"
            )
        if option == 11:
            function = self.one_of(["isnan", "isinf", "isfinite"])
            return f"math.{function}({self.expression('float', depth)})"
        if option == 12:
            first, second = self.expression("int", depth), self.expression("str", depth)
            return f"(({first}, {second}) {self.one_of(['==', '!='])} x.pair)"
        if option == 13:
            key = self.one_of(["'i'", "'z'", "1", "None"])
            return f"({key} {self.one_of(['in', 'not in'])} x.item)"
        return f"({self.expression('int', depth)} < {one} <= {self.expression('int', depth)})"

    def of_str(self, depth: int) -> str:
        one, other = self.expression("str", depth), self.expression("str", depth)
        option = self.number(0, 16)
        if option < 2:
            return f"({one} + {other})"
        if option > 13:
            return f"{one}.{self.one_of(CASES)}()"
        if option == 11:
            methods = ["title()", "casefold()", "zfill(4)", "center(5, 'é')", "removeprefix('a')"]
            more = ["split()[-1]", "rsplit('a', 1)[0]", "replace('', 'é', 2)", "upper()", "lower()"]
            return f"{one}.{self.one_of([*methods, *more])}"
        if option == 12:
            kind = self.one_of(list(LEAVES))
            specs = ["05d", ".2f", ">6", "", "+", "x", "g", "é^7", "=+9,", "%", "c", "z"]
            value, spec = self.expression(kind, depth), self.one_of(specs)
            if "'" in value:  # Which an f-string takes from 3.12 on.
                return f"format({value}, {spec!r})"
            return f"f'{{{value}{self.one_of(['', '!r', '!s'])}:{spec}}}'"
        if option == 13:
            return f"{self.one_of(['repr', 'str', 'format'])}({self.expression('float', depth)})"
        if option == 2:
            shown = self.expression(self.one_of(["int", "str", "bool"]), depth)
            return f"f'<{{{shown}}}-{{{one}!s}}>'" if "'" not in shown + one else f"str({shown})"
        if option == 3:
            return f"str({self.expression(self.one_of(['int', 'str', 'bool', 'float']), depth)})"
        if option == 4:
            return f"{one}.{self.one_of(['upper', 'lower', 'strip', 'lstrip', 'rstrip'])}()"
        if option == 5:
            method = self.one_of(["strip", "lstrip", "rstrip"])
            return f"{one}.{method}({self.one_of(['a', 'éb', ''])!r})"
        if option == 6:
            return (
                f"{one}.replace({self.one_of(['a', 'é', 'ab', ''])!r}, {self.one_of(['', 'xy'])!r})"
            )
        if option == 7:
            bounds = ["", "0", "1", "2", "-1", "-2", "5", "-7"]
            return f"{one}[{self.one_of(bounds)}:{self.one_of(bounds)}]"
        if option == 8:
            return f"{one}[{self.one_of(['0', '1', '-1', '-2'])}]"
        if option == 9:
            return (
                f"{one}.split({self.one_of([',', 'a', 'ab'])!r})[{self.one_of(['0', '1', '-1'])}]"
            )
        return f"'{self.one_of([',', 'é', ''])}'.join(({one}, {other}))"

    def of_bytes(self, depth: int) -> str:
        one, other = self.expression("bytes", depth), self.expression("bytes", depth)
        return str(
            self.one_of(
                [
                    f"({one} + {other})",
                    f"{one}[1:]",
                    f"{one}[-2:3]",
                    f"{self.expression('str', depth)}.encode()",
                    f"{one}.replace(b'a', b'bc')",
                    f"{one}.decode().encode('utf-8')",
                ]
            )
        )

    def result(self, depth: int) -> str:
        """A scalar or a record."""
        kind = self.one_of(list(LEAVES))
        one, number = self.expression(kind, depth), self.expression("int", depth)
        text = self.expression("str", depth)
        return str(
            self.one_of(
                [
                    one,
                    one,
                    f"({number}, {one})",
                    f"Inner({number}, {text})",
                    f"Inner(s={text}, i={number})",
                    f"Row(p={one}, q={text})",
                    f"(Inner({number}, {text}) if {one} else x.inner)",
                    f"(x.inner if {one} else None)",
                    f"x.inner._replace(i={number})",
                    f"(x.pair + ({one},))",
                    f"({text}, x)",
                    "x.item",
                    f"{{'b': {one}, 'a': {number}}}",
                    f"{{**x.item, 's': {one}, 'more': len(x.item)}}",
                    "Inner(**x.item)",
                    f"Row(k={number}, **{{'s': {text}}})",
                    f"({one}, x.item or {{}})",
                    f"TimestampedValue({one}, {number})",
                    f"TimestampedValue({text}, {self.expression('float', depth)})",
                    "x",
                ]
            )
        )


def a_function(number: Callable[[int, int], int]) -> tuple[str, ResultKind]:
    """The source of a function and what its result means."""
    writer = Writer(number)
    form = writer.one_of(list(ResultKind))
    depth = number(0, 3)
    condition = writer.expression("bool", depth)
    value, other = writer.result(depth), writer.result(depth)
    one, text = writer.expression("int", depth), writer.expression("str", depth)
    items = ", ".join(writer.expression("int", depth - 1) for _ in range(number(2, 4)))
    if form is ResultKind.FILTER:
        return f"def function(x):\n    return {condition}", form
    bodies = [
        f"    return {value}",
        f"    return ({', '.join(writer.operation() for _ in range(3))})",
        f"    return ({', '.join(writer.operation() for _ in range(2))})",
        f"    if {condition}:\n        return {writer.operation()}\n    return None",
        f"    y = {value}\n    if {condition}:\n        y = {other}\n    return y",
        f"    if {condition}:\n        return {value}\n    return {other}",
        f"    _ = {condition}\n    return {value}",
        f"    try:\n        return {value}\n    except ValueError:\n        return 0",
        f"    for y in ({items}):\n        if {condition} or y:\n            break\n    return y",
        f"    z = {one}\n    return sum(len(y) + z for y in {text}.split('a') if {condition})",
        f"    return max({text}.split('é'), key=lambda y: ({one}, len(y), y)), {condition}",
        f"    return sorted([y for y in {text}.split('a') if {condition}], key=len, reverse=True)",
        f"    z = 0\n    for y in [{items}]:\n        if y:\n            z = y\n    return z",
    ]
    if form is ResultKind.FLAT:
        bodies = [
            f"    if {condition}:\n        yield {value}",
            f"    yield {value}\n    if {condition}:\n        return\n    yield {other}",
            f"    if {condition}:\n        yield {value}\n    else:\n        yield {other}",
            f"    return [{value}] if {condition} else []",
            f"    for y in ({items}):\n        if {condition} or not y:\n            yield y",
            f"    for y in ({items}):\n        if y == 1:\n            break\n        yield {one}",
            f"    return [{value}, {other}]",
            f"    return [(y, {one}) for y in {text}.split('a') if {condition} or len(y) > {one}]",
            f"    if any(y < {text} for y in {text}.split('b')):\n        yield {value}",
            f"    if {condition}:\n        return ({value},)",
        ]
    return "def function(x):\n" + writer.one_of(bodies), form


def helper(condition: Any, one: Any, other: Any) -> Any:
    if not condition:
        return other
    return one


def made(text: str) -> Any:
    """The function of a source."""
    space: dict[str, Any] = {**SPACE, "math": math, "helper": helper, "__name__": "__main__"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)
        exec(text, space)
    return space["function"]
