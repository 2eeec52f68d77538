"""The data operations of a bundle: Beam's bundle processor on one side, rows on the other.

They take the place of the gRPC data operations.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

import pyarrow as pa
from apache_beam.coders import coders
from apache_beam.runners import common
from apache_beam.runners.worker import bundle_processor, operations
from apache_beam.transforms.core import Windowing
from apache_beam.utils.windowed_value import WindowedValue

from sparkbeam.plan.row_formats import GroupRows
from sparkbeam.upstream.beam import input_channel
from sparkbeam.wire.failure import NoStep, StepFailed, UserCodeFailed, is_decoding
from sparkbeam.wire.heap import RowTooLarge
from sparkbeam.wire.rows import Row, RowWriter
from sparkbeam.worker.blocks import Block
from sparkbeam.worker.column_accumulators import Combine
from sparkbeam.worker.emitter import Emitter
from sparkbeam.worker.format_registry import READERS, writer_of
from sparkbeam.worker.keyed_aggregates import ExtraElements, KeyedAggregates
from sparkbeam.worker.refusals import count_refused_by
from sparkbeam.worker.row_formats.join_reader import JoinReader
from sparkbeam.worker.row_formats.join_rows import JoinSideSink
from sparkbeam.worker.row_formats.row_writer import Sink, WriterParameters
from sparkbeam.worker.steps.step import Step


class SourceOperation(bundle_processor.DataInputOperation):
    """Source of a bundle: an iterator of blocks.

    Attributes:
        grouped_coder: the coder of the input of the GroupByKey or Reshuffle
            that the stage reads; None if it reads none.
        joined: the reader of the rows of a join; None if the stage reads none.
        windowing: the windowing of the elements that this operation emits.
    """

    windowed_coder: coders.WindowedValueCoder

    def __init__(self, step: Step) -> None:
        factory, stage = step.factory, step.stage
        (output,) = step.transform.outputs.values()
        coder_of = factory.get_windowed_coder
        super().__init__(
            # Not the label: counters of equal names are one, and the first step has that name.
            NoStep(step.id, step.id),
            step.id,
            step.consumers,
            factory.counter_factory,
            factory.state_sampler,
            coder_of(output),
            transform_id=step.id,
            **input_channel(factory),
        )
        self._label = step.label
        self.format = stage.format
        self.grouped_coder: coders.WindowedValueCoder | None = None
        self.grouped_windowing: Windowing | None = None
        if stage.grouped:
            self.grouped_coder = coder_of(stage.grouped)
            self.grouped_windowing = step.windowing(stage.grouped)
        self.joined: JoinReader | None = None
        if stage.joined:
            left, right = stage.joined
            self.joined = JoinReader(coder_of(left), coder_of(right), step.windowing(left))
        self.windowing = step.windowing(output)
        self.elements: Iterator[Block] = iter(())

    def setup(self, data_sampler: Any = None) -> None:
        super().setup(data_sampler)
        self._emitter = Emitter(self.consumer, self.receivers[0])

    @property
    def combine(self) -> Combine | None:
        """Combine with which the only reader merges groups, if it takes them as columns."""
        found = [getattr(reader, "combine", None) for reader in self.consumer]
        combine: Combine | None = found[0] if len(found) == 1 else None
        return combine if combine is not None and combine.form is not None else None

    def read(self, rows: Iterator[Row]) -> Iterator[Block]:
        """Yield the elements of rows of the stage's format."""
        return READERS[type(self.format)](rows, self.grouped_coder or self.windowed_coder)

    def process_encoded(self, encoded_windowed_values: bytes) -> None:
        """Emit all of ``elements``; the argument only signals that they are there."""
        emitter = self._emitter
        are_columns = isinstance(self.format, GroupRows) and self.format.packed
        while True:
            try:
                block = next(self.elements, None)
            except (StepFailed, UserCodeFailed):
                raise
            except Exception as error:
                if not is_decoding(error):
                    raise
                raise StepFailed(
                    self._label,
                    f"the coder {self.windowed_coder.wrapped_value_coder} cannot decode its input",
                ) from error
            if block is None:
                return
            if are_columns and block.column is None:
                for reader in self.consumer:
                    count_refused_by(
                        reader, "groups are large, or hold elements that were not columns"
                    )
            emitter.block(block)


class SinkOperation(operations.Operation):
    """Writer of the elements of one PCollection into a sink of the current task."""

    _sink: Sink

    def __init__(self, step: Step) -> None:
        factory = step.factory
        name = common.NameContext(step.label, step.id)
        super().__init__(name, None, factory.counter_factory, factory.state_sampler)
        (self.port,) = (port for port in step.stage.ports if port.transform_id == step.id)
        self._producer = next(
            transform.unique_name
            for transform in factory.descriptor.transforms.values()
            if self.port.pcollection in transform.outputs.values()
        )
        self.coder = factory.get_windowed_coder(self.port.pcollection)
        self.windowing = step.windowing(self.port.pcollection)

    @property
    def takes_assigned(self) -> bool:
        """True if the edge writes blocks with their assigned windows."""
        return self.port.format.takes_assigned

    def open(self, rows: RowWriter, partition: int = 0) -> None:
        """Set the receiver of the rows, before the first bundle."""
        self._sink = writer_of(
            WriterParameters(self.port, rows, self.coder, self.windowing, partition)
        )
        self._sink.refused = partial(count_refused_by, self)

    def keep_partners(self, keys: pa.Array) -> None:
        """Give a join side the keys of the other side, before the first bundle.

        Args:
            keys: binary, each once.
        """
        assert isinstance(self._sink, JoinSideSink)
        self._sink.keep_partners(keys)

    def process(self, windowed_value: WindowedValue) -> None:
        try:
            self._sink.add(windowed_value)
        except Exception as error:
            raise self._failed(error) from error

    def process_block(self, block: Block) -> None:
        """Write many elements."""
        if block.column is not None and (why := self.port.format.why_elements) is not None:
            count_refused_by(self, why)
        self.write(block)

    def write(self, batch: Block | KeyedAggregates | ExtraElements) -> None:
        """Write many elements, or partial results of elements."""
        try:
            self._sink.write(batch)
        except Exception as error:
            raise self._failed(error) from error

    def finish(self) -> None:
        super().finish()
        try:
            self._sink.flush()
        except Exception as error:
            raise self._failed(error) from error

    def _failed(self, error: Exception) -> StepFailed:
        if isinstance(error, RowTooLarge):
            return StepFailed(self._producer, str(error))
        if isinstance(error, OSError):
            return StepFailed(self._producer, "its output cannot be written")
        coder = self.coder.wrapped_value_coder
        return StepFailed(self._producer, f"the coder {coder} cannot encode an element")
