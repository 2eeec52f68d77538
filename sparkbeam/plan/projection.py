"""Projection: unread columns of Spark's sources, Parquet files and record batches are left out.

The fields that a step reads are known if its function is compiled (:mod:`sparkbeam.columns`).
Such a function does not see the other fields, whether it is evaluated over columns or called.
"""

from collections.abc import Iterator
from dataclasses import replace
from math import ceil

from apache_beam.portability.api import beam_runner_api_pb2

from sparkbeam.plan.model import CREATE_URN, Plan, Source, Stage
from sparkbeam.plan.pardo_functions import dofn_of, set_dofn
from sparkbeam.plan.parsed_stage import parsed, proto_of
from sparkbeam.plan.required_fields import RequiredFields
from sparkbeam.plan.table_reads import ReadBatches
from sparkbeam.plan.table_rows import schema_read
from sparkbeam.plan.volumes import batches
from sparkbeam.upstream.beam_files import DividedRead, source_of_read, with_source
from sparkbeam.upstream.parquet import (
    ProjectedSource,
    RowGroupSource,
    projected_source,
    whole_source,
)

_COLUMNAR = frozenset(["parquet", "orc", "delta", "kafka"])
"""Formats whose columns can be left out. In others a column may be what makes a row malformed."""


def projected(plan: Plan) -> Plan:
    """Return the plan with sources that know which of their columns are needed."""
    needs = RequiredFields(plan)
    stages = plan.stages if plan.streaming else _over_fewer_columns(plan, needs)
    sources = tuple(_projected(plan, needs, source) for source in plan.sources)
    return replace(plan, sources=sources, stages=stages)


def read_of_tables(stage: Stage) -> Iterator[tuple[str, int, int]]:
    """Yield the transforms of a stage that read some columns of tables.

    Each comes with the number of columns that it reads, and the number of all columns.
    """
    for transform in parsed(stage).transforms.values():
        fn = dofn_of(transform)
        source = source_of_read(fn)
        if isinstance(source, ProjectedSource):
            reading = transform.unique_name.rpartition("/Read/")[0]
            yield reading, len(source.needed), len(source.schema)
        elif isinstance(fn, ReadBatches) and len(fn.needed) < len(fn.names):
            yield transform.unique_name.rpartition("/")[0], len(fn.needed), len(fn.names)


def _over_fewer_columns(plan: Plan, needs: RequiredFields) -> tuple[Stage, ...]:
    """Return the stages with Beam's ``ReadFromParquet`` reading row groups of needed columns."""
    found: dict[str, frozenset[str]] = {}
    whole: set[str] = set()
    for stage in plan.stages:
        for reading, needed in needs.of_tables(stage).items():
            if needed is None:
                whole.add(reading)
            else:
                found[reading] = found.get(reading, frozenset()) | needed
    fewer = {reading: needed for reading, needed in found.items() if reading not in whole}
    stages = (_reading(stage, fewer) for stage in plan.stages)
    return tuple(
        replace(stage, most_tasks=_most_tasks(stage))
        if stage.creates and needs.is_compiled(before)
        else stage
        for before, stage in zip(plan.stages, stages, strict=True)
    )


def _most_tasks(stage: Stage) -> int | None:
    """Return the number of tasks in which a stage has a batch of rows each.

    It is for a stage that begins with files of columns.
    """
    creates = list(parsed(stage).with_urn(CREATE_URN))
    fn = dofn_of(creates[0]) if len(creates) == 1 else None
    if not isinstance(fn, DividedRead) or fn.volume is None:
        return None
    read = fn.source.needed if isinstance(fn.source, ProjectedSource) else fn.volume.sizes
    size = sum(fn.volume.sizes.get(name, 0) for name in read)
    return max(1, ceil(batches(fn.volume.rows, size)))


def _reading(stage: Stage, fewer: dict[str, frozenset[str]]) -> Stage:
    """Return a stage in which some transforms read fewer columns."""
    descriptor = proto_of(stage.descriptor)
    changed = False
    for transform in descriptor.transforms.values():
        found = [
            needed
            for reading, needed in fewer.items()
            if transform.unique_name == f"{reading}/Read"
            or transform.unique_name.startswith(f"{reading}/Read/")
        ]
        changed |= _read_less(transform, found[0] if found else None)
    return replace(stage, descriptor=descriptor.SerializeToString()) if changed else stage


def _read_less(transform: beam_runner_api_pb2.PTransform, needed: frozenset[str] | None) -> bool:
    """Return whether a step reads tables, or puts out a source of them, and was changed.

    Args:
        transform: the step.
        needed: the names of the columns to read; None for all.
    """
    fn = dofn_of(transform)
    if isinstance(fn, ReadBatches):
        set_dofn(transform, fn if needed is None else fn.reading(needed))
        return needed is not None
    source = source_of_read(fn)
    if fn is None or source is None:
        return False
    other: RowGroupSource | None = None
    if needed is not None:
        other = projected_source(source, schema_read(transform.spec.payload), needed)
    other = other or whole_source(source)
    if other is None:
        return False
    set_dofn(transform, with_source(fn, other))
    return True


def _projected(plan: Plan, needs: RequiredFields, source: Source) -> Source:
    spec = source.read
    if spec is None:
        return source
    if not plan.streaming:
        stages = [stage for stage in plan.stages if plan.source_of(stage) is source]
        spec = replace(spec, is_compiled=bool(stages) and all(map(needs.is_compiled, stages)))
    needed = _needed(plan, needs, source)
    if needed is None:
        return replace(source, read=spec)
    # To compute a column may fail, also one that nobody reads.
    computed = {name for name, _ in spec.derived}
    names = tuple(name for at, name in enumerate(spec.columns) if at in needed or name in computed)
    if len(names) < len(spec.columns):
        is_columnar = spec.format in _COLUMNAR
        spec = replace(spec, needed=names) if is_columnar else replace(spec, looked_at=names)
    return replace(source, read=spec)


def _needed(plan: Plan, needs: RequiredFields, source: Source) -> frozenset[int] | None:
    """Return the positions of the columns that some stage looks at; None for all."""
    tags = {tag for _, tag in source.outputs}
    if any(tags.intersection(sink.inputs) for sink in plan.sinks):
        return None
    if any(tags.intersection(table) for other in plan.sources for table in other.inputs):
        return None
    found: frozenset[int] = frozenset()
    for stage in plan.stages:
        if any(tags.intersection(side_input.sources) for side_input in stage.side_inputs):
            return None
        if tags.isdisjoint(stage.inputs):
            continue
        fields = needs.of_rows(stage) if plan.source_of(stage) is source else None
        if fields is None:
            return None
        found |= fields
    return found
