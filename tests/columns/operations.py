"""Examples of each operation that there is over columns."""

import json
import math
import operator
from typing import Any

from apache_beam.metrics import Metrics
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import Duration, Timestamp

from sparkbeam.upstream.beam import named_tuple_class

NAMES: dict[str, Any] = {
    "MANY": [3, 5, None, 7],
    "LOOKUP": {"ab": 1, "é": 2, "": 3},
    "helper_counter": Metrics.counter("tests", "counted"),
    "helper_distribution": Metrics.distribution("tests", "distributed"),
    "named_tuple": named_tuple_class,
    **{one.__name__: one for one in (Timestamp, TimestampedValue, json, math, operator)},
}
"""What the examples use besides the element, and a NamedTuple ``Inner`` of an int and a str."""

_NUMERIC = ("x.a @ x.b", "x.a @ 3", "(x.a % 7) @ (x.b % 5)", "x.p @ x.b")
_REAL = ("x.f @ x.g", "x.f @ 2.5", "x.f @ (x.b % 9)")
_TRUTHS = ("x.p @ x.q", "x.p @ True")
_COMPARED = (
    *("x.a @ x.b", "x.f @ x.g", "x.a @ 2.0", "x.s @ x.t", "x.s @ 'ab'", "x.y @ x.z"),
    *("x.y @ b'ab'", "x.p @ x.q", "'é' @ x.s"),
)

