"""``managed.Read`` and ``managed.Write`` as the transforms that packages have for their systems.

Systems that no package has are left to Beam, whose expansion is refused.
"""

from typing import Any

import apache_beam as beam

from sparkbeam.common.entry_points import MANAGED_READS, MANAGED_WRITES, function, registered
from sparkbeam.errors import ConfigurationError
from sparkbeam.hooks.managed_config import ManagedConfig, loaded
from sparkbeam.upstream.external import managed_configuration


def read(transform: Any, pipeline: beam.Pipeline) -> "beam.PTransform[Any, Any] | None":
    """Return the replacement of a ``managed.Read``; None for a system without one."""
    return _replacement("Read", MANAGED_READS, transform)


def write(transform: Any, pipeline: beam.Pipeline) -> "beam.PTransform[Any, Any] | None":
    """Return the replacement of a ``managed.Write``; None for a system without one."""
    return _replacement("Write", MANAGED_WRITES, transform)


def _replacement(kind: str, group: str, transform: Any) -> "beam.PTransform[Any, Any] | None":
    system, text, url = managed_configuration(transform)
    if system not in registered(group):
        return None
    return transform_for(group, system, loaded(f"managed.{kind}({system.upper()})", text, url))


def transform_for(group: str, system: str, config: ManagedConfig) -> "beam.PTransform[Any, Any]":
    """Return the transform of a configuration.

    Args:
        group: that of the reads, or of the writes.

    Raises:
        ConfigurationError: no installed package has the system, or the configuration is wrong.
    """
    make = function(group, system)
    if make is None:
        raise ConfigurationError(f"{config.name} needs a package for {system}: install it.")
    found: beam.PTransform[Any, Any] = make(system, config)
    return found
