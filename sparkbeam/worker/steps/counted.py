"""Metrics of a bundle: the counters and execution times of its operations.

For each operation, Beam reports the times of start, process and finish, and the element sizes, even
if they are zero. Here zeros are omitted, as they are most metrics of a small task: a metric is made
here, read by the tasks that read the report, and once more on the driver.
"""

from collections.abc import Iterator, Mapping

from apache_beam.metrics import monitoring_infos
from apache_beam.metrics.cells import DistributionData
from apache_beam.portability.api import beam_fn_api_pb2, metrics_pb2
from apache_beam.runners.worker import operations

from sparkbeam.upstream.beam import counter_of
from sparkbeam.wire.consolidation import Infos


def infos_of(
    made: Mapping[str, operations.Operation],
    descriptor: beam_fn_api_pb2.ProcessBundleDescriptor,
) -> Infos:
    """Return the metrics of the operations of a bundle, so far or at its end; from any thread.

    Of each operation there is the time in all, of each PCollection the number of elements.
    """
    infos: Infos = []
    for transform_id, operation in made.items():
        infos += _times(transform_id, operation)
        infos += _elements(dict(descriptor.transforms[transform_id].outputs), operation)
        infos += operation.user_monitoring_infos(transform_id).values()
    return infos


def _times(
    transform_id: str, operation: operations.Operation
) -> Iterator[metrics_pb2.MonitoringInfo]:
    total = 0
    for urn, state in (
        (monitoring_infos.START_BUNDLE_MSECS_URN, operation.scoped_start_state),
        (monitoring_infos.PROCESS_BUNDLE_MSECS_URN, operation.scoped_process_state),
        (monitoring_infos.FINISH_BUNDLE_MSECS_URN, operation.scoped_finish_state),
    ):
        millis = state.sampled_msecs_int()
        total += millis
        if millis:
            yield monitoring_infos.int64_counter(urn, millis, ptransform=transform_id)
    yield monitoring_infos.int64_counter(
        monitoring_infos.TOTAL_MSECS_URN, total, ptransform=transform_id
    )


def _elements(
    outputs: dict[str, str], operation: operations.Operation
) -> Iterator[metrics_pb2.MonitoringInfo]:
    if len(outputs) != 1 or len(operation.receivers) != 1:
        yield from operation.pcollection_count_monitoring_infos(outputs).values()
        return
    (pcollection,), counter = outputs.values(), counter_of(operation.receivers[0])
    yield monitoring_infos.int64_counter(
        monitoring_infos.ELEMENT_COUNT_URN,
        counter.element_counter.value(),
        pcollection=pcollection,
    )
    _, total, measured, least, most = counter.mean_byte_counter.value()
    if measured:
        yield monitoring_infos.int64_distribution(
            monitoring_infos.SAMPLED_BYTE_SIZE_URN,
            DistributionData(total, measured, least, most),
            pcollection=pcollection,
        )
