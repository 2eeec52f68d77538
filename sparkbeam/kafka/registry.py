"""Client of Confluent's schema registry, over HTTP."""

import base64
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from sparkbeam.common.arguments import shown
from sparkbeam.common.untrusted_json import loaded
from sparkbeam.errors import ConfigurationError

_SECONDS = 30
_MOST_BYTES = 1 << 24
_ACCEPT = "application/vnd.schemaregistry.v1+json"
_MAGIC, _HEADER = 0, 5
_LOGINS = ("basic.auth.user.info", "schema.registry.basic.auth.user.info")

SETTINGS = frozenset([*_LOGINS, "basic.auth.credentials.source"])
"""Settings of a consumer that are for the registry alone."""


class RegistryError(Exception):
    """The registry does not answer, or refuses."""


@dataclass(frozen=True)
class Registry:
    """A schema registry.

    Attributes:
        url: its address, without an account.
        login: name and password with a colon between them; None without a login.
    """

    url: str
    login: str | None = field(default=None, repr=False)

    def latest(self, subject: str) -> dict[str, Any]:
        """Return the latest Avro schema of a subject.

        Raises:
            RegistryError: there is none, or the registry does not answer.
        """
        name = urllib.parse.quote(subject, safe="")
        return self._schema(f"subjects/{name}/versions/latest", f"subject {shown(subject)}")

    def schema(self, number: int) -> dict[str, Any]:
        """Return the Avro schema with an id, which is asked for once in a process.

        Raises:
            RegistryError: there is none, or the registry does not answer.
        """
        return _schema(self, number)

    def _schema(self, path: str, what: str) -> dict[str, Any]:
        answer = self._asked(path, what)
        kind = answer.get("schemaType", "AVRO")
        if kind != "AVRO" or answer.get("references"):
            found = f"of type {shown(kind)}" if kind != "AVRO" else "with references to others"
            raise RegistryError(f"The {what} has a schema {found}; only whole AVRO schemas work.")
        try:
            return loaded(str(answer["schema"]))
        except (KeyError, ValueError):
            raise RegistryError(f"The {what} has a schema that is no Avro record.") from None

    def _asked(self, path: str, what: str) -> dict[str, Any]:
        request = urllib.request.Request(f"{self.url}/{path}", headers={"Accept": _ACCEPT})
        if self.login is not None:
            token = base64.b64encode(self.login.encode()).decode()
            request.add_unredirected_header("Authorization", f"Basic {token}")
        try:
            with urllib.request.urlopen(request, timeout=_SECONDS) as response:
                return loaded(response.read(_MOST_BYTES))
        except urllib.error.HTTPError as error:
            refusal = f"has no {what}" if error.code == 404 else f"answers with {error.code}"
            raise RegistryError(f"The schema registry at {self.url} {refusal}.") from None
        except (OSError, ValueError) as error:
            reason = getattr(error, "reason", error)
            raise RegistryError(
                f"The schema registry at {self.url} cannot be asked for the {what}: {reason}."
            ) from None


@lru_cache(maxsize=1000)
def _schema(registry: Registry, number: int) -> dict[str, Any]:
    return registry._schema(f"schemas/ids/{number}", f"schema {number}")


def registry(name: str, url: str, config: Mapping[str, str]) -> Registry:
    """Return the registry at an address.

    Args:
        name: of the transform, for errors.
        url: the address, which may have an account in it.
        config: of the consumer, which may have a login.

    Raises:
        ConfigurationError: it is no URL of HTTP.
    """
    try:
        parts = urllib.parse.urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if host is None or parts.scheme not in ("http", "https"):
        raise ConfigurationError(
            f"{name}: confluent_schema_registry_url must be a URL of http or https, such as "
            "'http://registry:8081'."
        )
    of_url = None
    if parts.username is not None:
        of_url = urllib.parse.unquote(f"{parts.username}:{parts.password or ''}")
    login = next((config[one] for one in _LOGINS if config.get(one)), of_url)
    place = f"[{host}]" if ":" in host else host
    place = place if port is None else f"{place}:{port}"
    return Registry(f"{parts.scheme}://{place}{parts.path.rstrip('/')}", login)


def taken_apart(data: bytes) -> tuple[int, bytes]:
    """Return the id of the schema of a record, and what is encoded by it.

    Raises:
        ValueError: the record is not in the form of the registry's serializers.
    """
    if len(data) < _HEADER or data[0] != _MAGIC:
        raise ValueError(
            "The value of a record is not in the form of Confluent's serializers, which begin with "
            "a zero and the id of a schema: leave confluent_schema_registry_url out, and give the "
            "schema."
        )
    return int.from_bytes(data[1:_HEADER], "big"), data[_HEADER:]
