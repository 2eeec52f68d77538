"""Casts that SQL makes implicitly: of arguments to strings, and of strings to times."""

from collections.abc import Iterator

from sqlglot import exp

from sparkbeam_sql.calcite_dialect import FLOATS, INTEGERS, TEXTS, TIMESTAMPS, QueryRefused, place
from sparkbeam_sql.calcite_functions import arguments, function_of
from sparkbeam_sql.calcite_nodes import compared_values
from sparkbeam_sql.calcite_types import (
    BYTES,
    Kind,
    Type,
    built,
    written,
)

_CAST = (*INTEGERS, *FLOATS, *TIMESTAMPS, Kind.DECIMAL, Kind.DATE, Kind.BOOLEAN)
_REMEDY = "Convert bytes to a string with TO_HEX."


def cast_implicitly(tree: exp.Query) -> bool:
    """Cast arguments of functions of strings to ``VARCHAR``, and strings compared with times.

    Returns:
        Whether there was any: then types are to be found anew.
    """
    found = False
    for node in list(tree.walk()):
        casts = [(argument, "VARCHAR") for argument in _texts(node)]
        parts = compared_values(node)
        _check_bytes(node, parts)
        if any(part.is_type(Kind.DATE, *TIMESTAMPS) for part in parts):
            is_moment = any(part.is_type(*TIMESTAMPS) for part in parts)
            texts = (part for part in parts if part.is_type(*TEXTS))
            casts += [(part, "TIMESTAMP" if is_moment else "DATE") for part in texts]
        for part, kind in casts:
            part.replace(exp.Cast(this=part.copy(), to=built(kind).copy()))
        found |= bool(casts)
    return found


def _texts(node: exp.Expr) -> Iterator[exp.Expr]:
    """Yield the arguments that a function takes as strings, and that are none."""
    function = function_of(node)
    given = arguments(node)
    kinds = [] if function is None else function.kinds(len(given))
    if isinstance(node, exp.ILike):
        kinds = ["text"] * len(given)
    pairs = [*zip(given, kinds, strict=False)]
    of_data = [each.type for each, kind in pairs if kind == "data"]
    are_bytes = bool(of_data) and not any(_is_other(kind, BYTES) for kind in of_data)
    for each, kind in pairs:
        if kind == "bytes" and _is_other(each.type, BYTES):
            name = f"{_name(each.type)} as bytes: {written(each)}{place(each)}"
            raise QueryRefused(name, "CAST it to VARBINARY, or use FROM_HEX.")
        is_text = kind == "text" or (kind == "data" and not are_bytes)
        if is_text and _is_other(each.type, TEXTS):
            if not each.is_type(*_CAST):
                raise QueryRefused(
                    f"{_name(each.type)} as a string: {written(each)}{place(each)}", _REMEDY
                )
            yield each


def _is_other(kind: Type | None, kinds: tuple[exp.DType, ...]) -> bool:
    return kind is not None and not kind.is_type(*kinds, Kind.NULL, Kind.UNKNOWN)


def _name(kind: Type | None) -> str:
    return "" if kind is None else kind.this.name.replace("TEXT", "VARCHAR")


def _check_bytes(node: exp.Expr, parts: list[exp.Expr]) -> None:
    if isinstance(node, exp.In) and node.args.get("query") is not None:
        parts = [node.this, *node.args["query"].unnest().selects]
    kinds = [part.type for part in parts]
    others = [kind for kind in kinds if _is_other(kind, BYTES)]
    if others and any(_is_other(kind, ()) for kind in kinds if kind not in others):
        raise QueryRefused(f"a comparison of bytes with {_name(others[0])}{place(node)}", _REMEDY)
