"""``Layout.SIDE_ITERABLE`` and ``SIDE_MULTIMAP``: runs of values by window, and by key."""

import struct

from apache_beam.coders import coder_impl, coders
from apache_beam.utils.windowed_value import WindowedValue

from sparkbeam.wire.rows import RowWriter
from sparkbeam.worker.layouts.group_values import RunCoder
from sparkbeam.worker.layouts.key_table import RunTable
from sparkbeam.worker.layouts.row_writer import Sink


class SideSink(Sink):
    """``Layout.SIDE_ITERABLE``: runs of values by window; ``SIDE_MULTIMAP``: by key, too.

    Args:
        tag: of the port.
        rows: takes the rows.
        coder: of the elements.
        multimap: the elements are pairs of keys and values.
    """

    def __init__(
        self, tag: int, rows: RowWriter, coder: coders.WindowedValueCoder, *, multimap: bool
    ) -> None:
        self._tag = tag
        self._rows = rows
        self._multimap = multimap
        element = coder.wrapped_value_coder
        no_key = coder_impl.SingletonCoderImpl(None)
        self._table = RunTable(
            element.key_coder().get_impl() if multimap else no_key,
            RunCoder((element.value_coder() if multimap else element).get_impl()),
        )
        self._encode_window = coder.window_coder.encode
        self._parts = 0

    def add(self, windowed_value: WindowedValue) -> None:
        key, value = windowed_value.value if self._multimap else (b"", windowed_value.value)
        for window in windowed_value.windows:
            if self._table.add(window, key, value):
                self.flush()

    def flush(self) -> None:
        for window, keys, runs, _ in self._table.take():
            prefix = window_key(self._encode_window(window))
            full_keys = [prefix + key for key in keys]
            self._rows.extend(self._tag, full_keys, [self._parts] * len(keys), runs)
            self._parts += 1


def window_key(window: bytes, key: bytes = b"") -> bytes:
    """Return a window, or a key in it, as bytes; a key's bytes start with its window's."""
    return _LENGTH.pack(len(window)) + window + key


def window_part(key: bytes) -> bytes:
    """Return the part of a :func:`window_key` that stands for the window."""
    (length,) = _LENGTH.unpack_from(key)
    return key[: _LENGTH.size + length]


_LENGTH = struct.Struct(">I")
