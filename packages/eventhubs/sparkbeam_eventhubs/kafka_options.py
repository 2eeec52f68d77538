"""Kafka endpoint of an event hub, as options of Spark's source and sink ``kafka``."""

from pyspark_eventhubs.positions import EventPosition
from pyspark_eventhubs.settings import ConnectionSettings
from pyspark_eventhubs.source_options import DEFAULT_GROUP
from sparkbeam.errors import ConfigurationError
from sparkbeam_eventhubs.connection import as_configuration_errors

_PORT, _EMULATOR_PORT = 9093, 9092
_LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule"

# The service closes what has been idle for four minutes, and takes up to a minute to answer.
_TIMES = {
    "kafka.request.timeout.ms": "60000",
    "kafka.connections.max.idle.ms": "180000",
    "kafka.metadata.max.age.ms": "180000",
}


def connected(connection: ConnectionSettings) -> dict[str, str]:
    """Return the connection options, with the resolved secret.

    Raises:
        ConfigurationError: the connection string is missing or malformed.
    """
    if connection.namespace is not None:
        raise ConfigurationError(
            "endpoint='kafka' supports connection strings only: give connection_string= "
            "instead of fully_qualified_namespace= and credential=, or use endpoint='amqp'."
        )
    with as_configuration_errors():
        endpoint = connection.endpoint()
        text = connection.connection_string()
    host = endpoint.host.partition(":")[0]
    quoted = text.strip().replace("\\", "\\\\").replace('"', '\\"')
    return {
        "kafka.bootstrap.servers": f"{host}:{_PORT if endpoint.tls else _EMULATOR_PORT}",
        "kafka.security.protocol": "SASL_SSL" if endpoint.tls else "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.jaas.config": (
            f'{_LOGIN} required username="$ConnectionString" password="{quoted}";'
        ),
        **_TIMES,
    }


def reading(
    connection: ConnectionSettings,
    group: str,
    start: EventPosition | None,
    end: EventPosition | None,
    most: int | None,
    *,
    fail_on_data_loss: bool,
) -> dict[str, str]:
    """Return the options of the source.

    Raises:
        ConfigurationError: the settings are not supported over Kafka.
    """
    found = {
        **connected(connection),
        "subscribe": connection.hub_name(),
        "includeHeaders": "true",
        "failOnDataLoss": str(fail_on_data_loss).lower(),
        **({} if start is None else _started(start)),
        **({} if end is None else _ended(end)),
    }
    if most:
        found["maxOffsetsPerTrigger"] = str(most)
    if group != DEFAULT_GROUP:
        found["kafka.group.id"] = group
    return found


def writing(connection: ConnectionSettings) -> dict[str, str]:
    """Return the options of the sink; raises like :func:`connected`."""
    return {**connected(connection), "topic": connection.hub_name()}


def _started(position: EventPosition) -> dict[str, str]:
    if position.kind == "enqueued":
        return {
            "startingTimestamp": str(position.value),
            "startingOffsetsByTimestampStrategy": "latest",
        }
    if position.kind not in _OFFSETS:
        raise _unknown("starting_position")
    return {"startingOffsets": _OFFSETS[position.kind]}


def _ended(position: EventPosition) -> dict[str, str]:
    if position.kind == "enqueued":
        return {"endingTimestamp": str(position.value)}
    if position.kind != "end":
        raise _unknown("ending_position")
    return {"endingOffsets": "latest"}


def _unknown(name: str) -> ConfigurationError:
    which = "start(), end()" if name == "starting_position" else "end()"
    return ConfigurationError(
        f"{name}=: endpoint='kafka' supports only EventPosition.{which} or enqueued(…), the "
        "same for all partitions: use one of these, or endpoint='amqp'."
    )


_OFFSETS = {"start": "earliest", "end": "latest"}
