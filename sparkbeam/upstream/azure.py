"""What is assumed of the inside of the SDK of Event Hubs, ``azure-eventhub`` 5.15.

Its public client reads a partition in a thread that asks for more events as it likes, and opens a
connection for each question to the management node. What reads exactly the events that it was
told, and asks over one connection, has to know these names.
"""

import time
from collections.abc import Mapping
from typing import Any

_SECONDS = 30
_INT = 1 << 31
_HUB = b"com.microsoft:eventhub"
_PARTITION = b"com.microsoft:partition"


class Consumer:
    """The SDK's receiver of a partition, step by step.

    Args:
        client: the SDK's ``EventHubConsumerClient``.
        group: the consumer group.
        partition: its id.
        position: a sequence number, an offset or a time.
        inclusive: whether the event there is wanted.
        epoch: of the receiver; None for none.
    """

    def __init__(
        self,
        client: Any,
        group: str,
        partition: str,
        position: Any,
        *,
        inclusive: bool,
        epoch: int | None,
    ) -> None:
        self._consumer = client._create_consumer(
            group,
            partition,
            position,
            None,
            owner_level=epoch,
            prefetch=1,
            event_position_inclusive=inclusive,
        )
        # Its thread would listen on our connection, and hold up the end by a second.
        self._consumer._keep_alive = None

    def is_open(self) -> bool:
        """Goes a step on with the opening; whether it is at its end."""
        return bool(self._consumer._open())

    @property
    def credit(self) -> int:
        """How many events it has asked for that have not come."""
        return int(self._consumer._handler._link.current_link_credit)

    def ask(self, count: int) -> None:
        """Asks for so many events, in place of what it has asked for."""
        self._consumer._handler._link_credit = count
        self._consumer._handler._link.flow(link_credit=count)

    def work(self) -> None:
        """Takes half of what it has asked for; waits a fifth of a second where nothing comes."""
        handler = self._consumer._handler
        handler.do_work(batch=max(1, self.credit // 2))
        handler._link._received_delivery_tags.clear()  # It would remember all that there were.

    def messages(self) -> list[Any]:
        """The messages that have come, which it then forgets."""
        buffer = self._consumer._message_buffer
        found = list(buffer)
        buffer.clear()
        return found

    def close(self) -> None:
        """Ends it with its connection."""
        self._consumer.close()


class Management:
    """A kept connection to the management node.

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
        """The status, its description, and the properties of the hub or of a partition.

        Raises:
            TimeoutError: there is no answer.
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
        """Ends it."""
        self._open.close()


def as_property(value: Any) -> Any:
    """A property as the SDK encodes it, which takes each whole number for one of 32 bits."""
    if type(value) is int and not -_INT <= value < _INT:
        from azure.eventhub._pyamqp.types import TYPE, VALUE, AMQPTypes

        return {TYPE: AMQPTypes.long, VALUE: value}
    return value
