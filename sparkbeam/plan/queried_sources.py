"""SQL queries (of ``sparkbeam_sql``) over sources of Spark's or queries: rows stay in Spark."""

from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.runners.portability.fn_api_runner import translations

from sparkbeam.plan.fused_stages import makers_of, readers_of
from sparkbeam.plan.pardo_functions import dofn_of
from sparkbeam.plan.spark_io import READ_URN, RowPacker


def query_sources(
    stages: list[translations.Stage], context: translations.TransformContext
) -> list[translations.Stage]:
    """Let queries read sources themselves, without the step that packs elements into rows.

    A phase for stages of one transform each.
    """
    makers = makers_of(stages)
    removed: set[translations.Stage] = set()
    for stage in stages:
        (query,) = stage.transforms
        if query.spec.urn != READ_URN:
            continue
        for name, packed in list(query.inputs.items()):
            packer = makers[packed].transforms[0]
            source = _source_of(packer, makers)
            if source is not None:
                query.inputs[name] = source
                removed.add(makers[packed])
    read = readers_of(stages)
    outputs = {stage: stage.transforms[0].outputs.values() for stage in removed}
    return [
        stage
        for stage in stages
        if stage not in removed or any(read.get(output) for output in outputs[stage])
    ]


def _source_of(
    packer: beam_runner_api_pb2.PTransform, makers: dict[str, translations.Stage]
) -> str | None:
    """Return the PCollection of a source that a step packs for a query; None if it is another."""
    fn: object = dofn_of(packer)
    if not isinstance(fn, RowPacker) or not fn.is_for_query:
        return None
    (rows,) = packer.inputs.values()
    return rows if makers[rows].transforms[0].spec.urn == READ_URN else None
