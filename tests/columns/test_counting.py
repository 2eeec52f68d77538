"""Counters and distributions that compiled functions update."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.metrics import Metrics
from apache_beam.metrics.cells import DistributionData
from apache_beam.metrics.execution import MetricsContainer
from apache_beam.runners.worker import statesampler
from apache_beam.utils.counters import CounterFactory
from apache_beam.utils.histogram import LinearBucket
from hypothesis import given
from hypothesis import strategies as st
from in_python import INT, STR, column, compiled, refusal

from sparkbeam.columns import FallBack, ResultKind

SEEN, TOTAL = Metrics.counter("test", "seen"), Metrics.counter("test", "total")
SIZES = Metrics.distribution("test", "sizes")
LATEST = Metrics.gauge("test", "latest")
INC: Any = TOTAL.inc
UPDATE: Any = SIZES.update
ODD: Any = 3
BUCKETS = Metrics.histogram("test", "buckets", LinearBucket(0, 1, 3))
LARGE = 1 << 62


class Counting(beam.DoFn):
    def __init__(self) -> None:
        self.kept = Metrics.counter(self.__class__, "kept")
        self.left_out = Metrics.counter(self.__class__, "left out")

    def process(self, x: int) -> Iterator[int]:
        if x > 2:
            self.kept.inc()
            yield x
        else:
            self.left_out.inc(2)


def notes(x: int) -> int:
    SEEN.inc()
    TOTAL.inc(x)
    if x % 2:
        SIZES.update(x * 10)
    elif x > 3:
        TOTAL.dec(x - 1)
    return x + 1


def makes_its_own(x: int) -> bool:
    Metrics.counter("of", "its own").inc(x)
    Metrics.distribution(Counting, "sizes").update(7)
    return x > 1


def short_circuit(x: int) -> bool:
    return x > 2 and SEEN.inc() is None


def flag(x: int) -> None:
    SEEN.inc(x > 1)


FUNCTIONS: list[tuple[Any, ResultKind]] = [
    (notes, ResultKind.MAP),
    (makes_its_own, ResultKind.FILTER),
    (short_circuit, ResultKind.MAP),
    (flag, ResultKind.MAP),
    (Counting().process, ResultKind.FLAT),
]


@contextmanager
def counting() -> Iterator[MetricsContainer]:
    container = MetricsContainer("step")
    sampler = statesampler.StateSampler("", CounterFactory())
    sampler.start()
    try:
        with sampler.scoped_state("step", "process", metrics_container=container):
            yield container
    finally:
        sampler.stop()


def counted(run: Callable[[], Any]) -> dict[str, Any]:
    """The metrics that a call comes to."""
    with counting() as container:
        run()
        return {
            str(key.metric_name): cell.get_cumulative() for key, cell in container.metrics.items()
        }


def called(function: Any, values: list[Any]) -> None:
    for value in values:
        results = function(value)
        if isinstance(results, Iterator):
            list(results)


@given(st.lists(st.integers(-5, 9), max_size=12))
@pytest.mark.parametrize(("function", "form"), FUNCTIONS)
def test_what_is_counted_is_the_same(function: Any, form: ResultKind, values: list[int]) -> None:
    over_columns = compiled(function, INT, form=form)
    found = counted(lambda: over_columns.evaluate(column(values, INT)))
    assert found == counted(lambda: called(function, values))


def test_a_filter_counts() -> None:
    keep = compiled(makes_its_own, INT, form=ResultKind.FILTER)
    found = counted(lambda: keep.selected_rows(column([1, 2, 3], INT)))
    assert found["MetricName(namespace=of, name=its own)"] == 6
    assert DistributionData(21, 3, 7, 7) in found.values()


@pytest.mark.parametrize(
    ("function", "values"),
    [
        (lambda x: TOTAL.inc(x), [LARGE, LARGE]),
        (lambda x: (TOTAL.inc(x), 10 // x), [1, 0]),
        (lambda x: SEEN.inc() or TOTAL.inc(x), [1, None]),
    ],
)
def test_a_block_that_is_refused_counts_nothing(function: Any, values: list[Any]) -> None:
    over_columns = compiled(function, INT)

    def run() -> None:
        with pytest.raises(FallBack):
            over_columns.evaluate(column(values, INT))

    assert counted(run) == {}


def test_text_is_no_amount() -> None:
    assert refusal(lambda x: TOTAL.inc(x), STR)
