"""Assumptions about sqlglot's parser and its annotator of types."""

from typing import Any


def current_token(parser: Any) -> Any:
    """Return the token at the parser's place."""
    return parser._curr


def parsed_operand(parser: Any) -> Any:
    """Parse an operand of a comparison at the parser's place; None if there is none."""
    return parser._parse_bitwise()


def with_type(annotator: Any, node: Any, kind: Any) -> Any:
    """Set the type of a node, which the annotator then leaves; None stands for an unknown one."""
    return annotator._set_type(node, kind)
