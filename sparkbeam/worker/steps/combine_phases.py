"""Operations on blocks: merging accumulators after a shuffle, and extracting outputs."""

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from apache_beam.runners.worker import operation_specs, operations
from apache_beam.utils.windowed_value import WindowedValue

from sparkbeam.accumulators.vectorized_accumulators import form_of
from sparkbeam.plan.parsed_stage import combine_fn_of
from sparkbeam.upstream.dofn_handover import InProcessPickle
from sparkbeam.wire.failure import UserCodeFailed
from sparkbeam.worker.blocks import Block, BlockLimit
from sparkbeam.worker.column_accumulators import Combine, Totals
from sparkbeam.worker.emitter import Emitter
from sparkbeam.worker.steps.one_to_one import OneToOne
from sparkbeam.worker.steps.step import Step


class CombineOperation(operations.Operation):
    """A part of a combine after its grouping.

    Attributes:
        phase: Beam's name for it.
    """

    takes_assigned = True
    """True, as blocks are emitted with their assigned windows."""

    takes_totals = True
    """True, as accumulators may be columns."""

    phase: str
    combine: Combine
    readers: list[operations.Operation]

    def setup(self, data_sampler: Any = None) -> None:
        with self.scoped_start_state:
            super().setup(data_sampler)
            self.combine.combine_fn.setup()
        self._emitter = Emitter(self.readers, self.receivers[0])

    def teardown(self) -> None:
        with self.scoped_finish_state:
            super().teardown()
            self.combine.combine_fn.teardown()


class _PhaseOperation(CombineOperation):
    """Replacement of the second part of each pair."""

    def setup(self, data_sampler: Any = None) -> None:
        super().setup(data_sampler)
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

    def process(self, o: WindowedValue) -> None:
        """Replace the second part of a pair."""
        with self.scoped_process_state:
            try:
                pair = self._of_pair(o.value)
            except Exception as error:
                raise UserCodeFailed(self.combine.label) from error
            self._emitter.single(o.with_value(pair))

    def process_block(self, block: Block) -> None:
        """Replace the second part of pairs."""
        with self.scoped_process_state:
            column = block.column
            if isinstance(column, Totals):
                self._emitter.block(self.of_totals(block, column))
                return
            for part in self._each(block):
                self._limit.learn(part.values)
                self._emitter.block(part)

    def applied(self) -> Callable[[Any], Any]:
        """Return the function that gives the second part."""
        raise NotImplementedError

    def of_totals(self, block: Block, totals: Totals) -> Block:
        """Apply the function to accumulators in columns."""
        raise NotImplementedError


class MergeOperation(_PhaseOperation):
    """Merging of the accumulators of a group."""

    phase = "merge"

    def applied(self) -> Callable[[Any], Any]:
        merge = self.combine.combine_fn.merge_accumulators
        create = self.combine.combine_fn.create_accumulator

        def merged(accumulators: Any) -> Any:
            # A pane may be empty, and not every CombineFn can merge nothing.
            return merge(accumulators) if len(accumulators) else create()

        return merged

    def of_totals(self, block: Block, totals: Totals) -> Block:
        merged = self.combine.unlisted(totals)
        if all(getattr(reader, "takes_totals", False) for reader in self.readers):
            return block.with_column(merged, None)
        return block.with_values(merged.values())


class ExtractOperation(_PhaseOperation):
    """Extraction of an output from an accumulator."""

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


_Kind = TypeVar("_Kind", bound=CombineOperation)


def make_phase(kind: type[_Kind], step: Step) -> _Kind:
    """Create the operation of a part of a combine."""
    load = partial(combine_fn_of, step.transform, step.factory.context)
    combine_fn = load()
    # In streaming the grouping before it merges with a CombineFn of its own, out of this.
    handed = InProcessPickle((combine_fn, [], {}), lambda: (load(), [], {}))
    spec = operation_specs.WorkerCombineFn(
        handed, kind.phase, None, [step.factory.get_only_output_coder(step.transform)]
    )
    made = step.combine_operation(kind, spec)
    made.combine = Combine(combine_fn, form_of(combine_fn), step.label)
    return made
