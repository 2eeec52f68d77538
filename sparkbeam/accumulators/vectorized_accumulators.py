"""CombineFns with vectorized forms in numpy."""

import sys
from collections.abc import Sequence
from decimal import Decimal, getcontext
from typing import Any

import apache_beam as beam
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from apache_beam.transforms import cy_combiners
from apache_beam.transforms.combiners import CountCombineFn, MeanCombineFn
from apache_beam.utils.timestamp import Timestamp

from sparkbeam.accumulators.counted_accumulators import CountingCombineFn
from sparkbeam.accumulators.custom_accumulators import UserAccumulatorForm
from sparkbeam.accumulators.vectorized import VectorizedCombineFn
from sparkbeam.accumulators.vectorized_accumulator import (
    FLOATS,
    INTS,
    MICROS,
    MOST_LEAVES,
    MOST_SCALE,
    Kind,
    Numbers,
    VectorizedAccumulator,
    combined_apart,
    decimals_of,
    leaves_of,
    parts_of,
    record_of,
    unit_of,
)
from sparkbeam.columns.order import sums_of
from sparkbeam.columns.python_types import BOOL, FLOAT, Opaque, RecordShape, Shape
from sparkbeam.columns.times import is_timestamp
from sparkbeam.upstream.beam import function_of_combine, parts_of_tuple, top_of_one

_Places = npt.NDArray[np.intp]
_Counts = npt.NDArray[np.int64]

_SUM_FOLDS = sys.version_info < (3, 12)
"""True if ``sum`` of floats adds one after the other. Later versions compensate for the loss."""

_LARGEST = np.iinfo(np.int64).max
_DIGITS = 19
"""A whole number of 64 bits has no more than these."""
_REAL = frozenset([int, float])
_PLAIN = frozenset([bool, int, float, str, bytes, type(None)])


class _Count(VectorizedAccumulator):
    name = "count"
    takes_values = tells_values = False

    def numbers(self, values: list[Any]) -> Numbers:
        return np.ones(len(values), np.int64)

    def numbers_of(self, column: pa.Array, shape: Shape) -> Numbers:
        return np.ones(len(column), np.int64)

    def of_counts(self, counts: npt.NDArray[np.int64]) -> Numbers:
        return counts

    def add_up(self, numbers: Numbers, firsts: _Places) -> Numbers:
        return sums_of(numbers, firsts)

    def add_apart(self, numbers: Numbers, places: _Places, counts: _Counts) -> Numbers:
        return combined_apart(np.add, numbers, places, len(counts))

    def accumulators(self, numbers: Numbers, combine_fn: beam.CombineFn) -> list[Any]:
        return numbers.tolist()


class _Sum(VectorizedAccumulator):
    """Sums of whole numbers and decimals, or of floats one after the other, as order matters.

    Args:
        kinds: of the values that the CombineFn takes for what they are.
    """

    name = "sum"

    def __init__(self, *kinds: type) -> None:
        self._kinds = frozenset(kinds)

    def numbers(self, values: list[Any]) -> Numbers | None:
        return _numbers(values, frozenset([int]))

    def numbers_of(self, column: pa.Array, shape: Shape) -> Numbers | None:
        return _numbers_of(column, shape, self._kinds)

    def needs_order(self, kind: Kind) -> bool:
        return kind == FLOATS

    def add_up(self, numbers: Numbers, firsts: _Places) -> Numbers | None:
        return None if numbers.dtype == FLOATS else _sums(numbers, firsts)

    def add_in_order(self, numbers: Numbers, firsts: _Places, *, merges: bool) -> Numbers | None:
        if numbers.dtype != FLOATS:
            return self.add_up(numbers, firsts)
        return _folded(numbers, firsts)

    def add_apart(self, numbers: Numbers, places: _Places, counts: _Counts) -> Numbers | None:
        return _sums_apart(numbers, places, counts)


