"""What the map side of a combine has come to, in columns."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sparkbeam.columns.vectors import Micros, Positions
from sparkbeam.windows.vectorized_form import Numbers
from sparkbeam.worker.value_columns import Column


@dataclass(frozen=True)
class Partials:
    """Numbers of a vectorised form by key and window, or slice of windows; each is there once.

    Attributes:
        keys: the keys that there are, each once.
        places: that of each one's key among them.
        slices: the number of each one's slice; see :class:`sparkbeam.worker.slices.Slices`. In the
            global window all are 0.
        stamps: the combined timestamps in microseconds, where somebody asks for them.
        numbers: of the form.
        counts: how many elements each is of.
        is_by_window: each is of the window alone that begins with the slice.
    """

    keys: Column
    places: Positions
    slices: Micros
    stamps: Micros
    numbers: Numbers
    counts: npt.NDArray[np.int64]
    is_by_window: bool = False

    def taken(self, rows: Positions) -> "Partials":
        """Those at some positions."""
        return Partials(
            self.keys,
            self.places[rows],
            self.slices[rows],
            self.stamps[rows],
            self.numbers[rows],
            self.counts[rows],
            self.is_by_window,
        )

    def __len__(self) -> int:
        return len(self.places)
