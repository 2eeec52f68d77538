"""Operations on blocks: accumulators are merged behind a shuffle, and outputs made of them."""

from collections.abc import Callable
from functools import partial
from typing import Any

import apache_beam as beam
from apache_beam.portability import common_urns
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.runners import common
from apache_beam.runners.worker import operation_specs, operations
from apache_beam.utils.windowed_value import WindowedValue

from sparkbeam.upstream.handing import Handed
from sparkbeam.windows.forms import form_of
from sparkbeam.wire.failure import UserCodeFailed
from sparkbeam.worker.blocks import Block, BlockLimit
from sparkbeam.worker.emitter import Emitter
from sparkbeam.worker.steps.onetoone import OneToOne
from sparkbeam.worker.steps.step import Step, Way
from sparkbeam.worker.totals import Combine, Totals

_MERGE = common_urns.combine_components.COMBINE_PER_KEY_MERGE_ACCUMULATORS.urn
_EXTRACT = common_urns.combine_components.COMBINE_PER_KEY_EXTRACT_OUTPUTS.urn


class _PhaseOperation(operations.Operation):
    """Replaces the second part of each pair.

    Attributes:
        phase: Beam's name for it.
        combine: how.
        readers: the operations that take the results.
    """

    takes_assigned = True
    """It hands blocks on with the windows that they are assigned."""

    phase: str
    combine: Combine
    readers: list[operations.Operation]

    def setup(self, data_sampler: Any = None) -> None:
        with self.scoped_start_state:
            super().setup(data_sampler)
            self.combine.combine_fn.setup()
        self._emitter = Emitter(self.readers, self.receivers[0])
        self._limit = BlockLimit()
        apply = self.applied()

        def of_pair(pair: tuple[Any, Any]) -> tuple[Any, Any]:
            key, value = pair
            return key, apply(value)

        self._of_pair = of_pair
        self._each = OneToOne(of_pair, self.combine.label, self._limit).over

    def start(self) -> None:
        self._limit.forget()
        super().start()

    def teardown(self) -> None:
        with self.scoped_finish_state:
            super().teardown()
            self.combine.combine_fn.teardown()

    def process(self, o: WindowedValue) -> None:
        """Replaces the second part of a pair."""
        with self.scoped_process_state:
            try:
                pair = self._of_pair(o.value)
            except Exception as error:
                raise UserCodeFailed(self.combine.label) from error
            self._emitter.single(o.with_value(pair))

    def process_block(self, block: Block) -> None:
        """Replaces the second part of pairs."""
        with self.scoped_process_state:
            column = block.column
            if isinstance(column, Totals):
                self._emitter.block(self.of_totals(block, column))
                return
            for part in self._each(block):
                self._limit.learn(part.values)
                self._emitter.block(part)

    def applied(self) -> Callable[[Any], Any]:
        """What gives the second part."""
        raise NotImplementedError

    def of_totals(self, block: Block, totals: Totals) -> Block:
        """The same for accumulators in columns."""
        raise NotImplementedError


class MergeOperation(_PhaseOperation):
    """Merges the accumulators of a group."""

    phase = "merge"

    def applied(self) -> Callable[[Any], Any]:
        merge: Callable[[Any], Any] = self.combine.combine_fn.merge_accumulators
        return merge

    def of_totals(self, block: Block, totals: Totals) -> Block:
        merged = self.combine.merged(totals)
        if all(isinstance(reader, ExtractOperation) for reader in self.readers):
            return block.with_column(merged, None)
        return block.with_values(merged.values())


class ExtractOperation(_PhaseOperation):
    """Makes an output of an accumulator."""

    phase = "extract"

    def applied(self) -> Callable[[Any], Any]:
        extract: Callable[[Any], Any] = self.combine.combine_fn.extract_output
        return extract

    def of_totals(self, block: Block, totals: Totals) -> Block:
        try:
            outputs = totals.outputs()
        except Exception as error:
            raise UserCodeFailed(self.combine.label) from error
        return block.with_column(outputs, None)


def _combine_fn(urn: str, step: Step) -> beam.CombineFn | None:
    """The CombineFn of a step that is this phase of a combine; None for any other step."""
    if step.urn != urn:
        return None
    payload = step.payload(beam_runner_api_pb2.CombinePayload)
    return beam.CombineFn.from_runner_api(payload.combine_fn, step.factory.context)


def _make(kind: type[_PhaseOperation], step: Step, combine_fn: beam.CombineFn) -> _PhaseOperation:
    # In streaming the grouping before it merges with a CombineFn of its own, out of this.
    handed = Handed((combine_fn, [], {}), lambda: (_combine_fn(step.urn, step), [], {}))
    spec = operation_specs.WorkerCombineFn(
        handed, kind.phase, None, [step.factory.get_only_output_coder(step.transform)]
    )
    made: _PhaseOperation = step.factory.augment_oldstyle_op(
        kind(
            common.NameContext(step.label, step.id),
            spec,
            step.factory.counter_factory,
            step.factory.state_sampler,
        ),
        step.label,
        step.consumers,
    )
    (made.readers,) = step.consumers.values()
    made.combine = Combine(combine_fn, form_of(combine_fn), step.label)
    return made


MERGE = Way("a merge of blocks", partial(_combine_fn, _MERGE), partial(_make, MergeOperation))
EXTRACT = Way("outputs of blocks", partial(_combine_fn, _EXTRACT), partial(_make, ExtractOperation))
