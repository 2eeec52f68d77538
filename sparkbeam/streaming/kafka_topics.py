"""Topics that are no longer what they were when the checkpoint of a query was written.

Spark goes on at the offsets of the checkpoint. In a topic that was deleted and created again they
mean other records, and those before them would be skipped.
"""

import json
import logging
from collections import defaultdict
from collections.abc import Mapping

from sparkbeam.common.untrusted_json import loaded
from sparkbeam.errors import ConfigurationError, PipelineFailed
from sparkbeam.kafka.client import Client, KafkaError, Partition
from sparkbeam.plan.redaction import Redaction
from sparkbeam.plan.spark_io import PARTITION_SEPARATOR, ReadSpec
from sparkbeam.streaming.checkpoint_files import Files
from sparkbeam.streaming.feedback import FeedbackFiles

_LOG = logging.getLogger(__name__)
_ANEW = "Start with another --checkpoint_location, to read the topic as a new pipeline does."


def by_partition(offsets: Mapping[str, int]) -> dict[Partition, int]:
    """Return offsets by topic and number of the partition."""
    parts = {name.rpartition(PARTITION_SEPARATOR): offset for name, offset in offsets.items()}
    return {(topic, int(number)): offset for (topic, _, number), offset in parts.items()}


def check_topics(spec: ReadSpec, label: str, source: int, kept: Files) -> None:
    """Compare the topics of a read with the checkpoint that it continues.

    Nothing is compared without the package of the client or a counterpart of the configuration, or
    if Kafka does not answer within some seconds.

    Args:
        spec: of the read.
        label: of the transform that reads.
        source: its number among Spark's sources, from 0.
        kept: the files under the checkpoint.

    Raises:
        PipelineFailed: a topic was created again, or records that were not read yet are gone.
    """
    feedback = FeedbackFiles(kept)
    offsets = by_partition(feedback.partition_offsets(feedback.last_written(), source))
    topics = {topic for topic, _ in offsets} or {
        *filter(None, dict(spec.options).get("subscribe", "").split(","))
    }
    try:
        with Client(spec.kafka_settings) as client:
            ids = client.topic_ids(topics)
            bounds = {partition: client.bounds(partition) for partition in offsets}
    except (ConfigurationError, KafkaError) as error:
        _LOG.debug("%s", Redaction(spec.options)(str(error)))
        return
    name = f"kafka/{source}.json"
    before = loaded(kept.read(name) or b"{}") if offsets else {}
    for topic in sorted(topics & before.keys()):
        if before[topic] != ids.get(topic):
            at = defaultdict(int, offsets)[topic, 0]
            raise _failure(
                label,
                f"topic '{topic}' was deleted and created again after the checkpoint was written, "
                f"which continues at offset {at} of partition 0: the records before it would be "
                f"skipped. {_ANEW}",
            )
    for partition, offset in sorted(offsets.items()):
        _check_bounds(spec, label, partition, offset, bounds[partition])
    kept.write(name, json.dumps(ids).encode())


def _check_bounds(
    spec: ReadSpec, label: str, partition: Partition, offset: int, bounds: tuple[int, int]
) -> None:
    first, end = bounds
    if end < offset:
        raise shrunk(label, partition, offset, end)
    if offset >= first:
        return
    topic, number = partition
    gone = (
        f"the records of partition {number} of topic '{topic}' from offset {offset}, at which the "
        f"checkpoint continues, to {first - 1} have expired"
    )
    if dict(spec.options).get("failOnDataLoss", "true").lower() == "false":
        _LOG.warning("Step '%s': %s. It goes on with offset %d.", label, gone, first)
        return
    remedy = "auto.offset.reset=earliest in consumer_config (with ReadFromSpark failOnDataLoss="
    raise _failure(
        label,
        f"{gone}. Give {remedy}false) to go on with offset {first}, or start with another "
        "--checkpoint_location; a longer retention.ms of the topic keeps records for longer.",
    )


def shrunk(label: str, partition: Partition, before: int, now: int) -> PipelineFailed:
    """Return the error for a partition whose end is before an offset of the checkpoint."""
    topic, number = partition
    return _failure(
        label,
        f"partition {number} of topic '{topic}' ends at offset {now}, before offset {before} of "
        "the checkpoint: the topic was deleted and created again, or has lost records, and what it "
        f"has now would be skipped. {_ANEW}",
    )


def _failure(label: str, problem: str) -> PipelineFailed:
    return PipelineFailed(f"Step '{label}' failed: {problem}", label)
