"""Operations on blocks: the map side of a combine."""

from collections.abc import Iterable
from itertools import islice
from typing import Any

import apache_beam as beam
from apache_beam.internal import pickler
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.runners import common
from apache_beam.runners.worker import bundle_processor, operation_specs, operations
from apache_beam.transforms.window import BoundedWindow
from apache_beam.utils.windowed_value import WindowedValue

from sparkbeam.plan.model import PRECOMBINE_URN
from sparkbeam.worker.blocks import GLOBAL, BlockLimit, Emitter, elements
from sparkbeam.worker.failure import UserCodeFailed
from sparkbeam.worker.sizes import size_of

_MAX_KEYS = 100_000
_MAX_BUFFERED = 200_000
_MAX_BUFFERED_BYTES = 32 << 20
_MAX_BYTES = 64 << 20


class PrecombineOperation(operations.PGBKCVOperation):
    """The map side of a combine: gathers values by key, adds them to accumulators in runs.

    Attributes:
        readers: the operations that take the accumulators.
    """

    readers: list[operations.Operation]

    def setup(self, data_sampler: Any = None) -> None:
        super().setup(data_sampler)
        self._emitter = Emitter(self.readers, self.receivers[0])
        self._accumulators: dict[Any, Any] = {}
        self._gathered: dict[Any, list[Any]] = {}
        self._count = 0
        self._bytes = 0

    def process_block(self, template: WindowedValue, values: list[Any]) -> None:
        """Takes in pairs of key and value."""
        if not self.is_default_windowing and (
            self.timestamp_combiner is not None or len(template.windows) != 1
        ):
            for value in values:
                self.process(template.with_value(value))
            return
        window = None if self.is_default_windowing else template.windows[0]
        gathered = self._gathered
        with self.scoped_process_state:
            for key, value in values:
                wkey = key if window is None else (window, key)
                run = gathered.get(wkey)
                if run is None:
                    gathered[wkey] = [value]
                else:
                    run.append(value)
            self._count += len(values)
            self._bytes += len(values) * max(size_of(values[0]), size_of(values[-1]))
            if self._count >= _MAX_BUFFERED or self._bytes >= _MAX_BUFFERED_BYTES:
                self._add_up()

    def process_stamped(
        self, template: WindowedValue, values: list[Any], stamps: list[int]
    ) -> None:
        """Likewise, each with its timestamp."""
        if self.timestamp_combiner is None:
            self.process_block(template, values)
            return
        for element in elements(template, values, stamps):
            self.process(element)

    def _add_up(self) -> None:
        accumulators = self._accumulators
        combine_fn = self.combine_fn
        try:
            for wkey, values in self._gathered.items():
                if wkey not in accumulators:
                    accumulators[wkey] = combine_fn.create_accumulator()
                accumulators[wkey] = combine_fn.add_inputs(accumulators[wkey], values)
        except Exception as error:
            raise UserCodeFailed(self.name_context.step_name) from error
        self._gathered.clear()
        self._count = self._bytes = 0
        if len(accumulators) > _MAX_KEYS or size_of(accumulators) > _MAX_BYTES:
            self._put_out()

    def _put_out(self) -> None:
        accumulators, self._accumulators = self._accumulators, {}
        if self.is_default_windowing:
            self._emit(GLOBAL, accumulators.items())
            return
        by_window: dict[BoundedWindow, list[tuple[Any, Any]]] = {}
        for (window, key), accumulator in accumulators.items():
            by_window.setdefault(window, []).append((key, accumulator))
        for window, pairs in by_window.items():
            self._emit(WindowedValue(None, window.max_timestamp(), (window,)), pairs)

    def _emit(self, template: WindowedValue, pairs: Iterable[tuple[Any, Any]]) -> None:
        compact = self.combine_fn_compact
        limit = BlockLimit()
        remaining = iter(pairs)
        while block := list(islice(remaining, limit.values)):
            if compact is not None:
                block = [(key, compact(accumulator)) for key, accumulator in block]
            limit.learn(block)
            self._emitter.block(template, block)

    def finish(self) -> None:
        with self.scoped_finish_state:
            self._add_up()
            self._put_out()
        super().finish()


@bundle_processor.BeamTransformFactory.register_urn(
    PRECOMBINE_URN, beam_runner_api_pb2.CombinePayload
)
def _create_precombine(
    factory: bundle_processor.BeamTransformFactory,
    transform_id: str,
    transform: beam_runner_api_pb2.PTransform,
    payload: beam_runner_api_pb2.CombinePayload,
    consumers: Any,
) -> PrecombineOperation:
    combine_fn = beam.CombineFn.from_runner_api(payload.combine_fn, factory.context)
    operation = factory.augment_oldstyle_op(
        PrecombineOperation(
            common.NameContext(transform.unique_name, transform_id),
            operation_specs.WorkerPartialGroupByKey(
                pickler.dumps((combine_fn, [], {})),
                None,
                [factory.get_only_output_coder(transform)],
            ),
            factory.counter_factory,
            factory.state_sampler,
            factory.get_input_windowing(transform),
        ),
        transform.unique_name,
        consumers,
    )
    (operation.readers,) = consumers.values()
    return operation
