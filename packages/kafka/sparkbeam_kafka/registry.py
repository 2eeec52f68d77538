"""Client of Confluent's schema registry, over HTTP."""

import base64
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from http import HTTPStatus
from http.client import HTTPException
from typing import Any

from sparkbeam.common.arguments import shown
from sparkbeam.common.untrusted_json import loaded
from sparkbeam.errors import ConfigurationError

_SECONDS = 30
_MOST_BYTES = 1 << 24
_ACCEPT = "application/vnd.schemaregistry.v1+json"
_MAGIC, _HEADER = 0, 5
AVRO, JSON = "AVRO", "JSON"
_LOGINS = ("basic.auth.user.info", "schema.registry.basic.auth.user.info")

SETTINGS = frozenset([*_LOGINS, "basic.auth.credentials.source"])
"""Settings of a client that are for the registry alone."""


class RegistryError(Exception):
    """The registry does not have what it is asked for."""


class RegistryUnavailable(RegistryError):
    """The registry does not answer, or refuses to: no fault of a record."""


@dataclass(frozen=True)
class Registered:
    """A schema in a registry."""

    number: int
    tree: dict[str, Any]


@dataclass(frozen=True)
class Registry:
    """A schema registry.

    Attributes:
        url: its address, without an account.
        login: name and password with a colon between them; None without a login.
    """

    url: str
    login: str | None = field(default=None, repr=False)

    def latest(self, subject: str, kind: str = AVRO) -> Registered:
        """Return the latest schema of a subject.

        Args:
            kind: the type that the schema must have, ``AVRO`` or ``JSON``.

        Raises:
            RegistryError: there is none, or the registry does not answer.
        """
        name = urllib.parse.quote(subject, safe="")
        place, what = f"subjects/{name}/versions/latest", f"subject {shown(subject)}"
        answer = self._fetch(place, what)
        tree = _tree(answer, what, kind)
        number = answer.get("id")
        if not isinstance(number, int):
            raise RegistryError(f"The {what} has a schema without an id.")
        return Registered(number, tree)

    def schema(self, number: int) -> dict[str, Any]:
        """Return the Avro schema with an id, which is asked for once in a process.

        Raises:
            RegistryError: there is none, or the registry does not answer.
        """
        return _schema(self, number)

    def _fetch(self, path: str, what: str) -> dict[str, Any]:
        request = urllib.request.Request(f"{self.url}/{path}", headers={"Accept": _ACCEPT})
        if self.login is not None:
            token = base64.b64encode(self.login.encode()).decode()
            request.add_unredirected_header("Authorization", f"Basic {token}")
        place = f"The schema registry at {self.url}"
        try:
            with urllib.request.urlopen(request, timeout=_SECONDS) as response:
                return loaded(response.read(_MOST_BYTES))
        except urllib.error.HTTPError as error:
            if error.code == HTTPStatus.NOT_FOUND:
                raise RegistryError(f"{place} has no {what}.") from None
            raise RegistryUnavailable(f"{place} answered with HTTP status {error.code}.") from None
        except (OSError, ValueError, HTTPException) as error:
            reason = getattr(error, "reason", error)
            raise RegistryUnavailable(f"{place} did not return the {what}: {reason}.") from None


@lru_cache(maxsize=1000)
def _schema(registry: Registry, number: int) -> dict[str, Any]:
    what = f"schema {number}"
    return _tree(registry._fetch(f"schemas/ids/{number}", what), what, AVRO)


def _tree(answer: Mapping[str, Any], what: str, kind: str) -> dict[str, Any]:
    """Return the schema in an answer."""
    found = answer.get("schemaType", AVRO)
    if found != kind or answer.get("references"):
        other = f"of type {shown(found)}" if found != kind else "with references to others"
        raise RegistryError(
            f"The {what} has a schema {other}: only {kind} schemas without references are "
            "supported."
        )
    try:
        return loaded(str(answer["schema"]))
    except (KeyError, ValueError):
        raise RegistryError(f"The {what} has a schema that is not a valid {kind} object.") from None


def registry(name: str, url: str, config: Mapping[str, str]) -> Registry:
    """Return the registry at an address.

    Args:
        name: of the transform, for errors.
        url: the address, which may have an account in it.
        config: of the client of Kafka, which may have a login.

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
            f"{name}: confluent_schema_registry_url must be an http or https URL, such as "
            "'http://registry:8081'."
        )
    of_url = None
    if parts.username is not None:
        of_url = urllib.parse.unquote(f"{parts.username}:{parts.password or ''}")
    login = next((config[one] for one in _LOGINS if config.get(one)), of_url)
    place = f"[{host}]" if ":" in host else host
    place = place if port is None else f"{place}:{port}"
    return Registry(f"{parts.scheme}://{place}{parts.path.rstrip('/')}", login)


def split_header(data: bytes) -> tuple[int, bytes]:
    """Return the id of the schema of a record, and what is encoded by it.

    Raises:
        ValueError: the record is not in the form of the registry's serializers.
    """
    if len(data) < _HEADER or data[0] != _MAGIC:
        raise ValueError(
            "A record value is not in the format of Confluent's serializers, which begins with a "
            "zero byte and a schema id: leave confluent_schema_registry_url out, and set schema."
        )
    return int.from_bytes(data[1:_HEADER], "big"), data[_HEADER:]


def put_together(number: int, record: bytes) -> bytes:
    """Return a record with the id of its schema, in the form of the registry's serializers."""
    return bytes([_MAGIC]) + number.to_bytes(_HEADER - 1, "big") + record
