"""Groupings of a batch: all elements of a key at once."""

from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter

from apache_beam.coders import coders
from apache_beam.transforms import trigger
from apache_beam.transforms.core import Windowing
from apache_beam.utils.windowed_value import WindowedValue

from sparkbeam.wire.rows import Row
from sparkbeam.worker.grouping.merging import MergingGroups
from sparkbeam.worker.grouping.panes import Panes
from sparkbeam.worker.layouts.cells import KeyCells, stripped_coder

_KEY = itemgetter(0)


def triggered(
    rows: Iterator[Row], coder: coders.WindowedValueCoder, windowing: Windowing
) -> Iterator[WindowedValue]:
    """``Layout.TRIGGERED``: the windowing decides which panes there are, key by key."""
    decode_key = coder.wrapped_value_coder.key_coder().get_impl().decode_nested
    cells = KeyCells(stripped_coder(coder))
    is_default = isinstance(windowing.triggerfn, trigger.DefaultTrigger)
    panes = MergingGroups(windowing) if is_default else Panes(windowing)
    for encoded_key, group in groupby(rows, _KEY):
        elements = [
            element
            for _, _, cell in group
            for block in cells.blocks(cell)
            for element in block.elements()
        ]
        key = decode_key(encoded_key)
        for pane in panes.of(elements):
            yield pane.with_value((key, pane.value))
