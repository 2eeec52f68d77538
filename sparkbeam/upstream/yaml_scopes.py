"""Assumptions about the providers of transforms in Beam YAML."""

import functools
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from apache_beam.pipeline import Pipeline

SQL_URNS = frozenset(
    ["beam:external:java:sql:v1", "schematransform:org.apache.beam:sql_transform:v1"]
)
"""URNs of the Java transforms that run a query."""

Substitute = Callable[[str, Any], Any]
"""Returns the provider to use for a type of transform, given one of Beam's."""

_MODULE = "apache_beam.yaml.yaml_transform"


def substitute_providers(is_ours: Callable[[Pipeline], bool], substitute: Substitute) -> None:
    """Use other providers for pipelines of this runner, once Beam YAML is imported.

    A provider of Java transforms starts an expansion service before the runner hears of them.

    Args:
        is_ours: returns whether a pipeline uses this runner.
        substitute: see :data:`Substitute`.
    """
    module = sys.modules.get(_MODULE)
    if module is not None:
        _wrap(module.Scope, is_ours, substitute)


@functools.cache
def _wrap(scope: Any, is_ours: Callable[[Pipeline], bool], substitute: Substitute) -> None:
    begin = scope.__init__

    @functools.wraps(begin)
    def init(self: Any, root: Any, *rest: Any, **named: Any) -> None:
        begin(self, root, *rest, **named)
        pipeline = root if isinstance(root, Pipeline) else root.pipeline
        if is_ours(pipeline) and not isinstance(self.providers, _Providers):
            self.providers = _Providers(self.providers, substitute)

    scope.__init__ = init


class _Providers(Mapping[str, list[Any]]):
    """Providers by the type of transform.

    Args:
        theirs: those of Beam and of the pipeline.
        substitute: see :data:`Substitute`.
    """

    def __init__(self, theirs: Mapping[str, Any], substitute: Substitute) -> None:
        self._theirs = theirs
        self._substitute = substitute
        self._found: dict[str, list[Any]] = {}

    def __getitem__(self, kind: str) -> list[Any]:
        if kind not in self._found:
            each = (self._substitute(kind, provider) for provider in self._theirs[kind])
            self._found[kind] = list(dict.fromkeys(each))
        return self._found[kind]

    def __iter__(self) -> Iterator[str]:
        return iter(self._theirs)

    def __len__(self) -> int:
        return len(self._theirs)


def runs_query_in_java(provider: Any) -> bool:
    """Return whether a provider of ``Sql`` is one of Java."""
    urns = getattr(provider.underlying_provider(), "_urns", {})
    return urns.get("Sql") in SQL_URNS


def transforms_of_queries(provider: Any) -> Mapping[str, Any] | None:
    """Return the transforms that a provider makes of Java's queries; None if it makes none."""
    from apache_beam.yaml import yaml_provider

    if not isinstance(provider, yaml_provider.SqlBackedProvider):
        return None
    transforms: Mapping[str, Any] = provider._transforms
    return transforms if runs_query_in_java(provider.sql_provider()) else None


_OF_BEAM = "beam:schematransform:org.apache.beam:"


def is_beams_own_java(kind: str, provider: Any) -> bool:
    """Return whether a provider renames the arguments of one of Beam's own Java transforms."""
    from apache_beam.yaml import yaml_provider

    if not isinstance(provider, yaml_provider.RenamingProvider):
        return False
    urns = getattr(provider.underlying_provider(), "_urns", {})
    return str(urns.get(provider._transforms.get(kind), "")).startswith(_OF_BEAM)


def names_of(kind: str, provider: Any) -> Mapping[str, str]:
    """Return what a renaming provider calls the arguments of a type."""
    names: Mapping[str, str] = provider._mappings[kind]
    return names


def without_positions(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration without Beam's notes of the lines in the YAML."""
    from apache_beam.yaml.yaml_utils import SafeLineLoader

    found: dict[str, Any] = SafeLineLoader.strip_metadata({**config})
    return found
