"""Conversion of rows that the driver has collected."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from sparkbeam.plan.spark_io import ReadSpec
from sparkbeam.worker.connectors.spark_rows import RowReader


@dataclass(frozen=True)
class CollectedRows:
    """Function from rows, as a stream of Arrow, to their elements.

    Attributes:
        spec: of the source, with the coder of the elements.
    """

    spec: ReadSpec

    def __call__(self, stream: bytes) -> Iterator[Any]:
        """Yield the elements with their timestamps."""
        reader = RowReader(self.spec)
        for batch in pa.ipc.open_stream(stream):
            for block in reader.blocks(batch):
                yield from block.elements()
