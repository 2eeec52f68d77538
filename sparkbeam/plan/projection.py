"""Projection: unread columns of Spark's sources, Parquet files and record batches are left out.

The fields that a step reads are known if its function is compiled (:mod:`sparkbeam.columns`).
Such a function does not see the other fields, whether it is evaluated over columns or called.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import ceil

import apache_beam as beam
from apache_beam.portability.api import beam_runner_api_pb2

from sparkbeam.plan.arrow_batches import ReadBatches, schema_read
from sparkbeam.plan.model import CREATE_URN, Plan, Source, Stage
from sparkbeam.plan.pardo_functions import dofn_of, set_dofn
from sparkbeam.plan.parsed_stage import parsed, proto_of
from sparkbeam.plan.required_fields import RequiredFields
from sparkbeam.upstream.beam_files import DividedRead, source_of_read, with_source
from sparkbeam.upstream.parquet import RowGroupSource

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
        if isinstance(source, RowGroupSource) and source.schema and source.needed:
            reading = transform.unique_name.rpartition("/Read/")[0]
            yield reading, len(source.needed), len(source.schema)
        elif isinstance(fn, ReadBatches) and len(fn.needed) < len(fn.names):
            yield transform.unique_name.rpartition("/")[0], len(fn.needed), len(fn.names)


def _over_fewer_columns(plan: Plan, needs: RequiredFields) -> tuple[Stage, ...]:
    """Return the stages with steps that read only the needed columns of tables."""
    found: dict[str, frozenset[str] | None] = {}
    for stage in plan.stages:
        for reading, needed in needs.of_tables(stage).items():
            others = found.get(reading, frozenset())
            found[reading] = None if needed is None or others is None else needed | others
    fewer = {f"{name}/Read/": needed for name, needed in found.items() if needed is not None}
    stages = (_reading(stage, fewer) if fewer else stage for stage in plan.stages)
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
    if not isinstance(fn, DividedRead) or fn.footers is None:
        return None
    assert isinstance(fn.source, RowGroupSource)
    return max(1, ceil(fn.footers.batches(fn.source.needed or fn.footers.sizes)))


def _reading(stage: Stage, fewer: Mapping[str, frozenset[str]]) -> Stage:
    """Return a stage in which the steps whose names have some prefixes read fewer columns."""
    descriptor = proto_of(stage.descriptor)
    changed = False
    for transform in descriptor.transforms.values():
        for prefix, needed in fewer.items():
            is_read = f"{transform.unique_name}/".startswith(prefix)
            fn = _over_columns(transform, needed) if is_read else None
            if fn is not None:
                set_dofn(transform, fn)
                changed = True
    return replace(stage, descriptor=descriptor.SerializeToString()) if changed else stage


def _over_columns(
    transform: beam_runner_api_pb2.PTransform, needed: frozenset[str]
) -> beam.DoFn | None:
    """Return the DoFn of a step that reads tables, or puts out a source of them, for some columns.

    None for other steps, and if all columns must be read.
    """
    fn = dofn_of(transform)
    if isinstance(fn, ReadBatches):
        return fn.reading(needed)
    source = source_of_read(fn)
    if fn is None or not isinstance(source, RowGroupSource):
        return None
    fewer = source.reading(needed, schema_read(transform.spec.payload))
    return None if fewer is None else with_source(fn, fewer)


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
