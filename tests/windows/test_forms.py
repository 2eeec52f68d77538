"""Vectorised forms give what their CombineFns give, bit by bit, or nothing."""

from collections import defaultdict
from typing import Any

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.transforms import combiners, cy_combiners
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sparkbeam.accumulators.vectorized_accumulator import (
    FLOATS,
    INTS,
    Numbers,
    as_column,
    from_column,
    kind_of_leaves,
    leaves_of,
)
from sparkbeam.accumulators.vectorized_accumulators import form_of
from sparkbeam.columns.python_types import RecordShape
from sparkbeam.worker.value_columns import Column as Values
from sparkbeam.worker.value_columns import column_of, column_of_values

SMALL = st.integers(-9, 9)
INT = st.one_of(SMALL, st.sampled_from([2**53 + 1, 2**62, 2**63 - 1, -(2**63)]))
FLOAT = st.one_of(
    st.sampled_from([0.1, 0.2, -0.0, 0.0, 1e300, float("inf"), float("nan")]),
    st.floats(allow_nan=False),
)
ANY = (INT, FLOAT, st.booleans(), st.text(max_size=2), st.none(), SMALL, st.just(2**70))
NUMBERS = (INT, SMALL, FLOAT, st.sampled_from([0.5, -1.25, 0.0]))

FNS: dict[str, tuple[beam.CombineFn, tuple[Any, ...]]] = {
    "count": (combiners.CountCombineFn(), ANY),
    "sum": (beam.CombineFn.from_callable(sum), (*NUMBERS, st.booleans())),
    "min": (beam.CombineFn.from_callable(min), NUMBERS),
    "max": (beam.CombineFn.from_callable(max), NUMBERS),
    "least int of Beam": (cy_combiners.MinInt64Fn(), (SMALL, st.sampled_from([1.5, -0.5]))),
    "greatest float of Beam": (cy_combiners.MaxFloatFn(), NUMBERS),
    "all": (beam.CombineFn.from_callable(all), ANY),
    "any": (beam.CombineFn.from_callable(any), ANY),
    "all of Beam": (cy_combiners.AllCombineFn(), ANY),
    "mean": (combiners.MeanCombineFn(), (*NUMBERS, st.booleans())),
    "largest": (combiners.TopCombineFn(1), NUMBERS),
    "smallest": (combiners.Smallest(1), NUMBERS),
}
TUPLES: dict[str, tuple[list[Any], tuple[Any, ...]]] = {
    "of one": ([sum], (SMALL,)),
    "sum and mean": ([sum, combiners.MeanCombineFn()], (INT, FLOAT)),
    "all kinds": (
        [combiners.CountCombineFn(), max, any, combiners.Smallest(1)],
        (st.none(), SMALL, st.text(max_size=1), FLOAT),
    ),
    "in a tuple": (
        [combiners.TupleCombineFn(min, sum), combiners.MeanCombineFn()],
        (st.tuples(FLOAT, INT), FLOAT),
    ),
}
SINGLES: dict[str, tuple[list[Any], tuple[Any, ...]]] = {
    "counts": ([combiners.CountCombineFn(), combiners.CountCombineFn()], ANY),
    "truth first": ([all, sum, combiners.MeanCombineFn()], NUMBERS),
    "extremes": ([min, max, combiners.CountCombineFn()], NUMBERS),
}


def known_form(fn: beam.CombineFn) -> Any:
    form = form_of(fn)
    assert form is not None
    return form


def column_from(values: list[Any], *, is_list: bool) -> Values | None:
    column = column_of_values(values)
    if column is None or not is_list:
        return column
    assert isinstance(column.shape, RecordShape)
    return column_of(column.array, RecordShape(list, column.shape.names, column.shape.fields))


Pairs = list[tuple[int, Any]]
Run = tuple[list[Numbers], list[Pairs]]
"""The numbers of blocks, if they have any, and the blocks."""


