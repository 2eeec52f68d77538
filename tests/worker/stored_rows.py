"""Rows on their way to a GroupByKey in streaming, for tests of what keeps numbers."""

from apache_beam.coders import coders
from apache_beam.transforms.core import Windowing

from sparkbeam.wire.rows import Row
from sparkbeam.worker.streaming.router import Router


class Rows(Router):
    """Takes what a sink writes."""

    def __init__(self) -> None:
        super().__init__((0,), None, 0, {}, lambda *_: None, lambda *_: None)
        self.rows: list[Row] = []

    def take(self, tag: int, rows: list[Row]) -> None:
        self.rows += rows


def coder_of(windowing: Windowing) -> coders.WindowedValueCoder:
    """The coder of pairs with whole numbers as keys."""
    pair = coders.TupleCoder([coders.VarIntCoder(), coders.FastPrimitivesCoder()])
    return coders.WindowedValueCoder(pair, windowing.windowfn.get_window_coder())
