"""Spark's SQL as texts with expressions in them."""

import re

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.generator import Generator
from sqlglot.generators.spark import SparkGenerator

from sparkbeam_sql.functions import IN_SPARK


class SparkText(exp.Expression, exp.Func):
    """An expression in Spark's dialect: a text with ``{0}`` for its first part."""

    arg_types = {"this": True, "expressions": False}  # noqa: RUF012

    @classmethod
    def of(cls, text: str, *parts: exp.Expr, type: exp.DataType | None = None) -> "SparkText":
        """Return an expression.

        Args:
            text: its text, with braces for the parts, and ``{type}`` for its type.
        """
        if type is not None:
            text = text.replace("{type}", type.sql("spark"))
        found = cls(this=text, expressions=[part.copy() for part in parts])
        found.type = type
        return found


def by_python(name: str, *parts: exp.Expr, type: exp.DataType | None = None) -> exp.Expr:
    """Return a call of a function of :mod:`sparkbeam_sql.functions` by Spark."""
    places = ", ".join(f"{{{at}}}" for at in range(len(parts)))
    call = f"{IN_SPARK}{name}({places})"
    return SparkText.of(call if type is None else f"CAST({call} AS {{type}})", *parts, type=type)


def _written(generator: Generator, node: SparkText) -> str:
    parts = [_part(generator, part) for part in node.expressions]
    return re.sub(r"\{(\d+)\}", lambda found: parts[int(found[1])], node.name)


def _part(generator: Generator, node: exp.Expr) -> str:
    text = generator.sql(node)
    is_plain = isinstance(node, exp.Column | exp.Literal | exp.Anonymous | exp.Cast | exp.Paren)
    return text if is_plain else f"({text})"


class SparkDialect(Spark):
    """Spark's dialect with :class:`SparkText`."""

    class Generator(SparkGenerator):
        """Writer of expressions."""

        TRANSFORMS = {**SparkGenerator.TRANSFORMS, SparkText: _written}  # noqa: RUF012