class _Extreme(VectorizedAccumulator):
    """Extremes of whole numbers, decimals and Timestamps, or of floats in order.

    Floats are in order without NaN and without both zeros.

    Args:
        name: for people.
        ufunc: gives one of two.
        kinds: of the values that the CombineFn takes for what they are.
    """

    def __init__(self, name: str, ufunc: np.ufunc, kinds: Sequence[type] = (int, float)) -> None:
        self.name = name
        self._ufunc = ufunc
        self._kinds = frozenset(kinds)

    def numbers(self, values: list[Any]) -> Numbers | None:
        numbers = _numbers(values, self._kinds)
        return None if numbers is None else _in_order(numbers)

    def numbers_of(self, column: pa.Array, shape: Shape) -> Numbers | None:
        numbers = _numbers_of(column, shape, self._kinds)
        return None if numbers is None else _in_order(numbers)

    def add_up(self, numbers: Numbers, firsts: _Places) -> Numbers | None:
        if _has_both_zeros(numbers):
            return None
        found: Numbers = self._ufunc.reduceat(_bare(numbers), firsts)
        return found.view(numbers.dtype)

    def add_apart(self, numbers: Numbers, places: _Places, counts: _Counts) -> Numbers | None:
        if _has_both_zeros(numbers):
            return None
        found = combined_apart(self._ufunc, _bare(numbers), places, len(counts))
        return found.view(numbers.dtype)


class _Top(_Extreme):
    """The list of the one number that is greatest, or least."""

    def outputs(self, numbers: Numbers) -> tuple[pa.Array, Shape]:
        offsets = np.arange(len(numbers) + 1, dtype=np.int32)
        column = pa.ListArray.from_arrays(pa.array(offsets), pa.array(numbers))
        return column, Opaque(column.type)


class _Truth(_Extreme):
    """Truth of all values, or of any: 1 for true."""

    tells_values = False

    def numbers(self, values: list[Any]) -> Numbers | None:
        if not _PLAIN.issuperset(map(type, values)):
            return None
        return np.fromiter(map(bool, values), np.int64, len(values))

    def numbers_of(self, column: pa.Array, shape: Shape) -> Numbers | None:
        kind = column.type
        if pa.types.is_null(kind):
            return np.zeros(len(column), np.int64)
        if pa.types.is_string(kind) or pa.types.is_binary(kind):
            column = pc.binary_length(column)
        elif not (pa.types.is_boolean(kind) or pa.types.is_integer(kind) or _is_real(kind)):
            return None
        # NaN is true.
        truths = column if pa.types.is_boolean(kind) else pc.not_equal(column, 0)
        found: Numbers = pc.fill_null(truths, fill_value=False).to_numpy(zero_copy_only=False)
        return found.astype(np.int64)

    def values(self, numbers: Numbers) -> list[Any]:
        return numbers.astype(np.bool_).tolist()

    def accumulators(self, numbers: Numbers, combine_fn: beam.CombineFn) -> list[Any]:
        return super().accumulators(numbers.astype(np.bool_), combine_fn)

    def outputs(self, numbers: Numbers) -> tuple[pa.Array, Shape]:
        return pa.array(numbers.astype(np.bool_)), BOOL


class _Mean(VectorizedAccumulator):
    """Sums and counts. Sums of floats go on from what is known, one value after the other."""

    name = "mean"
    kind = np.dtype([("0", INTS), ("1", INTS)])

    def numbers(self, values: list[Any]) -> Numbers | None:
        numbers = _numbers(values, _REAL)
        return None if numbers is None else _counted(numbers)

    def numbers_of(self, column: pa.Array, shape: Shape) -> Numbers | None:
        numbers = _numbers_of(column, shape, _REAL)
        return None if numbers is None else _counted(numbers)

    def needs_order(self, kind: Kind) -> bool:
        return kind["0"] == FLOATS

    def values(self, numbers: Numbers) -> list[Any]:
        return numbers["0"].tolist()

    def add_up(self, numbers: Numbers, firsts: _Places) -> Numbers | None:
        values, counts = parts_of(numbers)
        sums = None if values.dtype == FLOATS else _sums(values, firsts)
        return None if sums is None else record_of(sums, sums_of(counts, firsts))

    def add_in_order(self, numbers: Numbers, firsts: _Places, *, merges: bool) -> Numbers | None:
        values, counts = parts_of(numbers)
        if values.dtype != FLOATS or (merges and not _SUM_FOLDS):
            return self.add_up(numbers, firsts)
        return record_of(_folded(values, firsts), sums_of(counts, firsts))

    def add_apart(self, numbers: Numbers, places: _Places, counts: _Counts) -> Numbers | None:
        values, elements = parts_of(numbers)
        sums = _sums_apart(values, places, counts)
        if sums is None:
            return None
        return record_of(sums, combined_apart(np.add, elements, places, len(counts)))

    def accumulators(self, numbers: Numbers, combine_fn: beam.CombineFn) -> list[Any]:
        return numbers.tolist()

    def outputs(self, numbers: Numbers) -> tuple[pa.Array, Shape]:
        sums, counts = parts_of(numbers)
        return pa.array(sums.astype(np.float64) / counts.astype(np.float64)), FLOAT


