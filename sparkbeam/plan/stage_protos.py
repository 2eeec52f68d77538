"""Protos of a stage: its ends, its steps by name, and their statements on its input."""

from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.runners.portability.fn_api_runner import translations

from sparkbeam.plan.pardo_functions import par_do_payload
from sparkbeam.plan.row_formats import KeyedRows


def end(
    label: str,
    urn: str,
    inputs: dict[str, str] | None = None,
    outputs: dict[str, str] | None = None,
) -> beam_runner_api_pb2.PTransform:
    """Return a source or a sink of a stage."""
    return beam_runner_api_pb2.PTransform(
        unique_name=label,
        spec=beam_runner_api_pb2.FunctionSpec(urn=urn),
        inputs=inputs,
        outputs=outputs,
    )


def keyed_format(transforms: list[beam_runner_api_pb2.PTransform]) -> KeyedRows | None:
    """Return the format that a stateful stage reads, or None for a stateless one."""
    stateful = False
    for transform in transforms:
        if transform.spec.urn in translations.PAR_DO_URNS:
            payload = par_do_payload(transform.spec.payload)
            if payload.requires_time_sorted_input:
                return KeyedRows(by_time=True)
            stateful |= bool(payload.state_specs or payload.timer_family_specs)
    return KeyedRows() if stateful else None


def named(
    transforms: list[beam_runner_api_pb2.PTransform],
) -> dict[str, beam_runner_api_pb2.PTransform]:
    """Return transforms by the ids under which metrics are reported."""
    named = {}
    for transform in transforms:
        named[transform.unique_name] = beam_runner_api_pb2.PTransform()
        named[transform.unique_name].CopyFrom(transform)
    return named
