"""Timestamp policies of Beam's Kafka source."""

from dataclasses import dataclass

from sparkbeam_kafka.values import ARGUMENT, failing

TIME = "sparkbeam_time"
"""Name of the column with the timestamps."""

PROCESSING_TIME, CREATE_TIME, LOG_APPEND_TIME = "ProcessingTime", "CreateTime", "LogAppendTime"

TYPES = {CREATE_TIME: 0, LOG_APPEND_TIME: 1}
"""Kafka's number of the type of timestamp that a policy needs."""

_IDLE = 2_000_000


@dataclass(frozen=True)
class Policy:
    """Timestamps of records, and the watermark of idle partitions.

    Attributes:
        expression: the SQL expression of the timestamps; None for the clock of the micro-batch.
        idle: the time without records after which a partition is idle, in microseconds.
        lag: the lag with which an idle partition follows the clock, in microseconds.
    """

    expression: str | None = None
    idle: int | None = None
    lag: int | None = None


def policy(name: str, label: str, *, streaming: bool) -> Policy:
    """Return the policy of a name.

    Args:
        label: of the step, for its errors.
    """
    if name == PROCESSING_TIME:
        return Policy() if streaming else Policy("current_timestamp()")
    wrong = failing(label, wrong_type(name, ARGUMENT), "timestampType")
    expression = f"IF(timestampType = {TYPES[name]}, timestamp, {wrong})"
    # An append time is never older than the clock, but for what is still in Kafka's buffers.
    return Policy(expression, 0, _IDLE) if name == LOG_APPEND_TIME else Policy(expression, _IDLE, 0)


def wrong_type(name: str, found: str) -> str:
    """Return the error of a policy about a record whose timestamp has another type."""
    return (
        f"timestamp_policy={name} needs the topic setting message.timestamp.type={name}, but a "
        f"record has a timestamp of type {found}."
    )
