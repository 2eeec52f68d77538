"""State that stays until its window expires."""

from collections.abc import Iterator
from typing import Any

import apache_beam as beam
from apache_beam.coders import StrUtf8Coder
from apache_beam.transforms.userstate import BagStateSpec


class Remembering(beam.DoFn):
    """Keeps each element in the state of its key and window."""

    KEPT = BagStateSpec("kept", StrUtf8Coder())

    def process(
        self, element: tuple[str, str], kept: Any = beam.DoFn.StateParam(KEPT)
    ) -> Iterator[None]:
        kept.add(element[1])
        yield from ()
