"""Identity of an object as a text that is the same in each process that makes the object again.

State is written by coders and CombineFns that travel as pickles, whose bytes differ from one
process to the next. Their identity therefore consists of the names of their classes and functions,
and of the attributes that cannot differ by chance. A function without a name, a lambda or a nested
function, is identified by a digest of its bytecode, which knows no file, line or label.
"""

import enum
import functools
import hashlib
import re
import sys
import types
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from apache_beam.utils.timestamp import Duration, Timestamp
from google.protobuf.message import Message

from sparkbeam.common.entry_points import packages

_LONGEST = 160
_DEEPEST = 8
_MOST_PARTS = 500
_UNTOLD = frozenset(["_type_hints", "_impl"])
_PLACE = re.compile(r"<lambda at [^>]*>")
_CELL = re.compile(r"(^|/)\[[^\]/]*\]: ")
_CODE = re.compile(r"#[0-9a-f]{8}\b")


@functools.lru_cache(4096)
def stable_name(label: str) -> str:
    """Return a label without the cells of a notebook and the lines of code in it.

    They change where what a step does has not.
    """
    return _CELL.sub(r"\1", _PLACE.sub("<lambda>", label))


def steady_names(labels: Iterable[str]) -> dict[str, str]:
    """Return distinct names for labels that stay the same if cells and lines move."""
    counts = Counter[str]()
    found = {}
    for label in sorted(set(labels), key=steady_order):
        name = stable_name(label)
        counts[name] += 1
        found[label] = name if counts[name] == 1 else f"{name} #{counts[name]}"
    return found


def steady_order(label: str) -> tuple[str, list[int]]:
    """Return the sort key of a label that keeps the order of steps when lines or cells move."""
    return stable_name(label), [int(number) for number in re.findall("[0-9]+", label)]


def without_code(text: str) -> str:
    """Return an identity without its digests of bytecode, which depend on the Python version."""
    return _CODE.sub("#", text)


def identity(value: Any) -> str:
    """Return the identity of a value; of an object its class and its distinguishing attributes.

    Of a user's objects only whole numbers, functions and classes are included. A text may be new in
    each process, and the code of a method may change, as that of a function may.
    """
    return shortened(_Teller().text(value, 0))


def shortened(text: str) -> str:
    """Return a text that is not long; two that differ stay different."""
    if len(text) <= _LONGEST:
        return text
    digest = hashlib.blake2b(text.encode(), digest_size=6).hexdigest()
    return f"{text[:_LONGEST]}… ({digest})"


class _Teller:
    """Identity of one value and of its parts, as far as they are not endless."""

    def __init__(self) -> None:
        self._left = _MOST_PARTS

    def text(self, value: Any, depth: int) -> str:
        self._left -= 1
        if depth > _DEEPEST or self._left < 0:
            return "…"
        if value is None or isinstance(value, bool | int | float | str | bytes):
            return repr(value)
        if isinstance(value, type):
            return _name(value)
        if isinstance(value, enum.Enum):
            return f"{_name(type(value))}.{value.name}"
        if isinstance(value, Duration | Timestamp):
            return f"{value.micros} us"
        if isinstance(value, types.MethodType):
            return f"{self.text(value.__self__, depth + 1)}.{value.__name__}"
        if isinstance(value, functools.partial):
            return f"partial({self._listed([value.func, *value.args, value.keywords], depth)})"
        if callable(value) and hasattr(value, "__qualname__"):
            return self._function(value, depth)
        return self._composite_text(value, depth)

    def _composite_text(self, value: Any, depth: int) -> str:
        if isinstance(value, Mapping):
            pairs = sorted(
                (self.text(key, depth + 1), self.text(item, depth + 1))
                for key, item in value.items()
            )
            return "{" + ", ".join(f"{key}: {item}" for key, item in pairs) + "}"
        if isinstance(value, set | frozenset):
            return "{" + ", ".join(sorted(self.text(item, depth + 1) for item in value)) + "}"
        if isinstance(value, list | tuple):
            return f"({self._listed(value, depth)})"
        if isinstance(value, Message):
            return f"{type(value).__name__} {value.SerializeToString(deterministic=True).hex()}"
        return self._object(value, depth)

    def _listed(self, values: Iterable[Any], depth: int) -> str:
        return ", ".join(self.text(value, depth + 1) for value in values)

    def _object(self, value: Any, depth: int) -> str:
        name = _name(type(value))
        is_own = _is_own(type(value).__module__)
        attributes = [
            f"{attribute.lstrip('_')}={self.text(content, depth + 1)}"
            for attribute, content in sorted(_attributes(value).items())
            if attribute not in _UNTOLD and (is_own or _is_steady(content))
        ]
        return f"{name}({', '.join(attributes)})" if attributes else name

    def _function(self, function: Callable[..., Any], depth: int) -> str:
        name = function.__qualname__
        code = getattr(function, "__code__", None)
        if code is None or not ("<lambda>" in name or "<locals>" in name):
            module = getattr(function, "__module__", None)
            return name if module in (None, "builtins", "__main__") else f"{module}.{name}"
        digest = hashlib.blake2b(digest_size=4)
        for part in _code(code):
            digest.update(part.encode() + b"\0")
        cells = [cell.cell_contents for cell in function.__closure__ or () if _is_filled(cell)]
        for content in (*(function.__defaults__ or ()), *cells):
            if content is not function and _is_steady(content):
                digest.update(self.text(content, depth + 1).encode() + b"\0")
        return f"{name.rpartition('.')[2]}#{digest.hexdigest()}"


def _attributes(value: Any) -> dict[str, Any]:
    getter = getattr(type(value), "__getstate__", None)
    state: Any = None
    if getter is not None and getter is not getattr(object, "__getstate__", None):
        state = value.__getstate__()
    if not isinstance(state, dict):
        state = getattr(value, "__dict__", {})
    return state


def _is_steady(content: Any) -> bool:
    """Return whether an attribute of a user's object has content that is not made up by chance."""
    if content is None or isinstance(content, bool | int | type | enum.Enum):
        return True
    if callable(content) and hasattr(content, "__qualname__"):
        return True
    return _is_own(type(content).__module__)


def _is_own(module: str) -> bool:
    return module.partition(".")[0] in {"apache_beam", *packages()}


def _name(kind: Any) -> str:
    module, name = kind.__module__, kind.__qualname__
    # What a program itself defines has another module where it is imported, or in a notebook.
    is_plain = module in ("builtins", "__main__") or _is_own(module)
    return name if is_plain else f"{module}.{name}"


def _is_filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018 - an empty one raises
    except ValueError:
        return False
    return True


def _code(code: types.CodeType) -> Iterator[str]:
    """Yield all of a function's bytecode that is independent of its location."""
    yield code.co_code.hex()
    yield repr((code.co_names, code.co_freevars, code.co_cellvars))
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _code(constant)
        elif isinstance(constant, frozenset):
            yield repr(sorted(map(repr, constant)))
        elif not (isinstance(constant, str) and "<locals>" in constant):
            yield repr(constant)


PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
"""The version of Python whose bytecode the digests are of."""
