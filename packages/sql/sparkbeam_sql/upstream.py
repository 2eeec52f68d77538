"""Assumptions about sqlglot's parser and its annotator of types."""

from collections.abc import Callable
from typing import Any

from sqlglot import exp


def parsed_operand(parser: Any) -> Any:
    """Parse an operand of a comparison at the parser's place; None if there is none."""
    return parser._parse_bitwise()


def with_place(parse: Callable[[Any], Any], ahead: int) -> Callable[[Any], Any]:
    """Return a parser of a call that also gives the call its place in the query.

    Args:
        parse: the parser of a function with a syntax of its own.
        ahead: the number of tokens between the begin of the call and where ``parse`` starts.
    """

    def parse_call(parser: Any) -> Any:
        token = parser._tokens[parser._index - ahead]
        found = parse(parser)
        return found.update_positions(token) if isinstance(found, exp.Func) else found

    return parse_call


def with_type(annotator: Any, node: Any, kind: Any) -> Any:
    """Set the type of a node, which the annotator then leaves; None stands for an unknown one."""
    return annotator._set_type(node, kind)
