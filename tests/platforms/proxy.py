"""A server of Spark Connect's protocol that hands on what a policy lets pass."""

import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Self

import grpc
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from policies import Policy
from pyspark.sql.connect.proto import base_pb2
from refusals import Refused
from requests_of_spark import opened, parts

SERVICE = base_pb2.DESCRIPTOR.services_by_name["SparkConnectService"]
UNLIMITED = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]
PATIENT = [("grpc.http2.max_ping_strikes", 0), ("grpc.keepalive_permit_without_calls", 1)]
"""Clients ask now and then whether the connection lives."""
CALLS = 64
"""Calls at a time; those of streaming queries and their listeners take long."""


class Proxy:
    """Serves as long as the context lasts.

    A server of Spark 3.5 does not tell its own ids of sessions, so that nothing is told of these.

    Args:
        server: address of the server behind it.
        policies: policies by the user id of the requests that they are for; others pass.
        on_session: called with the id of each new session in the server, and its policy.

    Attributes:
        port: its port on loopback.
        calls: numbers of calls by the names of their methods.
    """

    def __init__(
        self,
        server: str,
        policies: Mapping[str, Policy],
        on_session: Callable[[str, Policy], None] = lambda *_: None,
    ) -> None:
        self.calls: Counter[str] = Counter()
        self._policies = policies
        self._on_session = on_session
        self._sessions: set[str] = set()
        self._errors: dict[str, Refused] = {}
        self._channel = grpc.insecure_channel(server, UNLIMITED)
        self._server = grpc.server(ThreadPoolExecutor(CALLS), options=UNLIMITED + PATIENT)
        handlers = {method.name: self._handler(method) for method in SERVICE.methods}
        service = grpc.method_handlers_generic_handler(SERVICE.full_name, handlers)
        self._server.add_generic_rpc_handlers([service])
        self.port: int = self._server.add_insecure_port("127.0.0.1:0")

    def url(self, user: str) -> str:
        """The URL for sessions under the policy of a user."""
        return f"sc://127.0.0.1:{self.port}/;user_id={user}"

    def __enter__(self) -> Self:
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stop(None)
        self._channel.close()

    def _handler(self, method: MethodDescriptor) -> grpc.RpcMethodHandler:
        """Serve a method of the protocol, whichever version it is of."""
        kind = f"{_number(method.client_streaming)}_{_number(method.server_streaming)}"
        call = getattr(self._channel, kind)(
            f"/{SERVICE.full_name}/{method.name}",
            request_serializer=_serialized,
            response_deserializer=GetMessageClass(method.output_type).FromString,
        )
        serve = {
            "unary_unary": self._unary,
            "unary_stream": self._stream,
            "stream_unary": self._upload,
        }[kind]

        def behaviour(request: Any, context: grpc.ServicerContext) -> Any:
            return serve(method.name, call, request, context)

        return getattr(grpc, f"{kind}_rpc_method_handler")(
            behaviour,
            request_deserializer=GetMessageClass(method.input_type).FromString,
            response_serializer=_serialized,
        )

    def _unary(self, name: str, call: Any, request: Any, context: grpc.ServicerContext) -> Any:
        if name == "FetchErrorDetails" and request.error_id in self._errors:
            return self._errors[request.error_id].details()
        with self._told(context):
            policy, warnings = self._checked(name, request)
            response = call(request, **_call_of(context))
            if warnings:
                response.warnings.extend(warnings)
            policy.answer(request, response)
            return response

    def _stream(
        self, name: str, call: Any, request: Any, context: grpc.ServicerContext
    ) -> Iterator[Any]:
        with self._told(context):
            self._checked(name, request)
            responses = call(request, **_call_of(context))
            context.add_callback(responses.cancel)
            yield from responses

    def _upload(self, name: str, call: Any, requests: Any, context: grpc.ServicerContext) -> Any:
        with self._told(context):
            found = list(requests)
            for request in found:
                self._checked(name, request)
            return call(iter(found), **_call_of(context))

    def _checked(self, name: str, request: Any) -> tuple[Policy, list[str]]:
        """Return the policy for a request that it lets pass, and warnings."""
        policy = self._policies.get(request.user_context.user_id, Policy())
        for part in parts(request):
            if isinstance(part, base_pb2.Plan):
                opened(part)
        self.calls[name] += 1
        warnings = policy.check(request)
        if name in _OPENING and request.session_id not in self._sessions:
            self._open(request, policy)
        return policy, warnings

    def _open(self, request: Any, policy: Policy) -> None:
        """Tell of a session that may be new, before a worker starts for it."""
        call = self._channel.unary_unary(
            f"/{SERVICE.full_name}/Config",
            request_serializer=_serialized,
            response_deserializer=base_pb2.ConfigResponse.FromString,
        )
        known = base_pb2.ConfigRequest.GetOption(keys=["spark.sql.shuffle.partitions"])
        asked = base_pb2.ConfigRequest(
            session_id=request.session_id,
            user_context=request.user_context,
            operation=base_pb2.ConfigRequest.Operation(get_option=known),
        )
        answer = call(asked)
        if "server_side_session_id" in answer.DESCRIPTOR.fields_by_name:
            self._on_session(answer.server_side_session_id, policy)
        self._sessions.add(request.session_id)

    @contextmanager
    def _told(self, context: grpc.ServicerContext) -> Iterator[None]:
        """Hand refusals, and errors of the server, on to the client."""
        try:
            yield
        except Refused as refused:
            error_id = str(uuid.uuid4())
            self._errors[error_id] = refused
            context.abort_with_status(refused.status(error_id))
        except grpc.RpcError as error:
            context.set_trailing_metadata(error.trailing_metadata() or ())
            context.abort(error.code(), error.details())


_OPENING = ("AddArtifacts", "AnalyzePlan", "Config", "ExecutePlan")
"""Requests that make a session in the server if there is none."""


def _number(is_stream: bool) -> str:
    return "stream" if is_stream else "unary"


def _serialized(message: Message) -> bytes:
    return message.SerializeToString()


def _call_of(context: grpc.ServicerContext) -> dict[str, Any]:
    """Deadline and metadata of a call, for the one to the server."""
    metadata = [
        (key, value)
        for key, value in context.invocation_metadata()
        if key != "user-agent" and not key.startswith("grpc-")
    ]
    left = context.time_remaining()
    is_limited = left is not None and left < _ENDLESS
    return {"metadata": metadata, "timeout": left if is_limited else None}


_ENDLESS = 1e9
"""Seconds; a call without a deadline has some 1e18 left, which gRPC cannot add to its clock."""
