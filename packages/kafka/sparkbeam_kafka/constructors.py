"""Arguments of Beam's Kafka transforms in the types that Beam's payloads have.

Kafka's clients take a setting as a text, a number, a bool or a list. Beam takes texts alone, and
ends in the words of its coder where the transform is constructed.
"""

import enum
import numbers
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from sparkbeam.common.arguments import flag, is_whole, shown
from sparkbeam.errors import ConfigurationError
from sparkbeam.hooks.managed_config import ManagedConfig
from sparkbeam.upstream.external import before_constructor
from sparkbeam_kafka.setting_checks import check_settings


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
        return {name: ARGUMENTS.get(name, _same)(name, value) for name, value in given.items()}
    except ConfigurationError as error:
        raise ConfigurationError(f"{transform}: {error}") from None


def _same(name: str, value: Any) -> Any:
    return value


def _number(name: str, value: Any) -> int | None:
    if value is None:
        return None
    if not is_whole(value):
        raise ConfigurationError(f"{name}={shown(value)} must be a whole number.")
    return int(value)


def _flag(name: str, value: Any) -> Any:
    return value if value is None else flag(name, value)


def _class(name: str, value: Any, what: str = "a Java class") -> str:
    if not isinstance(value, str):
        raise ConfigurationError(f"{name}={shown(value)} must be the name of {what}.")
    return value


def _topic(name: str, value: Any) -> str:
    return "" if value is None else _class(name, value, "a topic")


def _topics(name: str, value: Any) -> list[str]:
    if isinstance(value, str) or not isinstance(value, Iterable):
        example = shown([value]) if isinstance(value, str) else "['clicks']"
        raise ConfigurationError(
            f"{name}={shown(value)} must be a list of names: {name}={example}."
        )
    found = list(value)
    for topic in found:
        if not isinstance(topic, str):
            raise ConfigurationError(f"{name}: {shown(topic)} is not the name of a topic.")
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


ARGUMENTS: Mapping[str, Callable[[str, Any], Any]] = {
    **dict.fromkeys(("consumer_config", "producer_config"), settings),
    "topics": _topics,
    "topic": _topic,
    "topic_pattern": _same,
    "key_deserializer": _class,
    "value_deserializer": _class,
    "key_serializer": _class,
    "value_serializer": _class,
    "timestamp_policy": _same,
    "start_read_time": _number,
    "stop_read_time": _same,
    "max_num_records": _number,
    "max_read_time": _number,
    "commit_offset_in_finalize": _flag,
    "redistribute": _flag,
    "with_headers": _flag,
    # Hints. Spark looks for new partitions by itself, and its polls fail after their timeout.
    "allow_duplicates": _flag,
    "consumer_polling_timeout": _number,
    "dynamic_read_poll_interval_seconds": _number,
    "redistribute_num_keys": _number,
}
"""Arguments that have a meaning here, with the function that returns them in Beam's types."""
