"""How a process reaches an event hub, and the secrets that it needs for that."""

import base64
import os
import pickle
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import cloudpickle

from sparkbeam.common.arguments import one_of, shown, text
from sparkbeam.errors import ConfigurationError

CLIENTS = ("sdk", "slim")

# Spark and sparkbeam show nothing of an option with such a name.
TEXT, FUNCTION, CREDENTIAL = (
    "secretConnectionString",
    "secretConnectionFunction",
    "secretCredential",
)
_ENVIRONMENT = "env:"
_REMEDY = (
    "give that of the portal, 'Endpoint=sb://…;SharedAccessKeyName=…;SharedAccessKey=…', "
    "or 'env:NAME' for that of an environment variable"
)


@dataclass(frozen=True)
class Endpoint:
    """What a connection string says.

    Attributes:
        host: of the namespace, with a port if it has another than 5671.
        hub: the event hub; None if it names none.
        key_name: of the shared access key.
        key: the shared access key.
        signature: a shared access signature, in place of a key.
        tls: whether connections are encrypted; all are but those to an emulator.
    """

    host: str
    hub: str | None = None
    key_name: str | None = None
    key: str | None = field(default=None, repr=False)
    signature: str | None = field(default=None, repr=False)
    tls: bool = True

    @classmethod
    def parse(cls, given: str) -> "Endpoint":
        """Raises :class:`ConfigurationError` if that is no connection string."""
        pairs = [part.partition("=") for part in given.strip().split(";") if part]
        fields = {name.strip().lower(): value.strip() for name, _, value in pairs}
        host = re.sub(r"^\w+://", "", fields.get("endpoint", "")).strip("/")
        signed = "sharedaccesssignature" in fields
        if not host or not (signed or {"sharedaccesskeyname", "sharedaccesskey"} <= fields.keys()):
            raise ConfigurationError(f"connection_string=… is none of Event Hubs: {_REMEDY}.")
        return cls(
            host,
            fields.get("entitypath") or None,
            fields.get("sharedaccesskeyname"),
            fields.get("sharedaccesskey"),
            fields.get("sharedaccesssignature"),
            fields.get("usedevelopmentemulator", "").lower() != "true",
        )