class _Tuple(VectorizedAccumulator):
    """Several CombineFns at once, over the parts of a value or each over the same value.

    Args:
        is_of_one: each gets the value itself.
    """

    def __init__(
        self,
        forms: list[VectorizedAccumulator],
        combine_fns: list[beam.CombineFn],
        *,
        is_of_one: bool,
    ) -> None:
        self.name = f"({', '.join(form.name for form in forms)})"
        self.kind = np.dtype([(str(at), form.kind) for at, form in enumerate(forms)])
        self.takes_values = not is_of_one or any(form.takes_values for form in forms)
        self.tells_values = (any if is_of_one else all)(form.tells_values for form in forms)
        self._forms = forms
        self._combine_fns = combine_fns
        self._is_of_one = is_of_one

    def numbers(self, values: list[Any]) -> Numbers | None:
        columns: list[Any] = [values] * len(self._forms)
        if not self._is_of_one:
            if set(map(type, values)) not in ({tuple}, {list}):
                return None
            if set(map(len, values)) != {len(self._forms)}:
                return None
            columns = [list(column) for column in zip(*values, strict=True)]
        each = zip(self._forms, columns, strict=True)
        return _all_of([form.numbers(column) for form, column in each])

    def numbers_of(self, column: pa.Array, shape: Shape) -> Numbers | None:
        columns = [(column, shape)] * len(self._forms)
        if not self._is_of_one:
            if not isinstance(shape, RecordShape) or shape.type not in (tuple, list):
                return None
            if column.null_count or len(shape.fields) != len(self._forms):
                return None
            columns = [(column.field(at), part) for at, part in enumerate(shape.fields)]
        each = zip(self._forms, columns, strict=True)
        return _all_of([form.numbers_of(*one) for form, one in each])

    def needs_order(self, kind: Kind) -> bool:
        names = kind.names or ()
        each = zip(self._forms, names, strict=True)
        return any(form.needs_order(kind[name]) for form, name in each)

    def values(self, numbers: Numbers) -> list[Any]:
        if self._is_of_one:
            form, part = max(self._each(numbers), key=lambda pair: pair[0].tells_values)
            return form.values(part)
        return list(zip(*(form.values(part) for form, part in self._each(numbers)), strict=True))

    def add_up(self, numbers: Numbers, firsts: _Places) -> Numbers | None:
        return _all_of([form.add_up(part, firsts) for form, part in self._each(numbers)])

    def add_in_order(self, numbers: Numbers, firsts: _Places, *, merges: bool) -> Numbers | None:
        each = self._each(numbers)
        return _all_of([form.add_in_order(part, firsts, merges=merges) for form, part in each])

    def add_apart(self, numbers: Numbers, places: _Places, counts: _Counts) -> Numbers | None:
        return _all_of([form.add_apart(part, places, counts) for form, part in self._each(numbers)])

    def accumulators(self, numbers: Numbers, combine_fn: beam.CombineFn) -> list[Any]:
        each = zip(self._each(numbers), self._combine_fns, strict=True)
        found = [form.accumulators(part, one) for (form, part), one in each]
        return list(map(list, zip(*found, strict=True)))

    def outputs(self, numbers: Numbers) -> tuple[pa.Array, Shape]:
        found = [form.outputs(part) for form, part in self._each(numbers)]
        names = tuple(str(at) for at in range(len(found)))
        array = pa.StructArray.from_arrays([column for column, _ in found], list(names))
        return array, RecordShape(tuple, names, tuple(shape for _, shape in found))

    def _each(self, numbers: Numbers) -> list[tuple[VectorizedAccumulator, Numbers]]:
        return list(zip(self._forms, parts_of(numbers), strict=True))


