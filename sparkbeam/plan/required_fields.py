"""Parts of the elements of sources that the steps of a plan read."""

from collections.abc import Iterator
from functools import cache

from apache_beam.portability.api import beam_runner_api_pb2

from sparkbeam.columns import ALL, Compiled, Paths, RecordShape, Shape, Union
from sparkbeam.plan.column_types import rows_in_columns, schema_of, walk_of
from sparkbeam.plan.model import SINK_URN, Plan, Port, Stage


class RequiredFields:
    """Fields that the steps of a plan read, followed through all stages that get columns.

    Args:
        plan: in streaming, all fields are needed of the elements that a stage hands on to another.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._walk = cache(walk_of)
        self._known: dict[tuple[str, str, Shape], Paths] = {}

    def of_rows(self, stage: Stage) -> frozenset[int] | None:
        """Return the positions of the fields that are needed of a stage's rows from Spark.

        The stage may do without the fields that nobody reads, and that may be zero or None. None
        if it gets no rows in columns, or if all fields may be read.
        """
        spec = rows_in_columns(self._plan, stage)
        if spec is None:
            return None
        found = {
            at
            for at, part in enumerate(schema_of(spec).fields)
            if not part.type.nullable and not part.type.atomic_type
        }
        for pcollection, shape in self._walk(stage).read(spec):
            needed = self._of(stage, pcollection, shape)
            if needed >= ALL:
                return None
            found |= {path[0] for path in needed}
        return frozenset(found)

    def is_compiled(self, stage: Stage) -> bool:
        """Return whether a stage does all its work on its input over columns.

        False if it reads no columns.
        """
        walk, spec = self._walk(stage), rows_in_columns(self._plan, stage)
        begins = list(walk.read(spec))
        begins += [(output, shape) for _, output, shape in walk.tables(self._plan)]
        return bool(begins) and walk.is_compiled(begins)

    def of_tables(self, stage: Stage) -> dict[str, frozenset[str] | None]:
        """Return the names of the columns that are needed of tables; None for all.

        Returns:
            For each transform that reads tables whose rows the stage gets. Where these are of
            several classes the names are those of
            :class:`~sparkbeam.plan.arrow_batches.ReadBatches`.
        """
        found: dict[str, frozenset[str] | None] = {}
        for reading, output, shape in self._walk(stage).tables(self._plan):
            needed = self._of(stage, output, shape)
            found[reading] = None if needed >= ALL else frozenset(_names(shape, needed))
        return found

    def _of(self, stage: Stage, pcollection: str, shape: Shape) -> Paths:
        """Return the parts of the elements of a PCollection that are read."""
        key = stage.id, pcollection, shape
        if key not in self._known:
            steps = self._walk(stage).parsed.readers(pcollection)
            parts = (self._of_step(stage, step, shape) for step in steps)
            needed: Paths = frozenset().union(*parts)
            self._known[key] = ALL if () in needed else needed
        return self._known[key]

    def _of_step(
        self, stage: Stage, transform: beam_runner_api_pb2.PTransform, shape: Shape
    ) -> Paths:
        """Return the parts of its elements that a step reads, or that are read of its outputs."""
        walk = self._walk(stage)
        if transform.spec.urn == SINK_URN:
            return self._of_port(stage, walk.port_of(transform), shape)
        if walk.passes_on(transform):
            return self._of_results(stage, transform, shape)
        step = walk.steps[transform.unique_name]
        result = step.operator.output_type(step, shape)
        if isinstance(result, Compiled):
            return result.needed(self._of_results(stage, transform, result.outcome))
        return step.operator.reads(step) if result is None else ALL

    def _of_results(
        self, stage: Stage, transform: beam_runner_api_pb2.PTransform, shape: Shape
    ) -> Paths:
        outputs = transform.outputs.values()
        return frozenset().union(*(self._of(stage, output, shape) for output in outputs))

    def _of_port(self, stage: Stage, port: Port, shape: Shape) -> Paths:
        """Return the parts that other stages read of the elements that they are handed."""
        plan, tag = self._plan, port.tag
        handed_on = self._walk(stage).output_shape(port, shape)
        sides = [side for one in plan.stages for side in one.side_inputs]
        if (
            plan.streaming
            or any(tag in reader.sources for reader in sides)
            or any(tag in sink.inputs for sink in plan.sinks)
            or handed_on is None
        ):
            return ALL
        found: Paths = frozenset()
        for reader in plan.stages:
            if tag in reader.inputs:
                main_input = self._walk(reader).parsed.main_input
                found |= self._of(reader, main_input, handed_on) if reader.in_columns else ALL
        return found


def _names(shape: Shape, needed: Paths) -> Iterator[str]:
    """Yield the names of fields.

    Of records of several classes they are behind that of the class.
    """
    for first, *further in needed:
        match shape:
            case RecordShape():
                yield shape.names[first]
            case Union():
                member = shape.members[first]
                names = [member.names[further[0]]] if further else member.names
                yield from (f"{member.type.__name__}.{name}" for name in names)
