"""Assumptions about the providers of transforms in Beam YAML."""

import functools
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from apache_beam.pipeline import Pipeline
from apache_beam.transforms.external import ExternalTransform

from sparkbeam.errors import ConfigurationError

SQL_URNS = frozenset(
    ["beam:external:java:sql:v1", "schematransform:org.apache.beam:sql_transform:v1"]
)
"""URNs of the Java transforms that run a query."""

Substitute = Callable[[str, Any], Any]
"""Returns the provider to use for a type of transform, given one of Beam's."""

CheckPackages = Callable[[str, Iterable[str]], None]
"""Raises if a type of transform needs packages that are not installed."""

_OF_INPUTS = re.compile(r"-Flatten\[.+\]$")
"""Names of the transforms that Beam makes for several inputs of another one."""

_MODULE = "apache_beam.yaml.yaml_transform"


def substitute_providers(
    is_ours: Callable[[Pipeline], bool], substitute: Substitute, check_packages: CheckPackages
) -> None:
    """Use other providers for pipelines of this runner, once Beam YAML is imported.

    A provider of Java transforms starts an expansion service before the runner hears of them.

    Args:
        is_ours: returns whether a pipeline uses this runner.
        substitute: see :data:`Substitute`.
        check_packages: see :data:`CheckPackages`; called with the dependencies of each transform.
    """
    module = sys.modules.get(_MODULE)
    if module is not None:
        _wrap(module.Scope, is_ours, substitute, check_packages)


@functools.cache
def _wrap(
    scope: Any,
    is_ours: Callable[[Pipeline], bool],
    substitute: Substitute,
    check_packages: CheckPackages,
) -> None:
    begin, create, compute = scope.__init__, scope.create_ptransform, scope.compute_outputs

    @functools.wraps(begin)
    def init(self: Any, root: Any, *rest: Any, **named: Any) -> None:
        begin(self, root, *rest, **named)
        pipeline = root if isinstance(root, Pipeline) else root.pipeline
        if is_ours(pipeline) and not isinstance(self.providers, _Providers):
            self.providers = _Providers(self.providers, substitute)

    @functools.wraps(create)
    def create_ptransform(self: Any, spec: Any, inputs: Any) -> Any:
        if isinstance(self.providers, _Providers):
            from apache_beam.yaml.yaml_transform import extract_extra_dependencies

            packages, spec = extract_extra_dependencies(spec)
            check_packages(spec.get("type", ""), packages)
        return create(self, spec, inputs)

    @functools.wraps(compute)
    def compute_outputs(self: Any, transform: str) -> Any:
        begun: list[str] = vars(self).setdefault("_begun", [])
        if transform in begun:
            specs = map(self.get_transform_spec, begun[begun.index(transform) :])
            names = [str(each.get("name", each["type"])) for each in specs]
            own = [name for name in names if not _OF_INPUTS.search(name)] or names
            raise ConfigurationError(
                "The inputs of the YAML pipeline form a cycle: "
                f"{' reads '.join([*own, *own[:1]])}. "
                "Give one of them another input."
            )
        begun.append(transform)
        try:
            return compute(self, transform)
        finally:
            begun.pop()

    scope.__init__ = init
    scope.compute_outputs = compute_outputs
    scope.create_ptransform = create_ptransform
    _name_docker()


def _name_docker() -> None:
    """Give the error of a provider of type ``docker``, which Beam lacks, a text."""
    from apache_beam.yaml.yaml_provider import ExternalProvider

    def docker(urns: Any, **config: Any) -> Any:
        raise NotImplementedError(
            "Beam YAML cannot start containers. Use a provider of type python, whose packages "
            "are installed here and on the workers, or of type yaml."
        )

    ExternalProvider.register_provider_type("docker")(docker)


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
            candidates = self._candidates(kind)
            here = [provider for provider in candidates if not runs_elsewhere(provider)]
            self._found[kind] = here or [_refused(kind, candidates[0])]
        return self._found[kind]

    def _candidates(self, kind: str) -> list[Any]:
        """Return the pipeline's own providers; those of Beam if it has none."""
        from apache_beam.yaml import yaml_provider

        def substituted(providers: Iterable[Any]) -> list[Any]:
            return list(dict.fromkeys(self._substitute(kind, each) for each in providers))

        # Scopes within scopes merge providers that are substituted already.
        standard = yaml_provider.standard_providers().get(kind, [])
        known = {*standard, *substituted(standard)}
        own = [each for each in self._theirs[kind] if each not in known]
        return substituted(own or standard)

    def __iter__(self) -> Iterator[str]:
        return iter(self._theirs)

    def __len__(self) -> int:
        return len(self._theirs)


def runs_elsewhere(provider: Any) -> bool:
    """Return whether another process expands the transforms of a provider."""
    from apache_beam.yaml import yaml_provider

    return isinstance(provider.underlying_provider(), yaml_provider.ExternalProvider)


@functools.cache
def _refused(kind: str, provider: Any) -> Any:
    """Return a provider of a transform that the runner refuses when it is applied.

    Beam's own provider asks its expansion service what it has, or looks for Java first.
    """
    from apache_beam.yaml import yaml_provider

    urns = getattr(provider.underlying_provider(), "_urns", {})
    name = getattr(provider, "_transforms", {}).get(kind, kind)
    urn = urns.get(name if isinstance(name, str) else kind, "")
    return yaml_provider.InlineProvider(
        {kind: lambda **config: ExternalTransform(urn, b"", "localhost:0")}
    )


def packages_of(provider: Any) -> Iterable[str] | None:
    """Return the packages of a provider of Python transforms; None for one without packages."""
    from apache_beam.yaml import yaml_provider

    if not isinstance(provider, yaml_provider.ExternalPythonProvider):
        return None
    packages: Iterable[str] = provider._packages
    return packages


def in_this_process(kind: str, provider: Any) -> Any:
    """Return a provider that makes here what one with packages makes in another process."""
    from apache_beam.yaml import yaml_provider

    return yaml_provider.python({kind: provider._urns[kind]}, None)


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
