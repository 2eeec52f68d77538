"""Assumptions about the internals of the Event Hubs SDK, ``azure-eventhub`` 5.15.

Its public client reads a partition in a thread that requests events at its own pace, and opens a
connection for each request to the management node. Reading an exact range of events, and reusing
one management connection, needs these private names.
"""

import time
from collections.abc import Mapping
from typing import Any

_SECONDS = 30
_INT = 1 << 31
_HUB = b"com.microsoft:eventhub"
_PARTITION = b"com.microsoft:partition"


class Consumer:
    """The SDK's receiver of a partition, driven step by step.

    Args:
        client: the SDK's ``EventHubConsumerClient``.
        group: the consumer group.
        partition: the partition id.
        position: a sequence number, an offset or a time; the event there is read too.
        epoch: the epoch of the receiver; None for none.
    """

    def __init__(
        self,
        client: Any,
        group: str,
        partition: str,
        position: Any,
        epoch: int | None,
    ) -> None:
        self._consumer = client._create_consumer(
            group,
            partition,
            position,
            None,
            owner_level=epoch,
            prefetch=1,
            event_position_inclusive=True,
        )
        # Its thread would listen on our connection, and hold up the end by a second.
        self._consumer._keep_alive = None

    def is_open(self) -> bool:
        """Advance the opening by one step; return whether it is complete."""
        return bool(self._consumer._open())

    @property
    def credit(self) -> int:
        """The number of requested events that have not arrived."""
        return int(self._consumer._handler._link.current_link_credit)

    def ask(self, count: int) -> None:
        """Set the number of requested events."""
        self._consumer._handler._link_credit = count
        self._consumer._handler._link.flow(link_credit=count)

    def work(self) -> None:
        """Receive up to half of the requested events; wait a fifth of a second if none arrive."""
        handler = self._consumer._handler
        handler.do_work(batch=max(1, self.credit // 2))
        handler._link._received_delivery_tags.clear()  # Otherwise it keeps all tags forever.

    def messages(self) -> list[Any]:
        """Return the messages that have arrived, and drop them here."""
        buffer = self._consumer._message_buffer
        found = list(buffer)
        buffer.clear()
        return found

    def close(self) -> None:
        """Close the receiver with its connection."""
        self._consumer.close()


class Management:
    """A persistent connection to the management node.

    Args:
        client: any client of the SDK.
    """

    def __init__(self, client: Any) -> None:
        self._client = client
        self._transport = client._amqp_transport
        self._auth = client._create_auth()
        self._open = self._transport.create_mgmt_client(
            client._address, mgmt_auth=self._auth, config=client._config
        )
        self._open.open()

    def ask(self, partition: str | None = None) -> tuple[int, str, Mapping[bytes, Any]]:
        """Return the status, its description, and the properties of the hub or of a partition.

        Raises:
            TimeoutError: there is no response.
        """
        deadline = time.monotonic() + _SECONDS
        while not self._open.client_ready():
            if time.monotonic() > deadline:
                raise TimeoutError(f"no connection was made in {_SECONDS} s")
        named = {"name": self._client.eventhub_name}
        if partition is not None:
            named["partition"] = partition
        message = self._transport.build_message(application_properties=named)
        token = self._transport.get_updated_token(self._auth)
        message.application_properties["security_token"] = token
        status, description, response = self._transport.mgmt_client_request(
            self._open,
            message,
            operation=b"READ",
            operation_type=_HUB if partition is None else _PARTITION,
            status_code_field=b"status-code",
            description_fields=b"status-description",
            timeout=_SECONDS,
        )
        said = description.decode() if isinstance(description, bytes) else str(description)
        return int(status), said, response.value or {}

    def close(self) -> None:
        """Close the connection."""
        self._open.close()


def as_property(value: Any) -> Any:
    """Encode a property like the SDK, for which every int has 32 bits."""
    if type(value) is int and not -_INT <= value < _INT:
        from azure.eventhub._pyamqp.types import TYPE, VALUE, AMQPTypes

        return {TYPE: AMQPTypes.long, VALUE: value}
    return value
