"""The sizes of elements that metrics sample."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from apache_beam.coders import coders
from apache_beam.transforms.window import GlobalWindows

from sparkbeam.worker.steps.sampling import sampled

WINDOW = coders.GlobalWindowCoder()
ANY = coders.WindowedValueCoder(coders.FastPrimitivesCoder(), WINDOW)


def estimated(coder: coders.Coder, value: Any) -> int:
    element = GlobalWindows.windowed_value(value)
    size: int = coder.get_impl().get_estimated_size_and_observables(element)[0]
    return size


TABLE = pa.table({"a": np.zeros(1000, np.int64)})


@pytest.mark.parametrize(
    "value", [TABLE, TABLE.to_batches()[0], TABLE["a"], TABLE["a"].chunk(0), np.zeros(1000)]
)
def test_what_consists_of_buffers_has_their_size(value: Any) -> None:
    assert 8000 <= estimated(sampled(ANY), value) < 8050


@pytest.mark.parametrize("value", [1, "text", None, (1, "a"), {"x": [1.0]}])
def test_other_elements_are_as_large_as_they_are_encoded(value: Any) -> None:
    element = GlobalWindows.windowed_value(value)
    assert estimated(sampled(ANY), value) == len(ANY.encode(element)) == estimated(ANY, value)
    assert sampled(ANY).encode(element) == ANY.encode(element)
    assert sampled(ANY).decode(ANY.encode(element)) == element


def test_other_coders_stay_what_they_are() -> None:
    ints = coders.WindowedValueCoder(coders.VarIntCoder(), WINDOW)
    assert sampled(ints) is ints
    assert sampled(ANY).is_deterministic() == ANY.is_deterministic()
