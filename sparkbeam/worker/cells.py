"""What a cell of a row holds: windowed elements one after the other, or a block of values."""

import struct
from collections.abc import Iterable
from typing import Any

from apache_beam.coders import coder_impl, coders
from apache_beam.utils.windowed_value import WindowedValue

from sparkbeam.worker.blocks import Block, in_blocks
from sparkbeam.worker.rows import BLOCK_CELL, PLAIN_CELL
from sparkbeam.worker.values import RunCoder

_LENGTH = struct.Struct(">H")
_KEPT_TEMPLATES = 1000


def windowing_coder(coder: coders.WindowedValueCoder) -> coder_impl.CoderImpl:
    """Encodes what the elements of a block have in common, as an element that is empty."""
    return coders.WindowedValueCoder(coders.BytesCoder(), coder.window_coder).get_impl()


def stripped_coder(coder: coders.WindowedValueCoder) -> coders.WindowedValueCoder:
    """The coder of the windowed values of a PCollection of pairs, without their keys."""
    return coders.WindowedValueCoder(coder.wrapped_value_coder.value_coder(), coder.window_coder)


def stored_coder(coder: coders.WindowedValueCoder) -> coders.WindowedValueCoder:
    """As :func:`stripped_coder`, with the length of each value before it.

    Who reads with a coder of bytes in its place gets the values without decoding them.
    """
    value = coder.wrapped_value_coder.value_coder()
    return coders.WindowedValueCoder(coders.LengthPrefixCoder(value), coder.window_coder)


class BlockCoder:
    """Encodes a block: the windowing once, then a run of values."""

    def __init__(self, coder: coders.WindowedValueCoder) -> None:
        self._windowing = windowing_coder(coder)
        self._values = coder_impl.IterableCoderImpl(coder.wrapped_value_coder.get_impl())

    def encode(self, template: WindowedValue, values: list[Any]) -> bytes:
        """The block as a cell."""
        stream = coder_impl.create_OutputStream()
        stream.write(BLOCK_CELL)
        self._windowing.encode_to_stream(template.with_value(b""), stream, True)
        self._values.encode_to_stream(values, stream, True)
        return stream.get()

    def decode(self, cell: bytes) -> Block:
        """The block of a cell."""
        stream = coder_impl.create_InputStream(cell)
        stream.read(1)
        template = self._windowing.decode_from_stream(stream, True)
        return template, self._values.decode_from_stream(stream, True)


class KeyCells:
    """The cells of a key: runs of windowed elements, or of values with the same windowing.

    Args:
        coder: of the elements, without the key.

    Attributes:
        elements, values: encode the runs.
    """

    def __init__(self, coder: coders.WindowedValueCoder) -> None:
        self.elements = RunCoder(coder.get_impl())
        self.values = RunCoder(coder.wrapped_value_coder.get_impl())
        self._windowing = windowing_coder(coder)
        self._templates: dict[bytes, WindowedValue] = {}

    def head(self, template: WindowedValue) -> bytes:
        """What comes before a run of values."""
        windowing = self._windowing.encode(template.with_value(b""))
        return BLOCK_CELL + _LENGTH.pack(len(windowing)) + windowing

    def blocks(self, cell: bytes) -> Iterable[Block]:
        """The content of a cell; blocks with the same windowing have the same template."""
        if cell[:1] == PLAIN_CELL:
            return in_blocks(self.elements.decode(cell[1:]))
        end = 1 + _LENGTH.size + _LENGTH.unpack_from(cell, 1)[0]
        windowing = cell[1 + _LENGTH.size : end]
        template = self._templates.get(windowing)
        if template is None:
            if len(self._templates) >= _KEPT_TEMPLATES:
                self._templates.clear()
            template = self._templates[windowing] = self._windowing.decode(windowing)
        return ((template, self.values.decode(cell[end:])),)
