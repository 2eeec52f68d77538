"""Element sizes, sampled for the metrics."""

from typing import Any

import numpy as np
import pyarrow as pa
from apache_beam.coders import coder_impl, coders


class SampledCoder(coders.FastCoder):
    """A coder that knows the size of buffer-based values without encoding them.

    Beam measures a sample of the elements of each PCollection, and of few elements all. To pickle a
    table for that may take longer than to read it.

    Args:
        coder: does all else.
    """

    def __init__(self, coder: coders.Coder) -> None:
        self._coder = coder

    def _create_impl(self) -> coder_impl.CoderImpl:
        return _SampledImpl(self._coder.get_impl())

    def is_deterministic(self) -> bool:
        deterministic: bool = self._coder.is_deterministic()
        return deterministic


class _SampledImpl(coder_impl.CoderImpl):
    def __init__(self, impl: coder_impl.CoderImpl) -> None:
        self._impl = impl

    def encode_to_stream(self, value: Any, stream: Any, nested: bool) -> None:
        self._impl.encode_to_stream(value, stream, nested)

    def decode_from_stream(self, stream: Any, nested: bool) -> Any:
        return self._impl.decode_from_stream(stream, nested)

    def get_estimated_size_and_observables(
        self, value: Any, nested: bool = False
    ) -> tuple[int, list[Any]]:
        if isinstance(value, _OF_BUFFERS):
            return value.nbytes, []
        found: tuple[int, list[Any]] = self._impl.get_estimated_size_and_observables(value, nested)
        return found


_OF_BUFFERS = (pa.Table, pa.RecordBatch, pa.Array, pa.ChunkedArray, np.ndarray)


def sampled(coder: coders.Coder) -> coders.Coder:
    """Return the coder that measures elements of any type; other coders unchanged."""
    if isinstance(coder, coders.WindowedValueCoder) and isinstance(
        coder.wrapped_value_coder, coders.FastPrimitivesCoder
    ):
        return coders.WindowedValueCoder(
            SampledCoder(coder.wrapped_value_coder), coder.window_coder
        )
    return coder