def _all_of(parts: list[Numbers | None]) -> Numbers | None:
    found = [part for part in parts if part is not None]
    return record_of(*found) if len(found) == len(parts) else None


def _counted(numbers: Numbers) -> Numbers:
    return record_of(numbers, np.ones(len(numbers), np.int64))


def _sums(numbers: Numbers, firsts: _Places) -> Numbers | None:
    whole = _bare(numbers)
    if _may_be_too_large(whole, int(np.diff(firsts, append=len(whole)).max())):
        return None
    return sums_of(whole, firsts).view(numbers.dtype)


def _sums_apart(numbers: Numbers, places: _Places, counts: _Counts) -> Numbers | None:
    if numbers.dtype == FLOATS:
        # It adds one number after the other, from 0 on.
        return np.bincount(places, numbers, len(counts))
    whole = _bare(numbers)
    if _may_be_too_large(whole, int(counts.max())):
        return None
    return combined_apart(np.add, whole, places, len(counts)).view(numbers.dtype)


def _bare(numbers: Numbers) -> Numbers:
    """Return numbers without their unit."""
    return numbers if unit_of(numbers.dtype) is None else numbers.view(INTS)


def _may_be_too_large(numbers: Numbers, longest: int) -> bool:
    """Return whether the sum of whole numbers may exceed 64 bits."""
    return max(int(numbers.max()), -int(numbers.min())) * longest > _LARGEST


def _has_both_zeros(numbers: Numbers) -> bool:
    """Return whether floats include both zeros.

    The zeros are equal, so the first of them is the result.
    """
    if numbers.dtype != FLOATS:
        return False
    signs = np.signbit(numbers[numbers == 0])
    return bool(signs.any() and not signs.all())


def _folded(numbers: Numbers, firsts: _Places) -> Numbers:
    """Return sums of runs, from 0 on, one number after the other."""
    runs = np.repeat(np.arange(len(firsts)), np.diff(firsts, append=len(numbers)))
    return np.bincount(runs, numbers)


def _in_order(numbers: Numbers) -> Numbers | None:
    # Nothing is in order with NaN.
    return None if numbers.dtype == FLOATS and np.isnan(numbers).any() else numbers


def _numbers(values: list[Any], kinds: frozenset[type]) -> Numbers | None:
    """Return the numbers of values that are all ints, or all floats; None for other values."""
    found = set(map(type, values))
    if not found <= kinds:
        return None
    if found == {float}:
        return np.array(values, np.float64)
    try:
        return np.array(values, np.int64) if found == {int} else None
    except OverflowError:
        return None


def _numbers_of(column: pa.Array, shape: Shape, kinds: frozenset[type]) -> Numbers | None:
    """Return the numbers of values of a kind; None for other values."""
    if pa.types.is_floating(column.type):
        return _real_of(column) if float in kinds else None
    if pa.types.is_decimal128(column.type):
        return _decimals_of(column) if Decimal in kinds else None
    if is_timestamp(shape):
        return _micros_of(column) if Timestamp in kinds else None
    return _whole_of(column) if int in kinds else None


def _is_real(kind: pa.DataType) -> bool:
    return pa.types.is_float32(kind) or pa.types.is_float64(kind)


def _real_of(column: pa.Array) -> Numbers | None:
    if not _is_real(column.type) or column.null_count:
        return None
    return column.to_numpy().astype(np.float64)


def _whole_of(column: pa.Array) -> Numbers | None:
    if not pa.types.is_integer(column.type) or pa.types.is_uint64(column.type) or column.null_count:
        return None
    return column.to_numpy().astype(np.int64)


