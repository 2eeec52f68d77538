"""Functions in Python, and aggregates, that a query in SQL calls by name."""

import inspect
import re
import typing
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from decimal import Decimal
from hashlib import blake2b
from typing import Any

import apache_beam as beam
import numpy as np
from apache_beam.internal import pickler
from apache_beam.transforms.sql import SqlTransform
from apache_beam.utils.timestamp import Timestamp

from sparkbeam.common.arguments import listed, shown
from sparkbeam.common.display_text import shortened
from sparkbeam.connectors.schemas import without_none
from sparkbeam.errors import ConfigurationError
from sparkbeam.plan.spark_io import QUERY_FUNCTION, QueryFunction
from sparkbeam_sql import functions as sql_functions

_COLUMNS: Mapping[Any, str] = {
    bool: "boolean",
    np.int8: "tinyint",
    np.int16: "smallint",
    np.int32: "int",
    int: "bigint",
    np.float32: "float",
    float: "double",
    Decimal: "decimal(38,18)",
    str: "string",
    bytes: "binary",
    date: "date",
    Timestamp: "timestamp_ntz",
}
"""Types of arguments and results, and Spark's types of their columns."""


def with_sql_functions(
    transform: SqlTransform, /, **functions: Callable[..., Any] | beam.CombineFn
) -> "beam.PTransform[Any, Any]":
    """Return a query that can call functions in Python.

    The annotations of a function are the types of its arguments and of its result: numbers,
    ``str``, ``bytes``, ``bool``, ``Decimal``, ``date`` and Beam's ``Timestamp``. An argument may be
    None if its type is ``Optional``; otherwise the function is not called for null, and the result
    is null.

    A ``CombineFn`` is an aggregate of the values that are not null. Its types are the annotations
    of the argument of ``add_input`` and of the result of ``extract_output``.

    Args:
        functions: the functions by their names in the query, whose case does not matter there.

    Raises:
        ConfigurationError: a type is missing or is none of these, or SQL has a function of this
            name; when it is applied: the query has other arguments, or the pipeline another runner.
    """
    from sparkbeam_sql.transform import with_functions

    if not isinstance(transform, SqlTransform):
        raise ConfigurationError(f"{shown(transform)} is not a SqlTransform.")
    return with_functions(transform, signatures(functions))


@dataclass(frozen=True)
class Parameter:
    """Type of an argument or a result.

    Attributes:
        type: the type in Python, without None.
        nullable: None is a value of it.
    """

    type: Any
    nullable: bool

    @property
    def column(self) -> str:
        """Spark's type of a column of it."""
        return _COLUMNS[self.type]


@dataclass(frozen=True)
class SqlFunction:
    """A function of the user.

    Attributes:
        function: the function, or the CombineFn.
        least: the number of those without a default.
        alias: a name that no other function has.
    """

    name: str
    function: Any = field(repr=False)
    parameters: tuple[Parameter, ...]
    least: int
    result: Parameter
    alias: str

    @property
    def is_aggregate(self) -> bool:
        """True for an aggregate."""
        return isinstance(self.function, beam.CombineFn)

    def of_spark(self, label: str) -> QueryFunction:
        """Return the function that Spark calls; an aggregate gets the list of its values.

        Args:
            label: of the query, for errors.
        """
        call: Any = _Aggregate(self, label) if self.is_aggregate else _Call(self, label)
        return QueryFunction(self.alias, pickler.dumps(call), self.result.column)


def signatures(functions: Mapping[str, Any]) -> dict[str, SqlFunction]:
    """Return the functions by their names in lower case.

    Raises:
        ConfigurationError: a type is missing or not known, or a name occurs twice.
    """
    found: dict[str, SqlFunction] = {}
    for name, function in functions.items():
        if name.lower() in found:
            raise ConfigurationError(f"Two functions have the name {shown(name)}, ignoring case.")
        found[name.lower()] = _signature(name, function)
    return found


def builtins(query: str, label: str) -> tuple[QueryFunction, ...]:
    """Return the functions of :mod:`sparkbeam_sql.functions` that a query calls.

    Args:
        label: of the query, for errors.
    """
    names = {*re.findall(rf"\b{sql_functions.IN_SPARK}(\w+)\(", query)}
    return tuple(
        replace(
            _signature(name, getattr(sql_functions, name)), alias=f"{sql_functions.IN_SPARK}{name}"
        ).of_spark(label)
        for name in sorted(names)
        if hasattr(sql_functions, name)
    )


