"""A Pub/Sub on loopback, which Google's client takes for the emulator: topics in memory."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from threading import Lock
from typing import Any

import grpc
from google import pubsub_v1 as api
from google.protobuf import empty_pb2


class Store:
    """Topics and subscriptions of a server.

    Attributes:
        wait: seconds for which a pull waits for messages.
        published: all messages, by topic.
        waiting: deliveries of messages that are not acknowledged, by subscription.
        to_come: messages that are published once there is a subscription, by topic.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self.clear()

    def clear(self) -> None:
        """Forget all."""
        self.wait = 0.2
        self.to_come: dict[str, list[Any]] = {}
        self.published: dict[str, list[Any]] = {}
        self.waiting: dict[str, dict[str, Any]] = {}
        self._topics: dict[str, str] = {}
        self._out: set[str] = set()

    def subscribe(self, topic: str, subscription: str) -> None:
        """Add a subscription."""
        self._topics[subscription] = topic
        self.waiting[subscription] = {}

    def time_out(self) -> None:
        """Deliver again what has not been acknowledged."""
        self._out.clear()

    def publish(self, request: Any, context: Any = None) -> Any:
        """Answer a ``Publish``."""
        with self._lock:
            log = self.published.setdefault(request.topic, [])
            ids = []
            for message in request.messages:
                message.message_id = str(len(log))
                message.publish_time = message.publish_time or datetime.now(UTC)
                log.append(message)
                ids.append(message.message_id)
                for subscription, topic in self._topics.items():
                    if topic == request.topic:
                        self.waiting[subscription][f"{topic}#{message.message_id}"] = message
            return api.PublishResponse(message_ids=ids)

    def create(self, request: Any, context: Any) -> Any:
        """Answer a ``CreateSubscription``."""
        self.subscribe(request.topic, request.name)
        messages = self.to_come.pop(request.topic, [])
        self.publish(api.PublishRequest(topic=request.topic, messages=messages))
        return request

    def pull(self, request: Any, context: Any) -> Any:
        """Answer a ``Pull``."""
        if request.subscription not in self.waiting:
            context.abort(grpc.StatusCode.NOT_FOUND, "Resource not found")
        with self._lock:
            waiting = self.waiting[request.subscription]
            chosen = [key for key in waiting if key not in self._out][: request.max_messages]
            self._out.update(chosen)
            received = [{"ack_id": key, "message": waiting[key]} for key in chosen]
        if not received:
            time.sleep(self.wait)
        return api.PullResponse(received_messages=received)

    def acknowledge(self, request: Any, context: Any) -> Any:
        """Answer an ``Acknowledge``."""
        with self._lock:
            for key in request.ack_ids:
                self.waiting[request.subscription].pop(key, None)
        return empty_pb2.Empty()


@contextmanager
def serving() -> Iterator[tuple[str, Store]]:
    """Serve Pub/Sub; yields the address, for ``PUBSUB_EMULATOR_HOST``, and what it has."""
    store = Store()
    server = grpc.server(ThreadPoolExecutor(8))
    services: dict[str, dict[str, Any]] = {
        "Publisher": {"Publish": (store.publish, api.PublishRequest, api.PublishResponse)},
        "Subscriber": {
            "CreateSubscription": (store.create, api.Subscription, api.Subscription),
            "Pull": (store.pull, api.PullRequest, api.PullResponse),
            "Acknowledge": (store.acknowledge, api.AcknowledgeRequest, empty_pb2.Empty),
        },
    }
    for service, methods in services.items():
        handlers = {name: _handler(*method) for name, method in methods.items()}
        server.add_generic_rpc_handlers(
            [grpc.method_handlers_generic_handler(f"google.pubsub.v1.{service}", handlers)]
        )
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"127.0.0.1:{port}", store
    server.stop(None)


def _handler(answer: Callable[[Any, Any], Any], request: Any, response: Any) -> Any:
    serialize = getattr(response, "serialize", None) or response.SerializeToString
    return grpc.unary_unary_rpc_method_handler(
        answer, request_deserializer=request.deserialize, response_serializer=serialize
    )
