"""User-defined CombineFns that combine whole columns of values."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import apache_beam as beam
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparkbeam.accumulators.inputs import input_of_values
from sparkbeam.columns.python_types import shape_of
from sparkbeam.columns.python_values import values_of

Groups: TypeAlias = npt.NDArray[np.int64]
"""The number of the group of each value, from 0 on, in any order."""


class VectorizedCombineFn(beam.CombineFn):
    """A CombineFn that takes values in columns, many keys and windows at once.

    On sparkbeam a combine with it runs over columns wherever one of Beam's own would: per key and
    globally, in global, fixed, sliding and session windows, on both sides of the shuffle, in batch
    and in streaming. Everywhere else, on other runners too, it is a CombineFn as any other: the
    methods of :class:`beam.CombineFn` follow from those here, and may be overridden by faster ones
    that give the same. A combine with further arguments is given elements, and leaves it to such
    methods what they make of these.

    An accumulator is a number, or a tuple of the fields of a struct, nested as that is. A group
    without any values has what :meth:`create_accumulator` gives, which is what a merge of nothing
    comes to. As of all CombineFns, what comes out does not depend on which values are reduced
    together, and which accumulators are merged.

    Attributes:
        accumulator_type: the Arrow type of accumulators: ``int64``, ``float64``, or a struct of
            these and of such structs, with up to 24 numbers in all.
        is_ordered: the values of a group are reduced, and accumulators merged, in the order in
            which they come, where results are to be rounded as one after the other is. Elements
            of sliding windows go to each of their windows then, and are not shared.

    Example:
        >>> class GeometricMean(VectorizedCombineFn):
        ...     accumulator_type = pa.struct({"logs": pa.float64(), "count": pa.int64()})
        ...
        ...     def reduce_batch(self, groups, values, count):
        ...         logs = np.log(values.to_numpy())
        ...         return self.accumulators(
        ...             np.bincount(groups, logs, count), np.bincount(groups, minlength=count)
        ...         )
        ...
        ...     def merge_batch(self, groups, accumulators, count):
        ...         logs, counts = accumulators.flatten()
        ...         return self.accumulators(
        ...             np.bincount(groups, logs, count), np.bincount(groups, counts, count)
        ...         )
        ...
        ...     def extract_batch(self, accumulators):
        ...         logs, counts = (part.to_numpy() for part in accumulators.flatten())
        ...         return pa.array(np.exp(logs / np.maximum(counts, 1)))
        >>> fn = GeometricMean()
        >>> round(fn.apply([2.0, 8.0]), 9)
        4.0
    """

    accumulator_type: pa.DataType
    is_ordered: bool = False

    def reduce_batch(self, groups: Groups, values: pa.Array, count: int) -> pa.Array | None:
        """Return the accumulators of values.

        Args:
            groups: the group of each value, at least 0 and less than ``count``, in any order;
                there may be groups without values.
            values: the values to combine, one for each of ``groups``. ``int``, ``float``,
                ``bool``, ``str`` and ``bytes`` are ``int64``, ``float64``, ``bool``, ``string``
                and ``binary``; tuples, NamedTuples, Rows and dicts are structs, those of tuples
                with fields ``"0"``, ``"1"``, …; None is null; all else is as in its source.

        Returns:
            An accumulator for each group, of ``accumulator_type`` and without nulls. None refuses
            the values: they are given to :meth:`add_inputs` one key after the other, and those
            that it is overridden for, or accepts by itself, are combined there.
        """
        raise NotImplementedError(f"{type(self).__name__}.reduce_batch")

    def merge_batch(self, groups: Groups, accumulators: pa.Array, count: int) -> pa.Array:
        """Merge the accumulators of each group.

        It cannot refuse any accumulators. A value that may become too large for
        ``accumulator_type`` must be refused by :meth:`reduce_batch`, or be counted in floats.

        Args:
            groups: the group of each accumulator, as for :meth:`reduce_batch`.
            accumulators: of ``accumulator_type``; empty if the accumulator of no values is needed.

        Returns:
            An accumulator for each group, likewise.
        """
        raise NotImplementedError(f"{type(self).__name__}.merge_batch")

    def extract_batch(self, accumulators: pa.Array) -> pa.Array:
        """Return the result of each accumulator; a struct is a :class:`beam.Row`."""
        raise NotImplementedError(f"{type(self).__name__}.extract_batch")

    def accumulators(self, *fields: Any) -> pa.Array:
        """Make accumulators of the fields of ``accumulator_type``, or of its one number.

        Args:
            fields: arrays of numpy or Arrow, of which numbers are converted where that loses
                nothing; an Arrow array for a field that is a struct.

        Raises:
            pyarrow.ArrowInvalid: a number does not fit.
            ValueError: there are not as many as fields.
        """
        kind = self.accumulator_type
        if not pa.types.is_struct(kind):
            (numbers,) = fields
            return _cast(numbers, kind)
        columns = [_cast(part, field.type) for part, field in zip(fields, kind, strict=True)]
        return pa.StructArray.from_arrays(columns, fields=list(kind))

    def create_accumulator(self, *args: Any, **kwargs: Any) -> Any:
        return self._merged([])

    def add_input(self, mutable_accumulator: Any, element: Any, *args: Any, **kwargs: Any) -> Any:
        return self.add_inputs(mutable_accumulator, [element], *args, **kwargs)

    def add_inputs(
        self, mutable_accumulator: Any, elements: Iterable[Any], *args: Any, **kwargs: Any
    ) -> Any:
        """Add values to an accumulator.

        Raises:
            ValueError: a value is none that :meth:`reduce_batch` accepts.
        """
        values = list(elements)
        if not values:
            return mutable_accumulator
        together = self._reduced(values)
        parts = map(self._reduced_alone, values) if together is None else [together]
        return self._merged([mutable_accumulator, *parts])

    def merge_accumulators(self, accumulators: Iterable[Any], *args: Any, **kwargs: Any) -> Any:
        return self._merged(list(accumulators))

    def extract_output(self, accumulator: Any, *args: Any, **kwargs: Any) -> Any:
        found = extracted(self, _column([accumulator], self.accumulator_type))
        return values_of(found, shape_of(found.type))[0]

    def _reduced(self, values: Sequence[Any]) -> Any:
        """Return the accumulator of values; None if they are refused."""
        column = input_of_values(values)
        found = None if column is None else reduced(self, np.zeros(len(values), int), column, 1)
        return None if found is None else _as_python(found)[0]

    def _reduced_alone(self, value: Any) -> Any:
        found = self._reduced([value])
        if found is None:
            raise ValueError(f"{type(self).__name__}.reduce_batch does not accept {value!r}")
        return found

    def _merged(self, accumulators: list[Any]) -> Any:
        groups = np.zeros(len(accumulators), np.int64)
        return _as_python(merged(self, groups, _column(accumulators, self.accumulator_type), 1))[0]


def reduced(
    combine_fn: VectorizedCombineFn, groups: Groups, values: pa.Array, count: int
) -> pa.Array | None:
    """Return the result of ``reduce_batch``, checked.

    Raises:
        TypeError: the result is not of the accumulators' type.
        ValueError: its length differs, or some accumulators are null.
    """
    found = combine_fn.reduce_batch(groups, values, count)
    if found is not None:
        _check(combine_fn, "reduce_batch", found, count, combine_fn.accumulator_type)
    return found


def merged(
    combine_fn: VectorizedCombineFn, groups: Groups, accumulators: pa.Array, count: int
) -> pa.Array:
    """Return the result of ``merge_batch``, checked; raises as :func:`reduced`."""
    found = combine_fn.merge_batch(groups, accumulators, count)
    _check(combine_fn, "merge_batch", found, count, combine_fn.accumulator_type)
    return found


def extracted(combine_fn: VectorizedCombineFn, accumulators: pa.Array) -> pa.Array:
    """Return the result of ``extract_batch``, checked; raises as :func:`reduced`."""
    found = combine_fn.extract_batch(accumulators)
    _check(combine_fn, "extract_batch", found, len(accumulators), None)
    return found


def _check(
    combine_fn: VectorizedCombineFn, method: str, found: Any, count: int, kind: pa.DataType | None
) -> None:
    name = f"{type(combine_fn).__name__}.{method}"
    if not isinstance(found, pa.Array):
        raise TypeError(f"{name} must return a pyarrow.Array, not a {type(found).__name__}")
    if len(found) != count:
        raise ValueError(f"{name} returned {len(found)} values, not {count}")
    if kind is None:
        return
    if found.type != kind:
        raise TypeError(f"{name} returned {found.type}, but its accumulator_type is {kind}")
    if any(part.null_count for part in _all_of(found)):
        raise ValueError(f"{name} returned nulls")


def _all_of(column: pa.Array) -> Iterator[pa.Array]:
    yield column
    for at in range(column.type.num_fields):
        yield from _all_of(column.field(at))


def _cast(numbers: Any, kind: pa.DataType) -> pa.Array:
    column = numbers if isinstance(numbers, pa.Array) else pa.array(numbers)
    return column if column.type == kind else column.cast(kind)


def _column(accumulators: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Return accumulators in a column."""
    if not pa.types.is_struct(kind):
        return pa.array(accumulators, kind)
    parts = zip(*accumulators, strict=True) if accumulators else [()] * kind.num_fields
    columns = [_column(part, field.type) for part, field in zip(parts, kind, strict=True)]
    return pa.StructArray.from_arrays(columns, fields=list(kind))


def _as_python(column: pa.Array) -> list[Any]:
    """Return the inverse of :func:`_column`."""
    if not pa.types.is_struct(column.type):
        found: list[Any] = column.to_pylist()
        return found
    parts = [_as_python(column.field(at)) for at in range(column.type.num_fields)]
    return list(zip(*parts, strict=True))
