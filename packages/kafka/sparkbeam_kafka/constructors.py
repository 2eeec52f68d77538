"""Arguments of Beam's Kafka transforms in the types that Beam's payloads have.

Kafka's clients take a setting as a text, a number, a bool or a list. Beam takes texts alone, and
ends in the words of its coder where the transform is constructed.
"""

import enum
import numbers
import os
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from sparkbeam.common.arguments import shown
from sparkbeam.errors import ConfigurationError
from sparkbeam.hooks.managed_config import ManagedConfig
from sparkbeam.upstream.external import before_constructor
from sparkbeam_kafka.setting_checks import check_settings

_CONFIGS = ("consumer_config", "producer_config")
_NUMBERS = (
    "consumer_polling_timeout",
    "dynamic_read_poll_interval_seconds",
    "max_num_records",
    "max_read_time",
    "redistribute_num_keys",
    "start_read_time",
)
_FLAGS = ("allow_duplicates", "commit_offset_in_finalize", "redistribute", "with_headers")
_CLASSES = ("key_deserializer", "key_serializer", "value_deserializer", "value_serializer")


def accept_kafkas_types() -> None:
    """Have Beam's Kafka transforms accept settings in all types of Kafka's clients."""
    from apache_beam.io.kafka import ReadFromKafka, WriteToKafka

    for kind in (ReadFromKafka, WriteToKafka):
        before_constructor(kind, _checked)


def _checked(transform: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a transform as Beam takes them.

    Raises:
        ConfigurationError: one has a wrong type.
    """
    try:
        return {name: _argument(name, value) for name, value in given.items()}
    except ConfigurationError as error:
        raise ConfigurationError(f"{transform}: {error}") from None


def _argument(name: str, value: Any) -> Any:
    if name in _CONFIGS:
        return settings(name, value)
    if name == "topics":
        return _topics(value)
    if name in _NUMBERS and value is not None:
        if isinstance(value, bool) or not isinstance(value, numbers.Integral):
            raise ConfigurationError(f"{name}={shown(value)} must be a whole number.")
        return int(value)
    if name in _FLAGS and not isinstance(value, bool | None):
        raise ConfigurationError(f"{name}={shown(value)} must be True or False.")
    if (name in _CLASSES and not isinstance(value, str)) or (
        name == "topic" and not isinstance(value, str | None)
    ):
        what = "a topic" if name == "topic" else "a Java class"
        raise ConfigurationError(f"{name}={shown(value)} must be the name of {what}.")
    return "" if value is None and name == "topic" else value


def _topics(value: Any) -> list[str]:
    if isinstance(value, str) or not isinstance(value, Iterable):
        example = shown([value]) if isinstance(value, str) else "['clicks']"
        raise ConfigurationError(
            f"topics={shown(value)} must be a list of names: topics={example}."
        )
    found = list(value)
    for topic in found:
        if not isinstance(topic, str):
            raise ConfigurationError(f"topics: {shown(topic)} is not the name of a topic.")
    return found


def settings(argument: str, config: Any) -> dict[str, str]:
    """Return settings of a client of Kafka as texts; None is one that is not set.

    Args:
        argument: the name of the argument that has them.

    Raises:
        ConfigurationError: one has a wrong type; its value, which may be secret, is not repeated.
    """
    if not isinstance(config, Mapping):
        raise ConfigurationError(
            f"{argument} must be a dictionary of Kafka settings, such as {{'bootstrap.servers': "
            f"'broker:9092'}}, not {_kind(config)}."
        )
    found = {_name(argument, name): value for name, value in config.items()}
    return {
        name: _text(argument, name, value) for name, value in found.items() if value is not None
    }


def client_settings(config: ManagedConfig, key: str) -> dict[str, str]:
    """Return the settings of a client, checked.

    Raises:
        ConfigurationError: a name or a value is wrong.
    """
    given, argument = config.mapping(key), config.shown_as(key)
    try:
        found = settings(argument, given)
        check_settings(argument, found)
    except ConfigurationError as error:
        raise ConfigurationError(f"{config.name}: {error}") from None
    return found


def _name(argument: str, name: Any) -> str:
    if not isinstance(name, str):
        raise ConfigurationError(
            f"{argument}: the name of a setting must be a string, not {_kind(name)}."
        )
    if name.split() != [name]:
        problem = "contains whitespace" if name else "is not the name of a setting"
        raise ConfigurationError(f"{argument}: {shown(name)} {problem}.")
    return name


def _text(argument: str, name: str, value: Any) -> str:
    """Return the value of a setting as a text; raises like :func:`settings`."""
    if isinstance(value, enum.Enum):
        value = value.value
    if isinstance(value, bool | np.bool_):
        return str(value).lower()
    if isinstance(value, str):
        return "".join(value)  # Of a subclass, the text itself.
    if isinstance(value, numbers.Integral):
        return str(int(value))
    if isinstance(value, numbers.Real):
        return str(float(value))
    if isinstance(value, os.PathLike) and isinstance(os.fspath(value), str):
        return str(os.fspath(value))
    if isinstance(value, list | tuple) and not any(isinstance(one, list | tuple) for one in value):
        return ",".join(_text(argument, name, one) for one in value)
    raise ConfigurationError(
        f"{argument}: {shown(name)} must be a string, a number, a bool or a list of these, not "
        f"{_kind(value)}."
    )


def _kind(value: Any) -> str:
    return "None" if value is None else f"of type {type(value).__name__}"
