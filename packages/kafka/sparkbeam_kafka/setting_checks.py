"""Checks of the names and values of the settings of Kafka's clients."""

import functools
import logging
import re
from collections.abc import Mapping, Sequence

from sparkbeam.common.arguments import listed, nearest, shown
from sparkbeam.errors import ConfigurationError
from sparkbeam_kafka.setting_names import (
    ANY_CASE,
    CHOICES,
    NUMBERS,
    OF_OTHER_CLIENTS,
    OF_PLUGINS,
    SETTINGS,
)

_LOG = logging.getLogger(__name__)
_SAME_NAME = 0.85


def check_settings(argument: str, config: Mapping[str, str]) -> None:
    """Check the names of settings, and the values of those that have few.

    Settings that Kafka's clients pass on to plug-ins have any names.

    Raises:
        ConfigurationError: one stands for another setting, or has a wrong value.
    """
    unknown = [name for name in sorted(config.keys() - SETTINGS) if not _is_allowed(argument, name)]
    if unknown:
        _warn(argument, tuple(unknown))
    for name in sorted(config):
        value = config[name].strip()
        if "${" in value:  # A config provider of Kafka replaces it.
            continue
        choices = CHOICES.get(name)
        if choices and (value.upper() if name in ANY_CASE else value) not in choices:
            raise ConfigurationError(
                f"{argument}: {name}={shown(value)} must be one of {listed(choices)}."
            )
        if name in NUMBERS and not re.fullmatch("[+-]?[0-9]{1,19}", value):
            raise ConfigurationError(f"{argument}: {name}={shown(value)} must be a whole number.")


def _is_allowed(argument: str, name: str) -> bool:
    """Return whether a name that is no setting of Kafka's may be one of a plug-in.

    Raises:
        ConfigurationError: it stands for another setting.
    """
    meant = OF_OTHER_CLIENTS.get(name) or _meant(name)
    if name in OF_OTHER_CLIENTS or meant is not None:
        remedy = "leave it out" if meant is None else f"use {shown(meant)}"
        raise ConfigurationError(f"{argument}: Kafka has no setting {shown(name)}: {remedy}.")
    return name.startswith(OF_PLUGINS)


def _meant(name: str) -> str | None:
    """Return the setting that a name resembles, or of which it has only some words."""
    plain = name.removeprefix("kafka.")  # As in the options of Spark's source.
    if plain in SETTINGS:
        return plain
    near = nearest(name, SETTINGS, similarity=_SAME_NAME)
    if near is not None:
        return near
    words = set(re.split("[._]", name))
    longer = (each for each in sorted(SETTINGS) if words <= {*each.split(".")})
    return min(longer, key=len, default=None)


@functools.cache  # Arguments are checked whenever a pipeline is translated.
def _warn(argument: str, names: Sequence[str]) -> None:
    _LOG.warning(
        "%s: Kafka has no settings %s. They are passed on, and have an effect only if a plug-in "
        "of its client reads them.",
        argument,
        listed(names),
    )