OF_SYMBOLS: dict[str, tuple[str, ...]] = {
    "+": (*_NUMERIC, *_REAL, "x.s + x.t", "x.s + 'é' + x.t", "x.y + x.z", "b'ab' + x.y"),
    **dict.fromkeys("-*", (*_NUMERIC, *_REAL)),
    **dict.fromkeys(["/", "//", "%"], (*_NUMERIC, *_REAL)),
    "**": ("(x.a % 100) ** 3", "x.b ** 0", "x.a ** 1"),
    **dict.fromkeys(["<<", ">>"], ("x.a @ 3", "(x.a % 9) @ (x.b % 4)")),
    **dict.fromkeys("&|^", (*_NUMERIC, *_TRUTHS)),
    **dict.fromkeys(["<", "<=", ">", ">="], _COMPARED),
    **dict.fromkeys(["==", "!="], (*_COMPARED, "(x.a, x.s) @ (x.b, x.t)", "x.inner @ (1, 'ab')")),
}
OF_UNARY = dict.fromkeys("-+~", ("@x.a", "@x.b", "@(x.a % 7)"))
OF_METHODS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(
        [
            *("upper", "lower", "title", "capitalize", "swapcase", "casefold", "isalnum"),
            *("isalpha", "isascii", "isdecimal", "isdigit", "isidentifier", "islower"),
            *("isnumeric", "isprintable", "isspace", "istitle", "isupper"),
        ],
        ("x.s.@()", "x.inner.s.@()", "x.s.strip().@()", "(x.s if x.p else x.t).@()"),
    ),
    **dict.fromkeys(["strip", "lstrip", "rstrip"], ("x.s.@()", "x.s.@('aé')", "x.s.@('')")),
    **dict.fromkeys(
        ["startswith", "endswith"],
        ("x.s.@('a')", "x.s.@(('é', ''))", "x.y.@(b'a')", "x.t.@('é')"),
    ),
    **dict.fromkeys(["removeprefix", "removesuffix"], ("x.s.@('a')",)),
    **dict.fromkeys(["ljust", "rjust", "center"], ("x.s.@(5)", "x.s.@(4, 'é')")),
    "zfill": ("x.n.zfill(5)",),
    "expandtabs": ("(x.s + '\\t').expandtabs()", "('\\t' + x.s).expandtabs(3)"),
    "replace": ("x.s.replace('a', 'xyz')", "x.s.replace('', '-', 2)", "x.y.replace(b'a', b'')"),
    **dict.fromkeys(
        ["split", "rsplit"],
        ("x.s.@('a')[0]", "len(x.s.@())", "x.s.@('b', 1)[-1]", "x.s.@('a')"),
    ),
    "splitlines": ("(x.s + '\\n').splitlines()[0]", "len((x.s + '\\r').splitlines(True))"),
    **dict.fromkeys(["find", "rfind", "count"], ("x.s.@('b')", "x.t.@('é')")),
    **dict.fromkeys(["index", "rindex"], ("('1' + x.n).@('1')", "x.s.@('')")),
    "encode": ("x.s.encode()", "x.s.encode('utf-8').decode().upper()"),
    "decode": ("x.y.decode()", "x.y.decode('utf8').lower()"),
    "join": ("'-'.join((x.s, x.t))", "'é'.join([x.s, x.n])"),
}
_NUMBERS = ("@(x.a)", "@(x.f)", "@(x.p)")
_REALS = ("@(x.f)", "@(x.a)")
OF_FUNCTIONS: dict[Any, tuple[str, ...]] = {
    Metrics.counter: ("helper_counter.inc(x.b)", "helper_counter.inc()"),
    Metrics.distribution: ("helper_distribution.update(x.b)",),
    len: ("len(x.s)", "len(x.y)", "len(x.ints)", "len(x.texts)", "len(x.inner)"),
    abs: _NUMBERS,
    min: (
        "min(x.a, x.b)",
        "min(x.s, x.t, 'b')",
        "min(x.ints)",
        "min(x.f, x.g)",
        "min(x.texts, key=len)",
    ),
    max: ("max(x.a, x.b)", "max(x.s, x.t, 'b')", "max(x.ints)", "max(x.y, x.z)", "max(x.texts)"),
    int: (*_NUMBERS, "int(x.n)"),
    float: (*_NUMBERS, "float(x.n)"),
    str: ("str(x.a)", "str(x.f)", "str(x.p)", "str(x.s)", "f'{x.a}<{x.s}>{x.p}'"),
    bool: (*_NUMBERS, "bool(x.s)", "bool(x.y)", "bool(x.inner)", "bool(x.ints)", "not x.s"),
    tuple: ("tuple(x.inner)",),
    list: ("list(x.ints)", "list(x.texts)[1:]", "list(one.upper() for one in x.texts if one)"),
    **dict.fromkeys([any, all], ("@(one > x.b for one in x.ints)", "@(x.texts)", "@([x.a, x.s])")),
    sum: ("sum(x.ints)", "sum((x.a % 9, x.b % 9))"),
    round: ("round(x.f)", "round(x.f, 1)", "round(x.a, 2)"),
    divmod: ("divmod(x.a, 7)", "divmod(x.f, 2.5)"),
    repr: ("repr(x.a)", "repr(x.f)", "repr(x.s)", "repr(x.y)", "repr(x.p)"),
    format: ("format(x.a, '05d')", "format(x.f, '.2f')", "format(x.s, '>6')", "f'{x.s!r:^9}'"),
    isinstance: ("isinstance(x.s, str)", "isinstance(x.p, int)", "isinstance(x.inner, tuple)"),
    type: ("type(x.inner) is Inner", "type(x.s) is str"),
    **dict.fromkeys([math.floor, math.ceil, math.trunc], ("math.@(x.f)", "math.@(x.a)")),
    **dict.fromkeys(
        [math.fabs, math.sqrt, math.isnan, math.isinf, math.isfinite],
        ("math.@(x.f)", "math.@(x.b)"),
    ),
    json.loads: (
        "json.loads('{\"n\": ' + x.n + '}')['n']",
        "json.loads('{\"s\": \"' + x.s + '\"}')",
        "json.loads(('{\"f\": ' + x.n + '.5, \"t\": [' + x.n + ']}').encode())['t']",
    ),
    named_tuple_class: (
        "named_tuple('Key', ('k',))(x.a)",
        "named_tuple('Two', ('a', 's'))(*x.inner)",
    ),
    operator.index: ("operator.index(x.a)", "operator.index(x.p)"),
    Duration.of: ("(Timestamp.of(x.when) - Duration.of(x.b)).micros",),
    Timestamp.of: ("TimestampedValue(x.s, Timestamp.of(x.when))", "Timestamp.of(x.b).micros"),
    **dict.fromkeys(
        [
            *(operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv),
            *(operator.mod, operator.lt, operator.le, operator.gt, operator.ge, operator.eq),
            operator.ne,
        ],
        ("operator.@(x.a, x.b)", "operator.@(x.f, x.g)"),
    ),
}
OTHERS = (
    *("x.s[0]", "x.s[-1]", "x.s[1:]", "x.s[-2:]", "x.t[:1]", "x.s[1:3]", "x.inner[1]"),
    *("x.ints[0]", "x.ints[-1]", "x.ints[1:]", "x.texts[0]", "x.texts[:1]", "x.texts[-2:]"),
    *("x.s in ('ab', 'é', None)", "x.y in (b'', b'ab')", "x.a in MANY", "x.f in MANY"),
    *("x.p in (True, None)", "x.s in LOOKUP", "'b' in x.s", "b'b' in x.y", "'é' in x.t"),
    *("x.s is None", "x.inner is None", "x.f is not None", "x.a is None or x.a > 2"),
    *("x.s if x.a else x.t", "x.s if x.p else None", "x.s or x.t", "x.y and x.z", "x.a or x.b"),
    *("x.s or 'none'", "x.f if x.p else x.g", "x.s.upper() if x.p else x.t.lower()"),
    *("(x.when, x.day, x.sum)", "x.sum if x.p else None", "x.day if x.q else x.day"),
    *("TimestampedValue(x.s, x.when)", "TimestampedValue(x.a, x.b)", "(x.s, x)", "x"),
    *("(x.s.lower(), x.a)", "Inner(x.b, x.s)", "{'s': x.s, 'a': x.a}", "x.inner._replace(i=x.b)"),
    *(
        "x.local.timestamp()",
        "x.when.micros",
        "(x.a, Timestamp(micros=x.b), Timestamp(x.b) > x.when)",
        "x.ints",
        "x.texts",
        "(sorted(x.ints, reverse=True), sorted(x.texts, key=lambda one: (len(one), one)))",
        "(max(x.texts, default=None), [(one, x.s) for one in x.ints if one != x.a])",
        "x.inner",
    ),
)


def examples() -> dict[str, list[str]]:
    """What there is to see of each operation."""
    found: dict[str, list[str]] = {"others": list(OTHERS)}
    for symbol, texts in (*OF_SYMBOLS.items(), *OF_METHODS.items()):
        found[symbol] = [one.replace("@", symbol) for one in texts]
    found["unary"] = [one.replace("@", symbol) for symbol in OF_UNARY for one in OF_UNARY[symbol]]
    found["unary"] += ["-x.f", "+x.f", "-x.p", "not x.a", "not x.f", "not x.y"]
    for function, texts in OF_FUNCTIONS.items():
        found[f"{function.__name__}()"] = [one.replace("@", function.__name__) for one in texts]
    return found


EXAMPLES = examples()
"""By operation, functions of an element ``x`` as text."""
