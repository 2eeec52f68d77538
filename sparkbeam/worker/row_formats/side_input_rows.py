"""Rows of side inputs: runs of values by window, and by key in a multimap.

``key`` is a :func:`window_key`, ``ord`` numbers the parts of a task, ``value`` is a run of values.
"""

import struct

from apache_beam.coders import coder_impl
from apache_beam.utils.windowed_value import WindowedValue

from sparkbeam.worker.row_formats.group_values import RunCoder
from sparkbeam.worker.row_formats.key_table import RunTable
from sparkbeam.worker.row_formats.row_writer import Sink, WriterParameters


class SideSink(Sink):
    """Writer of runs of values by window; of a multimap by key, too."""

    def __init__(self, output: WriterParameters) -> None:
        super().__init__(output)
        coder = output.coder
        self._multimap = multimap = output.port.format.multimap
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
