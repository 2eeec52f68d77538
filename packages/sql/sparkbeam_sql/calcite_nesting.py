"""Division of deeply nested expressions in Python, of which its parser limits the depth."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

_DEEPEST = 60
"""Parentheses within each other in one expression."""

_TOKEN = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|[()\[\]]|:=|,")
_BOUND = re.compile(r"\b(v[0-9a-f]{20}) :=")
_USED = re.compile(r"\bv[0-9a-f]{20}\b")
_FUNCTION = re.compile(r"(?<![\w.)\]])[A-Za-z_]\w*$")


@dataclass
class _Group:
    """An expression in parentheses, or the arguments of a call.

    Attributes:
        height: the number of groups within each other in it.
        is_value: it is neither an assignment nor has commas.
    """

    texts: list[str] = field(default_factory=list)
    height: int = 0
    is_value: bool = True


def divided(source: str, parameters: Sequence[str]) -> tuple[str, dict[str, tuple[list[str], str]]]:
    """Return an expression of limited depth, and the functions that it calls.

    A function stands for what is in parentheses, so it is computed when that would be.

    Args:
        source: the expression, of which parts in parentheses use no names that are bound outside,
            other than the parameters and those of :func:`calcite_values.held`.

    Returns:
        The expression, and the parameters and the expression of each function, innermost first.
    """
    functions: dict[str, tuple[list[str], str]] = {}
    stack, end = [_Group()], 0
    for found in _TOKEN.finditer(source):
        token = found[0]
        group = stack[-1]
        group.texts.append(source[end : found.start()])
        end = found.end()
        if token in "([":
            stack.append(_Group())
        elif token in ")]":
            stack.pop()
            _close(group, token, stack[-1], parameters, functions)
        else:
            group.texts.append(token)
            group.is_value &= token[0] in "'\""
    stack[-1].texts.append(source[end:])
    return "".join(stack[-1].texts), functions


def _close(
    group: _Group,
    token: str,
    outer: _Group,
    parameters: Sequence[str],
    functions: dict[str, tuple[list[str], str]],
) -> None:
    """Add a group that is complete to the one around it, or a call in its place."""
    text = "".join(group.texts)
    before = outer.texts[-1]
    called = _FUNCTION.search(before)
    is_call = before[-1:].isalnum() or before[-1:] in ("_", ")", "]")
    is_whole = (called is not None) if is_call else group.is_value
    if token == "]" or group.height < _DEEPEST or not is_whole:
        outer.texts.append(f"({text})" if token == ")" else f"[{text}]")
        outer.height = max(outer.height, group.height + 1)
        return
    if called is not None:
        outer.texts[-1] = before[: called.start()]
    text = f"{called[0] if called is not None else ''}({text})"
    free = sorted({*_USED.findall(text)} - {*_BOUND.findall(text)})
    name, arguments = f"part{len(functions)}", [*parameters, *free]
    functions[name] = arguments, text
    outer.texts.append(f"{name}({', '.join(arguments)})")
    outer.height = max(outer.height, 1)