def runs_of(fn: beam.CombineFn, blocks: list[Pairs], *, is_list: bool) -> list[Run]:
    """Blocks whose values are added up together: those with numbers of a kind, or one alone."""
    form = known_form(fn)
    found: list[Run] = []
    for block in blocks:
        column = column_from([value for _, value in block], is_list=is_list)
        numbers = None if column is None else form.numbers_of(column.array, column.shape)
        if numbers is None:
            found.append(([], [block]))
            continue
        assert numbers.flags.owndata
        assert repr(from_column(as_column(numbers)).tolist()) == repr(numbers.tolist())
        if found and found[-1][0] and found[-1][0][0].dtype == numbers.dtype:
            found[-1][0].append(numbers)
            found[-1][1].append(block)
        else:
            found.append(([numbers], [block]))
    return found


def in_columns(fn: beam.CombineFn, run: Run) -> dict[int, Any] | None:
    """Accumulators of blocks, each added to those before it; None if that is not exact."""
    form = known_form(fn)
    names: list[int] = []
    totals = run[0][0][:0]
    for numbers, block in zip(*run, strict=True):
        keys = [*names, *(key for key, _ in block)]
        order = np.argsort(keys, kind="stable")
        firsts = np.flatnonzero(np.diff(np.array(keys)[order], prepend=-1))
        some = np.concatenate([totals, numbers])[order]
        found = form.add_in_order(some, firsts, merges=False)
        if found is None:
            return None
        totals, names = found, [keys[at] for at in order[firsts].tolist()]
    return dict(zip(names, form.accumulators(totals, fn), strict=True))


def one_by_one(fn: beam.CombineFn, run: Run, *, is_list: bool) -> dict[int, Any]:
    """Accumulators of blocks as the CombineFn makes them."""
    by_key = defaultdict(list)
    for block in run[1]:
        for key, value in block:
            by_key[key].append(list(value) if is_list else value)
    return {key: fn.add_inputs(fn.create_accumulator(), some) for key, some in by_key.items()}


def total(fn: beam.CombineFn, blocks: Any, *, columns: bool, is_list: bool = False) -> Any:
    """What keys come to whose values come in blocks, or the exception."""
    parts: defaultdict[int, list[Any]] = defaultdict(list)
    try:
        for run in runs_of(fn, blocks, is_list=is_list):
            found = in_columns(fn, run) if columns and run[0] else None
            for key, one in (found or one_by_one(fn, run, is_list=is_list)).items():
                parts[key].append(fn.compact(one))
        merged = {key: fn.merge_accumulators(some) for key, some in parts.items()}
        return repr({key: fn.extract_output(merged[key]) for key in sorted(merged)})
    except (TypeError, OverflowError) as error:
        return type(error)


def blocks_of(data: Any, *values: Any) -> list[list[tuple[int, Any]]]:
    kinds = data.draw(st.lists(st.sampled_from(values), min_size=1, max_size=4))
    return [
        data.draw(st.lists(st.tuples(st.integers(0, 2), kind), min_size=1, max_size=14))
        for kind in kinds
    ]


@pytest.mark.part(5)
@pytest.mark.parametrize("name", FNS)
@settings(max_examples=60)
@given(data=st.data())
def test_a_form_gives_what_the_combine_fn_gives(name: str, data: Any) -> None:
    fn, values = FNS[name]
    blocks = blocks_of(data, *values)
    assert total(fn, blocks, columns=True) == total(fn, blocks, columns=False)


@pytest.mark.parametrize("name", TUPLES)
@pytest.mark.parametrize("is_list", [False, True])
@settings(max_examples=40)
@given(data=st.data())
def test_a_tuple_gives_what_its_combine_fns_give(name: str, is_list: bool, data: Any) -> None:
    fns, values = TUPLES[name]
    fn = combiners.TupleCombineFn(*fns)
    blocks = blocks_of(data, st.tuples(*values))
    expected = total(fn, blocks, columns=False, is_list=is_list)
    assert total(fn, blocks, columns=True, is_list=is_list) == expected


@pytest.mark.parametrize("name", SINGLES)
@settings(max_examples=40)
@given(data=st.data())
def test_several_combine_fns_of_one_value_give_what_each_gives(name: str, data: Any) -> None:
    fns, values = SINGLES[name]
    fn = combiners.SingleInputTupleCombineFn(*fns)
    blocks = blocks_of(data, *values)
    assert total(fn, blocks, columns=True) == total(fn, blocks, columns=False)


