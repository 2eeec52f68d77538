"""Leaves out the columns of Spark's sources that no step looks at, so that nobody reads them.

What steps look at is known where their functions are compiled (:mod:`sparkbeam.columns`): whether
such a function is evaluated over columns or called, it does not see the other fields.
"""

from dataclasses import replace

from sparkbeam.plan.model import Plan, Source
from sparkbeam.plan.overcolumns import fields_read
from sparkbeam.plan.sparkio import READ_URN, ReadSpec

_COLUMNAR = frozenset(["parquet", "orc", "delta"])
"""Formats of which a column can be left out. In others it may be what makes a row malformed."""


def projected(plan: Plan) -> Plan:
    """The plan with sources that know which of their columns are needed."""
    return replace(plan, sources=tuple(_projected(plan, source) for source in plan.sources))


def _projected(plan: Plan, source: Source) -> Source:
    if source.urn != READ_URN:
        return source
    spec = ReadSpec.unpack(source.payload)
    needed = _needed(plan, source) if spec.format in _COLUMNAR else None
    if needed is None or len(needed) == len(spec.columns):
        return source
    names = tuple(name for at, name in enumerate(spec.columns) if at in needed)
    return replace(source, payload=replace(spec, needed=names).pack())


def _needed(plan: Plan, source: Source) -> frozenset[int] | None:
    """The positions of the columns that some stage looks at; None for all."""
    tags = {tag for _, tag in source.outputs}
    if any(tags.intersection(sink.inputs) for sink in plan.sinks):
        return None
    found: frozenset[int] = frozenset()
    for stage in plan.stages:
        if any(tags.intersection(side_input.sources) for side_input in stage.side_inputs):
            return None
        if tags.isdisjoint(stage.inputs):
            continue
        fields = fields_read(plan, stage) if plan.source_of(stage) is source else None
        if fields is None:
            return None
        found |= fields
    return found