def _signature(name: str, function: Any) -> SqlFunction:
    if isinstance(function, beam.CombineFn):
        add = _annotated(name, type(function).add_input)[2:3]
        extract = typing.get_type_hints(type(function).extract_output)
        types = [kind for _, kind, _ in add], extract.get("return")
        parameters, least = [_parameter(name, "the argument of add_input", k) for k in types[0]], 1
        result = _parameter(name, "the result of extract_output", types[1])
    elif callable(function):
        code = function if inspect.isroutine(function) else type(function).__call__
        arguments = _annotated(name, code)
        if code is not function:
            arguments = arguments[1:]
        parameters = [_parameter(name, f"the argument {arg!r}", kind) for arg, kind, _ in arguments]
        least = sum(not has_default for _, _, has_default in arguments)
        result = _parameter(name, "the result", typing.get_type_hints(code).get("return"))
    else:
        raise ConfigurationError(f"{name}={shown(function)} is neither a function nor a CombineFn.")
    digest = blake2b(pickler.dumps(function), digest_size=8).hexdigest()
    alias = f"sparkbeam_{digest}_{name}".lower()
    return SqlFunction(name, function, tuple(parameters), least, result, alias)


def _annotated(name: str, code: Any) -> list[tuple[str, Any, bool]]:
    """Return name and annotation of each argument, and whether it has a default."""
    try:
        hints, signature = typing.get_type_hints(code), inspect.signature(code)
    except (NameError, TypeError, ValueError) as error:
        raise ConfigurationError(f"The annotations of {name} cannot be read: {error}.") from None
    found = []
    for each in signature.parameters.values():
        if each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD, each.KEYWORD_ONLY):
            raise ConfigurationError(f"{name} has the argument '{each}', which SQL cannot pass.")
        found.append((each.name, hints.get(each.name), each.default is not each.empty))
    return found


def _parameter(name: str, what: str, annotation: Any) -> Parameter:
    kind, nullable = without_none(annotation)
    if annotation is None or annotation is type(None):
        raise ConfigurationError(
            f"{name} lacks the type of {what}. Annotate it, as in def twice(n: int) -> int."
        )
    if not isinstance(kind, type) or kind not in _COLUMNS:
        raise ConfigurationError(
            f"{name} has the unsupported type {shown(kind)} for {what}. Use one of "
            f"{listed(each.__name__ for each in _COLUMNS)}, or Optional of one of them."
        )
    return Parameter(kind, nullable)


# Calls by Spark.


@dataclass(frozen=True)
class _Call:
    """Call of a function with values of columns."""

    signature: SqlFunction
    label: str

    def __call__(self, *values: Any) -> Any:
        called = self.signature
        for value, parameter in zip(values, called.parameters, strict=False):
            if value is None and not parameter.nullable:
                return None
        with _errors_naming(self.label, called.name):
            return _to_column(called.result, called.function(*map(_of_column, values)))


@dataclass(frozen=True)
class _Aggregate:
    """Result of an aggregate over the list of its values."""

    signature: SqlFunction
    label: str

    def __call__(self, values: list[Any]) -> Any:
        combine = self.signature.function
        with _errors_naming(self.label, self.signature.name):
            combine.setup()
            accumulator = combine.create_accumulator()
            for value in values:
                accumulator = combine.add_input(accumulator, _of_column(value))
            found = combine.extract_output(accumulator)
            combine.teardown()
            return _to_column(self.signature.result, found)


@contextmanager
def _errors_naming(label: str, name: str) -> Iterator[None]:
    """Name the query and the function in errors."""
    try:
        yield
    except Exception as error:
        text = shortened(" ".join(f"{type(error).__name__}: {error}".split()), 300)
        raise RuntimeError(f"Step '{label}' failed: {QUERY_FUNCTION} {name}: {text}") from error


def _of_column(value: Any) -> Any:
    if isinstance(value, datetime):
        return Timestamp.from_utc_datetime(value.replace(tzinfo=UTC))
    return bytes(value) if isinstance(value, bytearray) else value


_BITS = {np.int8: 8, np.int16: 16, np.int32: 32, int: 64}


def _to_column(result: Parameter, value: Any) -> Any:
    """Return a result as Spark takes it, which replaces one of another type by null."""
    if value is None and result.nullable:
        return None
    kind = result.type
    if isinstance(value, np.generic):
        value = value.item()
    if kind in _BITS and isinstance(value, int) and not isinstance(value, bool):
        if -(1 << _BITS[kind] - 1) <= value < 1 << _BITS[kind] - 1:
            return value
        raise OverflowError(
            f"it returned {shown(value)}, which is out of range for {_COLUMNS[kind]}"
        )
    if kind in (float, np.float32) and isinstance(value, int | float):
        return float(value)
    if kind is Timestamp and isinstance(value, Timestamp):
        return value.to_utc_datetime()
    if kind in (bool, str, bytes, Decimal, date) and isinstance(value, kind):
        return value
    raise TypeError(f"it returned {shown(value)}, which is not of type {kind.__name__}")