FORMS: dict[str, beam.CombineFn] = {
    **{name: fn for name, (fn, _) in FNS.items()},
    **{name: combiners.TupleCombineFn(*fns) for name, (fns, _) in TUPLES.items()},
    **{name: combiners.SingleInputTupleCombineFn(*fns) for name, (fns, _) in SINGLES.items()},
}
CANDIDATES: list[list[Any]] = [
    [3, -4, 7],
    [3.5, -4.25, 7.0],
    [((1, 2), 4), ((3, 4), 6), ((5, 6), 8)],
    *([(number,) * width for number in (3, -4, 7)] for width in (1, 2, 4)),
]


@pytest.mark.parametrize("fn", FORMS.values(), ids=FORMS)
def test_what_is_added_up_comes_out_as_a_column(fn: beam.CombineFn) -> None:
    form = known_form(fn)
    values = next(values for values in CANDIDATES if form.numbers(values) is not None)
    numbers = form.numbers(values)
    assert len(list(leaves_of(numbers.dtype))) == len(list(leaves_of(form.kind)))
    totals = form.add_up(numbers, np.array([0, 2]))
    expected = [fn.apply(values[:2]), fn.apply(values[2:])]
    assert column_of(*form.outputs(totals)).values() == expected
    assert [fn.extract_output(one) for one in form.accumulators(totals, fn)] == expected
    alone = [fn.apply([value]) for value in values]
    assert [fn.apply([value]) for value in form.values(numbers)] == alone


@given(st.lists(st.integers(-(2**61), 2**61), min_size=3, max_size=3), st.integers(1, 3))
@example([2**60 + 1, 2, 2], 3)
def test_a_mean_of_large_whole_numbers_is_divided_as_beam_does(
    values: list[int], count: int
) -> None:
    fn = combiners.MeanCombineFn()
    form = known_form(fn)
    totals = form.add_up(form.numbers(values[:count]), np.array([0]))
    assert column_of(*form.outputs(totals)).values() == [fn.apply(values[:count])]


def test_floats_count_one_after_the_other() -> None:
    fn = combiners.MeanCombineFn()
    blocks: list[list[tuple[int, Any]]] = [
        [(0, 0.1)] * 9,
        [(0, 1e16), (1, 0.3)],
        [(0, 0.7)] * 5,
        [(0, 3), (1, -5)],
    ]
    (run, _) = runs_of(fn, blocks, is_list=False)
    assert in_columns(fn, run) == one_by_one(fn, run, is_list=False)


OTHERS: dict[str, beam.CombineFn] = {
    "top of two": combiners.TopCombineFn(2),
    "top by a key": combiners.TopCombineFn(1, key=len),
    "with a list": combiners.TupleCombineFn(sum, combiners.ToListCombineFn()),
    "of none": combiners.TupleCombineFn(),
    "of many": combiners.TupleCombineFn(*[sum] * 25),
    "latest": combiners.LatestCombineFn(),
    "sum of floats": cy_combiners.SumFloatFn(),
    "another function": beam.CombineFn.from_callable(len),
}


@pytest.mark.parametrize("fn", OTHERS.values(), ids=OTHERS)
def test_others_have_no_form(fn: beam.CombineFn) -> None:
    assert form_of(fn) is None


def test_what_is_not_of_the_width_of_a_tuple_is_not_its_numbers() -> None:
    form = known_form(combiners.TupleCombineFn(sum, max))
    for values in ([(1,)], [(1, 2, 3)], [(1, 2), [1, 2]], [1], ["ab"], [(1, 2), (1,)]):
        assert form.numbers(values) is None
        column = column_of_values(values)
        assert column is None or form.numbers_of(column.array, column.shape) is None


def test_types_of_records_keep_their_structure() -> None:
    form = known_form(combiners.TupleCombineFn(min, combiners.MeanCombineFn()))
    assert list(leaves_of(form.kind)) == [INTS, INTS, INTS]
    changed = kind_of_leaves(form.kind, [FLOATS, FLOATS, INTS])
    assert changed == np.dtype([("0", FLOATS), ("1", [("0", FLOATS), ("1", INTS)])])