@dataclass(frozen=True)
class Connection:
    """Which event hub a process is to reach, and how; hashable, so that what is open is found.

    The secret is resolved in each process that connects, on the driver and in workers.

    Attributes:
        text: the connection string, or ``env:NAME``; None where something else tells.
        function: gives the connection string, pickled; None likewise.
        namespace: the host of the namespace, where a credential is used.
        credential: the credential, or a function that gives one, pickled.
        hub: the event hub; None for the one that the connection string names.
        client: ``sdk`` or ``slim``.
    """

    text: str | None = field(default=None, repr=False)
    function: str | None = field(default=None, repr=False)
    namespace: str | None = None
    credential: str | None = field(default=None, repr=False)
    hub: str | None = None
    client: str = "sdk"

    @classmethod
    def given(
        cls,
        connection_string: str | Callable[[], str] | None,
        event_hub: str | None,
        namespace: str | None,
        credential: Any,
        client: str,
    ) -> "Connection":
        """What the arguments of a transform tell.

        Raises:
            ConfigurationError: they tell too little, too much, or nonsense.
        """
        one_of("client", client, CLIENTS)
        if event_hub is not None:
            text("event_hub", event_hub, "use the name of an event hub")
        if (connection_string is None) == (namespace is None):
            raise ConfigurationError(
                "Give either connection_string=, or fully_qualified_namespace= with credential=."
            )
        if namespace is not None:
            return cls._of_namespace(namespace, credential, event_hub, client)
        if credential is not None:
            raise ConfigurationError("credential= goes with fully_qualified_namespace= alone.")
        if callable(connection_string):
            function = packed("connection_string", connection_string)
            return cls(function=function, hub=event_hub, client=client)
        found = text("connection_string", connection_string, _REMEDY, secret=True)
        connection = cls(text=found, hub=event_hub, client=client)
        if not found.startswith(_ENVIRONMENT):
            connection.hub_of(Endpoint.parse(found))
        return connection

    @classmethod
    def _of_namespace(
        cls, namespace: str, credential: Any, hub: str | None, client: str
    ) -> "Connection":
        text(
            "fully_qualified_namespace", namespace, "use a name such as 'my.servicebus.windows.net'"
        )
        if credential is None or hub is None:
            raise ConfigurationError(
                "fully_qualified_namespace= needs credential= and event_hub= too."
            )
        if client != "sdk":
            raise ConfigurationError(
                f"client='{client}' takes a connection string alone: use client='sdk' with "
                "fully_qualified_namespace=."
            )
        pickled = packed("credential", credential)
        return cls(namespace=namespace, credential=pickled, hub=hub, client=client)

    @classmethod
    def of_options(cls, options: Mapping[str, str]) -> "Connection":
        """What the options of the data source tell, by their names in lower case.

        Raises:
            ConfigurationError: they tell too little, or nonsense.
        """
        client = one_of("client", options.get("client", "sdk"), CLIENTS)
        found = cls(
            options.get(TEXT.lower(), options.get("connectionstring")),
            options.get(FUNCTION.lower()),
            options.get("namespace"),
            options.get(CREDENTIAL.lower()),
            options.get("eventhub"),
            client,
        )
        if found.text is None and found.function is None and found.credential is None:
            raise ConfigurationError(f"The option 'connectionString' is missing: {_REMEDY}.")
        return found

    def options(self) -> dict[str, str]:
        """As options of the data source."""
        found = {
            TEXT: self.text,
            FUNCTION: self.function,
            "namespace": self.namespace,
            CREDENTIAL: self.credential,
            "eventHub": self.hub,
            "client": self.client,
        }
        return {name: value for name, value in found.items() if value is not None}

    def endpoint(self) -> Endpoint:
        """What the connection string says; the host alone where there is a credential.

        Raises:
            ConfigurationError: there is no such variable, or it is no connection string.
        """
        if self.namespace is not None:
            return Endpoint(self.namespace, self.hub)
        found = self.connection_string()
        endpoint = Endpoint.parse(found)
        return replace(endpoint, hub=self.hub_of(endpoint))

    def hub_of(self, endpoint: Endpoint) -> str:
        """The name of the event hub.

        Raises:
            ConfigurationError: nobody tells it.
        """
        hub = self.hub or endpoint.hub
        if hub is None:
            raise ConfigurationError(
                "event_hub= is missing, and the connection string has no EntityPath."
            )
        return hub

    def connection_string(self) -> str:
        """The connection string, of one who is not given a credential.

        Raises:
            ConfigurationError: there is no such variable, or the function gives none.
        """
        if self.function is not None:
            return text("connection_string()", unpacked(self.function)(), _REMEDY, secret=True)
        assert self.text is not None
        if not self.text.startswith(_ENVIRONMENT):
            return self.text
        name = self.text.removeprefix(_ENVIRONMENT)
        if name not in os.environ:
            raise ConfigurationError(
                f"connection_string='env:{shown(name)[1:-1]}': this process, on the driver or on "
                "an executor, has no such environment variable."
            )
        return os.environ[name]

    def azure_credential(self) -> Any:
        """The credential to use with a namespace."""
        assert self.credential is not None
        found = unpacked(self.credential)
        return found() if callable(found) and not hasattr(found, "get_token") else found


_MAKING = (
    "give a function that makes it in the process that connects, such as "
    "lambda: DefaultAzureCredential()"
)


def packed(name: str, value: Any, remedy: str = _MAKING) -> str:
    """A function or an object as a text; raises :class:`ConfigurationError` if it cannot be."""
    try:
        return base64.b64encode(cloudpickle.dumps(value)).decode()
    except Exception as error:
        raise ConfigurationError(
            f"{name}=<{type(value).__name__}> cannot be pickled: {remedy}."
        ) from error


def unpacked(text: str) -> Any:
    """The inverse of :func:`packed`."""
    return pickle.loads(base64.b64decode(text))
