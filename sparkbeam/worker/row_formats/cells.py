"""Cells of rows: windowed elements one after the other, or a block of values."""

import struct
from collections.abc import Iterable

from apache_beam.coders import coder_impl, coders
from apache_beam.utils.windowed_value import WindowedValue

from sparkbeam.wire.rows import BLOCK_CELL, COUNT_CELL, PLAIN_CELL, STAMPED_CELL
from sparkbeam.worker.blocks import Block, in_blocks
from sparkbeam.worker.row_formats.group_values import RunCoder

_LENGTH = struct.Struct(">I")
_NUMBER = struct.Struct(">Q")
_KEPT_TEMPLATES = 1000


def windowing_coder(coder: coders.WindowedValueCoder) -> coder_impl.CoderImpl:
    """Return the coder of the common windowing of a block, as an empty element."""
    return coders.WindowedValueCoder(coders.BytesCoder(), coder.window_coder).get_impl()


def stripped_coder(coder: coders.WindowedValueCoder) -> coders.WindowedValueCoder:
    """Return the coder of the windowed values of a PCollection of pairs, without their keys."""
    return coders.WindowedValueCoder(coder.wrapped_value_coder.value_coder(), coder.window_coder)


def stored_coder(coder: coders.WindowedValueCoder) -> coders.WindowedValueCoder:
    """Return :func:`stripped_coder` with the length before each value.

    A reader with a coder of bytes in its place gets the values without decoding them.
    """
    value = coder.wrapped_value_coder.value_coder()
    return coders.WindowedValueCoder(coders.LengthPrefixCoder(value), coder.window_coder)


class KeyCells:
    """Cells with runs of windowed elements, or of values with the same windowing.

    Args:
        coder: of the elements; where rows have keys, without these.

    Attributes:
        elements, values, stamped: encode the runs; the last one, of timestamps and values.
    """

    def __init__(self, coder: coders.WindowedValueCoder) -> None:
        value = coder.wrapped_value_coder.get_impl()
        self.elements = RunCoder(coder.get_impl())
        self.values = RunCoder(value)
        self.stamped = RunCoder(coder_impl.TupleCoderImpl([coder_impl.VarIntCoderImpl(), value]))
        self._windowing = windowing_coder(coder)
        self._templates: dict[bytes, WindowedValue] = {}

    def head(self, kind: bytes, template: WindowedValue) -> bytes:
        """Return the bytes before a run of values, with or without own timestamps."""
        windowing = self._windowing.encode(template.with_value(b""))
        return kind + _LENGTH.pack(len(windowing)) + windowing

    def encode(self, block: Block) -> bytes:
        """Return a block whose values share their timestamp as a cell."""
        return self.head(BLOCK_CELL, block.windowing) + self.values.encode(block.values)

    def encode_stamped(self, block: Block, stamps: Iterable[int]) -> bytes:
        """Return a block whose values have timestamps of their own as a cell."""
        run = self.stamped.encode(list(zip(stamps, block.values, strict=True)))
        return self.head(STAMPED_CELL, block.windowing) + run

    def blocks(self, cell: bytes) -> Iterable[Block]:
        """Return the content of a cell; blocks with the same windowing have the same template."""
        kind = cell[:1]
        if kind == PLAIN_CELL:
            return in_blocks(self.elements.decode(cell[1:]))
        end = 1 + _LENGTH.size + _LENGTH.unpack_from(cell, 1)[0]
        template = self._template(cell[1 + _LENGTH.size : end])
        if kind == BLOCK_CELL:
            return (Block(template, self.values.decode(cell[end:])),)
        stamps, values = zip(*self.stamped.decode(cell[end:]), strict=True)
        return (Block(template, list(values), list(stamps)),)

    def head_of(self, cell: bytes) -> tuple[bytes, WindowedValue]:
        """Return the bytes before the run of a cell, and the template in them."""
        end = 1 + _LENGTH.size + _LENGTH.unpack_from(cell, 1)[0]
        return cell[:end], self._template(cell[1 + _LENGTH.size : end])

    def count(self, template: WindowedValue, number: int) -> bytes:
        """Return a cell with a number for the windows of a template."""
        return self.head(COUNT_CELL, template) + _NUMBER.pack(number)

    def counted(self, cell: bytes) -> tuple[WindowedValue, int]:
        """Return the inverse of :meth:`count`."""
        (number,) = _NUMBER.unpack_from(cell, len(cell) - _NUMBER.size)
        return self._template(cell[1 + _LENGTH.size : len(cell) - _NUMBER.size]), number

    def _template(self, windowing: bytes) -> WindowedValue:
        template = self._templates.get(windowing)
        if template is None:
            if len(self._templates) >= _KEPT_TEMPLATES:
                self._templates.clear()
            template = self._templates[windowing] = self._windowing.decode(windowing)
        return template
