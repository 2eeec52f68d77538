"""Methods of str, bytes and records with an exact columnar form."""

from collections.abc import Callable
from typing import Any

import pyarrow.compute as pc

from sparkbeam.columns import operators, text_kernels
from sparkbeam.columns.expressions import Const, Expression, Item, Listed, Made
from sparkbeam.columns.graph import Graph, checked
from sparkbeam.columns.operators import as_text, items_of
from sparkbeam.columns.python_kernels import called
from sparkbeam.columns.python_types import BOOL, BYTES, INT, STR, Lists, RecordShape, Scalar, Shape
from sparkbeam.columns.reasons import NotCompiled
from sparkbeam.columns.text_kernels import in_arrow
from sparkbeam.columns.vectors import Value, Vector

_TRIMS = {"strip": pc.utf8_trim, "lstrip": pc.utf8_ltrim, "rstrip": pc.utf8_rtrim}
_MATCHES = {"startswith": pc.starts_with, "endswith": pc.ends_with}
_UTF_8 = ((), ("utf-8",), ("utf8",), ("UTF-8",))
_SIMPLE: dict[str, tuple[Shape, Shape, Callable[..., Any], tuple[Any, ...]]] = {
    "upper": (STR, STR, text_kernels.upper, ((),)),
    "lower": (STR, STR, text_kernels.lower, ((),)),
    "encode": (STR, BYTES, text_kernels.encoded, _UTF_8),
    "decode": (BYTES, STR, text_kernels.decoded, _UTF_8),
}
"""Methods with one kernel: types of text and result, the kernel, and possible parameters."""
_BY_PYTHON: dict[str, tuple[Shape, tuple[type, ...], int]] = {
    **dict.fromkeys(["title", "capitalize", "swapcase", "casefold"], (STR, (), 0)),
    **dict.fromkeys(["removeprefix", "removesuffix"], (STR, (str,), 1)),
    **dict.fromkeys(["ljust", "rjust", "center"], (STR, (int, str), 1)),
    "zfill": (STR, (int,), 1),
    "expandtabs": (STR, (int,), 0),
    "replace": (STR, (str, str, int), 2),
    **dict.fromkeys(["split", "rsplit"], (Lists(STR), (str, int), 0)),
    "splitlines": (Lists(STR), (bool,), 0),
    **dict.fromkeys(["find", "rfind", "index", "rindex", "count"], (INT, (str, int, int), 1)),
    **dict.fromkeys(
        [
            *("isalnum", "isalpha", "isascii", "isdecimal", "isdigit", "isidentifier", "islower"),
            *("isnumeric", "isprintable", "isspace", "istitle", "isupper"),
        ],
        (BOOL, (), 0),
    ),
}
"""Methods of str: result type, parameter types, and number of required parameters."""

_LARGEST = 10_000
_OF_STR = frozenset([*_TRIMS, *_MATCHES, "upper", "lower", "count", "find"])


def of_text(graph: Graph, owner: Expression, name: str, args: tuple[Item, ...]) -> Expression:
    """Call a method of str or bytes.

    Raises:
        NotCompiled: the method or its arguments are not supported.
    """
    if name == "join" and owner.shape == STR:
        return _joined(graph, owner, args)
    values = tuple(arg.value if isinstance(arg, Const) else _NO for arg in args)
    if _NO in values:
        raise NotCompiled(f"it calls {owner.shape}.{name} with an argument that is not constant")
    if isinstance(owner, Const):
        return _folded(graph, owner.value, name, values)
    graph.require(owner)
    for arg in args:
        if isinstance(arg, Const):
            checked(arg)
    method = _METHODS.get(name)
    made = method(owner.shape, name, values) if method else None
    made = made or _by_python(owner.shape, name, values)
    if made is None:
        raise NotCompiled(f"it calls {owner.shape}.{name}")
    kernel, shape = made
    return graph.apply(kernel, shape, owner)


_NO = object()


def _folded(graph: Graph, owner: Any, name: str, values: tuple[Any, ...]) -> Expression:
    if type(owner) is not str or name not in _OF_STR:
        raise NotCompiled(f"it calls {type(owner).__name__}.{name} of a constant")
    return graph.folded(getattr(owner, name), *values)


_Kernel = tuple[Callable[[Value], Vector], Shape]
"""A kernel over texts, and the type of its results."""


def _by_python(text: Shape, name: str, values: tuple[Any, ...]) -> _Kernel | None:
    if text != STR or name not in _BY_PYTHON:
        return None
    shape, kinds, needed = _BY_PYTHON[name]
    if not needed <= len(values) <= len(kinds):
        return None
    for value, kind in zip(values, kinds, strict=False):
        if type(value) is not kind or (isinstance(value, int) and abs(value) > _LARGEST):
            return None
    return called(getattr(str, name), shape, *values), shape


def _simple(text: Shape, name: str, values: tuple[Any, ...]) -> _Kernel | None:
    given, made, kernel, possible = _SIMPLE[name]
    return (kernel, made) if text == given and values in possible else None


