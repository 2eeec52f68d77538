"""Connections given by the arguments of transforms."""

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pyspark_eventhubs.settings import CLIENTS, ENVIRONMENT, REMEDY, ConnectionSettings, Endpoint
from pyspark_eventhubs.settings import packed as pickled
from sparkbeam.common.arguments import one_of, text
from sparkbeam.errors import ConfigurationError


@contextmanager
def as_configuration_errors() -> Iterator[None]:
    """Raise the errors of :mod:`pyspark_eventhubs` about arguments as those of sparkbeam."""
    try:
        yield
    except ValueError as error:
        raise ConfigurationError(str(error)) from error.__cause__


def packed(name: str, value: Any, *remedy: str) -> str:
    """Pickle a function or an object as text; raise a ConfigurationError if impossible."""
    with as_configuration_errors():
        return pickled(name, value, *remedy)


def connection_of(
    connection_string: str | Callable[[], str] | None,
    event_hub: str | None,
    namespace: str | None,
    credential: Any,
    client: str | None = None,
) -> ConnectionSettings:
    """Return the connection given by the arguments of a transform.

    Raises:
        ConfigurationError: the arguments are incomplete, contradictory or malformed.
    """
    if client is not None:
        one_of("client", client, CLIENTS)
    if event_hub is not None:
        text("event_hub", event_hub, "use the name of an event hub")
    if (connection_string is None) == (namespace is None):
        raise ConfigurationError(
            "Give either connection_string=, or fully_qualified_namespace= with credential=."
        )
    if namespace is not None:
        return _of_namespace(namespace, credential, event_hub)
    if credential is not None:
        raise ConfigurationError("credential= requires fully_qualified_namespace=.")
    if callable(connection_string):
        function = packed("connection_string", connection_string)
        return ConnectionSettings(function=function, hub=event_hub)
    found = text("connection_string", connection_string, REMEDY, secret=True)
    connection = ConnectionSettings(text=found, hub=event_hub)
    if not found.startswith(ENVIRONMENT):
        with as_configuration_errors():
            connection.hub_of(Endpoint.parse(found))
    return connection


def _of_namespace(namespace: str, credential: Any, hub: str | None) -> ConnectionSettings:
    remedy = "use a name such as 'my.servicebus.windows.net'"
    text("fully_qualified_namespace", namespace, remedy)
    if credential is None or hub is None:
        raise ConfigurationError("fully_qualified_namespace= requires credential= and event_hub=.")
    get_token = getattr(credential, "get_token", None)
    if inspect.iscoroutinefunction(get_token) or not callable(get_token or credential):
        raise ConfigurationError(
            f"credential=<{type(credential).__name__}> does not provide tokens: use a "
            "credential of azure.identity, or a connection string for a key or a signature."
        )
    return ConnectionSettings(
        namespace=namespace, credential=packed("credential", credential), hub=hub
    )
