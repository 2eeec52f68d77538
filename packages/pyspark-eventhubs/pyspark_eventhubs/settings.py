"""Connection settings of an event hub, including secrets."""

import base64
import os
import pickle
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark import cloudpickle

from pyspark_eventhubs.checks import one_of, shown

CLIENTS = ("sdk", "slim")
"""Names that programs may give to the client, of which there is one."""

# Spark and sparkbeam show nothing of an option with such a name.
TEXT, FUNCTION, CREDENTIAL = (
    "secretConnectionString",
    "secretConnectionFunction",
    "secretCredential",
)
ENVIRONMENT = "env:"
REMEDY = (
    "use the one in the portal, 'Endpoint=sb://…;SharedAccessKeyName=…;SharedAccessKey=…', "
    "or 'env:NAME' for one in an environment variable"
)


@dataclass(frozen=True)
class Endpoint:
    """The contents of a connection string.

    Attributes:
        host: of the namespace, with a port other than 5671.
        hub: the event hub; None if not given.
        key_name: the name of the shared access key.
        key: the shared access key.
        signature: a shared access signature, in place of a key.
        tls: whether connections are encrypted; all are except those to an emulator.
        credential: of ``azure-identity``, in place of a key and a signature.
    """

    host: str
    hub: str | None = None
    key_name: str | None = None
    key: str | None = field(default=None, repr=False)
    signature: str | None = field(default=None, repr=False)
    tls: bool = True
    credential: Any = field(default=None, repr=False, compare=False)

    @classmethod
    def parse(cls, given: str) -> "Endpoint":
        """Parse a connection string; raise ValueError if it is malformed."""
        pairs = [part.partition("=") for part in given.strip().split(";") if part]
        fields = {name.strip().lower(): value.strip() for name, _, value in pairs}
        host = re.sub(r"^\w+://", "", fields.get("endpoint", "")).strip("/")
        signed = "sharedaccesssignature" in fields
        if not host or not (signed or {"sharedaccesskeyname", "sharedaccesskey"} <= fields.keys()):
            raise ValueError(
                f"connection_string=… is not an Event Hubs connection string: {REMEDY}."
            )
        return cls(
            host,
            fields.get("entitypath") or None,
            fields.get("sharedaccesskeyname"),
            fields.get("sharedaccesskey"),
            fields.get("sharedaccesssignature"),
            fields.get("usedevelopmentemulator", "").lower() != "true",
        )


@dataclass(frozen=True)
class ConnectionSettings:
    """The settings of a connection to an event hub; hashable, to identify open clients.

    The secret is resolved in each process that connects, on the driver and in workers.

    Attributes:
        text: the connection string, or ``env:NAME``; None if given otherwise.
        function: a pickled function that returns the connection string; None if given otherwise.
        namespace: the host of the namespace, if a credential is used.
        credential: the pickled credential, or a function that returns one.
        hub: the event hub; None for the one in the connection string.
    """

    text: str | None = field(default=None, repr=False)
    function: str | None = field(default=None, repr=False)
    namespace: str | None = None
    credential: str | None = field(default=None, repr=False)
    hub: str | None = None

    @classmethod
    def of_options(cls, options: Mapping[str, str]) -> "ConnectionSettings":
        """Return the connection given by data source options, by name in lower case.

        Raises:
            ValueError: the options are incomplete or malformed.
        """
        one_of("client", options.get("client", "sdk"), CLIENTS)
        found = cls(
            options.get(TEXT.lower(), options.get("connectionstring")),
            options.get(FUNCTION.lower()),
            options.get("namespace"),
            options.get(CREDENTIAL.lower()),
            options.get("eventhub"),
        )
        if (found.namespace is None) != (found.credential is None):
            raise ValueError(
                "The option 'namespace' requires a credential, which options cannot hold: use "
                "connectionString, or ReadFromEventHubs(fully_qualified_namespace=, credential=)."
            )
        if found.text is None and found.function is None and found.credential is None:
            raise ValueError(f"The option 'connectionString' is missing: {REMEDY}.")
        return found

    def options(self) -> dict[str, str]:
        """Return the connection as options of the data source."""
        found = {
            TEXT: self.text,
            FUNCTION: self.function,
            "namespace": self.namespace,
            CREDENTIAL: self.credential,
            "eventHub": self.hub,
        }
        return {name: value for name, value in found.items() if value is not None}

    def endpoint(self) -> Endpoint:
        """Return the contents of the connection string, or the namespace with its credential.

        Raises:
            ValueError: the environment variable is missing, or the string is malformed.
        """
        if self.namespace is not None:
            return Endpoint(self.namespace, self.hub, credential=self._credential())
        found = self.connection_string()
        endpoint = Endpoint.parse(found)
        return replace(endpoint, hub=self.hub_of(endpoint))

    def hub_of(self, endpoint: Endpoint) -> str:
        """Return the name of the event hub.

        Raises:
            ValueError: it is not given.
        """
        hub = self.hub or endpoint.hub
        if hub is None:
            raise ValueError("event_hub= is missing, and the connection string has no EntityPath.")
        return hub

    def hub_name(self) -> str:
        """Return the name of the event hub; raises like :meth:`endpoint` and :meth:`hub_of`."""
        return self.hub or self.hub_of(self.endpoint())

    def connection_string(self) -> str:
        """Return the connection string; there must be no credential.

        Raises:
            ValueError: the environment variable is missing, or the function fails.
        """
        if self.function is not None:
            found = unpacked(self.function)()
            if not isinstance(found, str):
                kind = type(found).__name__
                raise ValueError(f"connection_string()={kind} must be a string: {REMEDY}.")
            return found
        assert self.text is not None
        if not self.text.startswith(ENVIRONMENT):
            return self.text
        name = self.text.removeprefix(ENVIRONMENT)
        if name not in os.environ:
            raise ValueError(
                f"connection_string='env:{shown(name)[1:-1]}': the environment variable is not "
                "set in this process. Set it on the driver and on the executors."
            )
        return os.environ[name]

    def _credential(self) -> Any:
        assert self.credential is not None
        found = unpacked(self.credential)
        return found() if callable(found) and not hasattr(found, "get_token") else found


_MAKING = (
    "pass a function that creates it in the connecting process, such as "
    "lambda: DefaultAzureCredential()"
)


def packed(name: str, value: Any, remedy: str = _MAKING) -> str:
    """Pickle a function or an object as text; raise ValueError if impossible."""
    try:
        return base64.b64encode(cloudpickle.dumps(value)).decode()
    except Exception as error:
        raise ValueError(f"{name}=<{type(value).__name__}> cannot be pickled: {remedy}.") from error


def unpacked(text: str) -> Any:
    """Unpickle the result of :func:`packed`."""
    return pickle.loads(base64.b64decode(text))