def _decimals_of(column: pa.Array) -> Numbers | None:
    """Return decimals, all of the same scale; None if they do not fit, or sums may be rounded."""
    scale = column.type.scale
    if column.null_count or not 0 <= scale <= MOST_SCALE or getcontext().prec < _DIGITS:
        return None
    found = np.empty(len(column), decimals_of(scale))
    if len(column):
        words = np.frombuffer(column.buffers()[1], np.int64).reshape(-1, 2)
        low, high = words[column.offset : column.offset + len(column)].T
        if (high != low >> 63).any():
            return None
        found.view(INTS)[:] = low
    return found


def _micros_of(column: pa.Array) -> Numbers | None:
    kind = column.type
    if column.null_count or not pa.types.is_timestamp(kind) or kind.unit == "ns":
        return None
    try:
        micros = column.cast(pa.timestamp("us", kind.tz)).cast(pa.int64())
    except pa.ArrowInvalid:
        return None
    return micros.to_numpy().copy().view(MICROS)


_COUNT, _MEAN = _Count(), _Mean()
_SUM = _Sum(int, float, Decimal) if _SUM_FOLDS else _Sum(int, Decimal)
_ALL, _ANY = _Truth("all", np.minimum), _Truth("any", np.maximum)
_TOP = {"largest": _Top("the largest", np.maximum), "smallest": _Top("the smallest", np.minimum)}
_ORDERED = (int, float, Decimal, Timestamp)
_OF_FUNCTIONS: tuple[tuple[Any, VectorizedAccumulator], ...] = (
    (sum, _SUM),
    (min, _Extreme("min", np.minimum, _ORDERED)),
    (max, _Extreme("max", np.maximum, _ORDERED)),
    (all, _ALL),
    (any, _ANY),
)
_OF_CLASSES: dict[type, VectorizedAccumulator] = {
    CountCombineFn: _COUNT,
    MeanCombineFn: _MEAN,
    cy_combiners.SumInt64Fn: _Sum(int),
    cy_combiners.MinInt64Fn: _Extreme("min", np.minimum, [int]),
    cy_combiners.MaxInt64Fn: _Extreme("max", np.maximum, [int]),
    cy_combiners.MinFloatFn: _Extreme("min", np.minimum, [float]),
    cy_combiners.MaxFloatFn: _Extreme("max", np.maximum, [float]),
    cy_combiners.AllCombineFn: _ALL,
    cy_combiners.AnyCombineFn: _ANY,
}


def form_of(combine_fn: beam.CombineFn) -> VectorizedAccumulator | None:
    """Return the vectorized form of a CombineFn; None if it has none.

    Raises:
        TypeError: it brings its own, with accumulators of a type that there may not be.
    """
    if isinstance(combine_fn, VectorizedCombineFn):
        return UserAccumulatorForm(combine_fn)
    function = function_of_combine(combine_fn)
    if function is not None:
        # Not every function can be looked up.
        return next((form for known, form in _OF_FUNCTIONS if function is known), None)
    top = top_of_one(combine_fn)
    if top is not None:
        return _TOP[top]
    if isinstance(combine_fn, CountingCombineFn):
        return _with_count(combine_fn.combine_fn)
    parts = parts_of_tuple(combine_fn)
    if parts is not None:
        return _of_tuple(parts.combine_fns, is_of_one=parts.is_of_one)
    return _OF_CLASSES.get(type(combine_fn))


def _with_count(combine_fn: beam.CombineFn) -> VectorizedAccumulator | None:
    """Return the form of accumulators with their counts; it is called as that without."""
    form, alone = _of_tuple([CountCombineFn(), combine_fn], is_of_one=True), form_of(combine_fn)
    if form is not None and alone is not None:
        form.name = alone.name
    return form


def _of_tuple(
    combine_fns: list[beam.CombineFn], *, is_of_one: bool
) -> VectorizedAccumulator | None:
    forms = [form for form in map(form_of, combine_fns) if form is not None]
    if not forms or len(forms) < len(combine_fns):
        return None
    made = _Tuple(forms, combine_fns, is_of_one=is_of_one)
    return made if len(list(leaves_of(made.kind))) <= MOST_LEAVES else None