def _trim(text: Shape, name: str, values: tuple[Any, ...]) -> _Kernel | None:
    characters = values[0] if values else None
    if characters is None:
        characters = text_kernels.WHITESPACE
    if text != STR or len(values) > 1 or type(characters) is not str:
        return None
    return in_arrow(_TRIMS[name], characters=characters), STR


def _match(text: Shape, name: str, values: tuple[Any, ...]) -> _Kernel | None:
    patterns = values[0] if len(values) == 1 and type(values[0]) is tuple else values
    if len(values) != 1 or not all(Scalar(type(one)) == text for one in patterns):
        return None
    return text_kernels.matched(_MATCHES[name], patterns), BOOL


def _pattern(text: Shape, values: tuple[Any, ...], count: int) -> bool:
    """Return whether there are ``count`` values of the text's type, the first of them not empty."""
    are_texts = all(Scalar(type(one)) == text for one in values)
    return len(values) == count and are_texts and bool(values[0])


def _replace(text: Shape, name: str, values: tuple[Any, ...]) -> _Kernel | None:
    if not _pattern(text, values, 2):
        return None
    return in_arrow(pc.replace_substring, pattern=values[0], replacement=values[1]), text


def _count(text: Shape, name: str, values: tuple[Any, ...]) -> _Kernel | None:
    if not _pattern(text, values, 1):
        return None
    return text_kernels.counting(pc.count_substring, pattern=values[0]), INT


def _find(text: Shape, name: str, values: tuple[Any, ...]) -> _Kernel | None:
    if text != STR or not _pattern(text, values, 1) or not values[0].isascii():
        return None
    return text_kernels.found_at(*values), INT


def _split(text: Shape, name: str, values: tuple[Any, ...]) -> _Kernel | None:
    if text != STR or not _pattern(text, values[:1], 1):
        return None
    most = values[1] if len(values) == 2 else -1
    if len(values) > 2 or type(most) is not int or most == 0 or most > 1000:
        return None
    limit = None if most < 0 else most
    return in_arrow(pc.split_pattern, pattern=values[0], max_splits=limit), Lists(STR)


_METHODS: dict[str, Callable[[Shape, str, tuple[Any, ...]], _Kernel | None]] = {
    **dict.fromkeys(_SIMPLE, _simple),
    **dict.fromkeys(_TRIMS, _trim),
    **dict.fromkeys(_MATCHES, _match),
    "replace": _replace,
    "count": _count,
    "find": _find,
    "split": _split,
}


def _joined(graph: Graph, separator: Expression, args: tuple[Item, ...]) -> Expression:
    """Compute ``separator.join`` of a tuple or list built by the function."""
    items: tuple[Item, ...] = ()
    if len(args) == 1 and isinstance(args[0], Listed):
        items = args[0].items
    elif len(args) == 1 and isinstance(args[0], Made):
        items = items_of(graph, args[0])
    if not items or not all(isinstance(item, Expression) and item.shape == STR for item in items):
        raise NotCompiled("it calls str.join with something other than a tuple of str")
    parts: list[Expression] = []
    for item in items:
        if parts:
            parts.append(separator)
        parts.append(as_text(graph, item))
    if len(parts) == 1:
        return parts[0]
    if all(isinstance(part, Const) for part in parts):
        raise NotCompiled("it calls str.join of constants")
    return graph.apply(text_kernels.joined, STR, *parts)


def replaced_fields(graph: Graph, owner: Expression, named: dict[str, Item]) -> Expression:
    """Compute ``_replace`` of a NamedTuple."""
    record = owner.shape
    assert isinstance(record, RecordShape)
    fields = dict(zip(record.names, items_of(graph, owner), strict=True))
    for name, item in named.items():
        if name not in fields:
            raise NotCompiled("it raises ValueError")
        if not isinstance(item, Expression):
            raise NotCompiled("it makes a record with a field that no column can hold")
        fields[name] = item
    return graph.record(record, tuple(fields.values()))


def of_dict(
    graph: Graph, owner: Expression, name: str, args: tuple[Item, ...], by_name: dict[str, Item]
) -> Item:
    """Call a method of a dict with known keys: ``get`` with a constant key.

    Raises:
        NotCompiled: the method is not supported.
    """
    if name != "get" or by_name or len(args) not in (1, 2) or not isinstance(args[0], Const):
        raise NotCompiled(f"it calls dict.{name}")
    default = args[1] if len(args) == 2 else graph.const(None)
    return operators.of_dict(graph, owner, args[0].value, default)


def of_table(
    graph: Graph, owner: Expression, name: str, args: tuple[Item, ...], by_name: dict[str, Item]
) -> Item:
    """Call a method of a dict with any keys: ``get``.

    Raises:
        NotCompiled: the method is not supported.
    """
    if name != "get" or by_name or len(args) not in (1, 2):
        raise NotCompiled(f"it calls {owner.shape}.{name}")
    return operators.got(graph, owner, args[0], args[1] if len(args) == 2 else graph.const(None))
