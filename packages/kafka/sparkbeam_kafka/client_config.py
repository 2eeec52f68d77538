"""Configuration of Kafka's Java consumers as that of librdkafka."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sparkbeam.common.arguments import listed, shown
from sparkbeam.errors import ConfigurationError

GROUP = "group.id"

_SAME = frozenset(
    [
        "bootstrap.servers",
        "client.dns.lookup",
        "client.id",
        "client.rack",
        GROUP,
        "isolation.level",
        "sasl.mechanism",
        "security.protocol",
        "ssl.cipher.suites",
    ]
)
_RENAMED = {
    "ssl.truststore.certificates": "ssl.ca.pem",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
    "ssl.key.password": "ssl.key.password",
}
_LOCATIONS = {
    ("ssl.truststore", "PEM"): "ssl.ca.location",
    ("ssl.keystore", "PKCS12"): "ssl.keystore.location",
}
_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_LOGIN = re.compile(r"\.(?:PlainLoginModule|ScramLoginModule)\s+required\b")
_LOGIN_OPTION = re.compile(r'(\w+)\s*=\s*"((?:\\.|[^"\\])*)"')


@dataclass(frozen=True)
class Use:
    """The use of a client, in errors.

    Attributes:
        remedy: the way to do without it.
    """

    argument: str
    client: str
    remedy: str


_OFFSETS = Use(
    "consumer_config",
    "the client that asks Kafka for offsets",
    "leave out group.id, max_num_records and max_read_time, which need it",
)


def client_config(config: Mapping[str, str], use: Use = _OFFSETS) -> dict[str, str]:
    """Return the settings of a connection for librdkafka.

    Settings without a counterpart that do not concern the connection are left out.

    Args:
        use: of the client, for errors.

    Raises:
        ConfigurationError: a setting of the connection has no counterpart.
    """
    found = {"isolation.level": "read_uncommitted"}  # As in Java.
    found |= {name: value for name, value in config.items() if name in _SAME}
    found |= {_RENAMED[name]: value for name, value in config.items() if name in _RENAMED}
    if "ssl.endpoint.identification.algorithm" in config:
        algorithm = config["ssl.endpoint.identification.algorithm"]
        found["ssl.endpoint.identification.algorithm"] = algorithm or "none"
    if "config.providers" in config:
        remedy = "pass the secrets themselves, read in the program, for example from os.environ"
        raise _unknown(use, "config.providers", remedy)
    found |= dict(_stores(config, use))
    if config.get("sasl.mechanism", "PLAIN") not in _MECHANISMS:
        mechanism = shown(config["sasl.mechanism"])
        raise _unknown(use, f"sasl.mechanism={mechanism}", f"use one of {listed(_MECHANISMS)}")
    if "sasl.jaas.config" in config:
        found |= _login(config["sasl.jaas.config"], use)
    return found


def _stores(config: Mapping[str, str], use: Use) -> Iterator[tuple[str, str]]:
    for store in ("ssl.truststore", "ssl.keystore"):
        location = config.get(f"{store}.location")
        if location is None:
            continue
        kind = config.get(f"{store}.type", "JKS").upper()
        name = _LOCATIONS.get((store, kind))
        if name is None:
            known = next(form for of, form in _LOCATIONS if of == store)
            raise _unknown(use, f"{store}.type={shown(kind)}", f"give {store}.type={known}")
        yield name, location
        if store == "ssl.keystore" and f"{store}.password" in config:
            yield f"{store}.password", config[f"{store}.password"]


def _login(jaas: str, use: Use) -> dict[str, str]:
    """Return the name and the password of a login; messages do not repeat it."""
    options = dict(_LOGIN_OPTION.findall(jaas))
    if not _LOGIN.search(jaas) or not {"username", "password"} <= options.keys():
        raise _unknown(
            use,
            "sasl.jaas.config",
            "use PlainLoginModule or ScramLoginModule, with a username and a password in double "
            "quotes",
        )
    return {f"sasl.{name}": re.sub(r"\\(.)", r"\1", options[name]) for name in _LOGIN_NAMES}


_LOGIN_NAMES = ("username", "password")


def _unknown(use: Use, what: str, remedy: str) -> ConfigurationError:
    return ConfigurationError(
        f"{use.argument}: {what} is not supported by {use.client}: {remedy}, or {use.remedy}."
    )
