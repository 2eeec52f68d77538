"""Assumptions about Beam's cross-language transforms and the processes that they start."""

import functools
import inspect
import sys
from collections.abc import Callable, Mapping
from pathlib import PurePath
from types import FrameType
from typing import Any

from apache_beam.coders import RowCoder
from apache_beam.pipeline import Pipeline
from apache_beam.portability.api import external_transforms_pb2
from apache_beam.pvalue import PValue
from apache_beam.transforms import PTransform, external, external_transform_provider

_CLASSES = (
    external.ExternalTransform,
    external.SchemaAwareExternalTransform,
    external.JavaExternalTransform,
    external_transform_provider.ExternalTransform,
)


def is_external(transform: Any) -> bool:
    """Return whether a transform is expanded by an expansion service in another process."""
    if not isinstance(transform, _CLASSES):
        return False
    return not _is_here(vars(transform).get("_expansion_service"))


def is_plain(transform: Any) -> bool:
    """Return whether a transform only calls an expansion service, which says what it does."""
    return type(transform) in _CLASSES


def _is_here(expansion_service: Any) -> bool:
    """Return whether an expansion service is an object that expands to Python transforms itself."""
    return callable(getattr(expansion_service, "Expand", None))


def urn_of(transform: Any) -> str:
    """Return the URN of a transform for its expansion; empty if it has none."""
    names = ("_urn", "identifier", "_underlying_identifier")
    return next((str(vars(transform)[name]) for name in names if name in vars(transform)), "")


def arguments_of(transform: Any) -> dict[str, Any]:
    """Return the arguments of a transform, out of the payload for its expansion service."""
    payload = external_transforms_pb2.ExternalConfigurationPayload.FromString(
        vars(transform)["_payload"]
    )
    found: dict[str, Any] = RowCoder(payload.schema).decode(payload.payload)._asdict()
    return found


def classpath_of(transform: Any) -> tuple[str, ...]:
    """Return the archives that a transform gives to its expansion service."""
    return tuple(getattr(transform._expansion_service, "_classpath", ()))


def managed_configuration(transform: Any) -> tuple[str, str, str | None]:
    """Return the system of a managed transform, its configuration in YAML, and the URL of one."""
    system = getattr(transform, "_source", None) or transform._sink
    return str(system).lower(), transform._yaml_config, transform._config_url


_Check = Callable[[Pipeline | None, Any], None]


@functools.cache
def before_constructor(
    kind: type, arguments: Callable[[str, Mapping[str, Any]], Mapping[str, Any]]
) -> None:
    """Have the arguments of a transform's constructor replaced by others.

    Args:
        arguments: returns those to construct it with, given its name and the user's.
    """
    construct = kind.__init__  # type: ignore[misc]
    parameters = inspect.signature(construct)

    @functools.wraps(construct)
    def checked(self: Any, *given: Any, **named: Any) -> None:
        bound = parameters.bind(self, *given, **named).arguments
        first = next(iter(bound))
        theirs = {name: value for name, value in bound.items() if name != first}
        construct(self, **arguments(kind.__name__, theirs))

    kind.__init__ = checked  # type: ignore[misc]


def before_services(check: _Check) -> None:
    """Call a function before Beam starts an expansion service, or connects to one.

    Some composites ask the service for its transforms before they apply any, and some transforms
    and providers of transforms as they are constructed.

    Args:
        check: receives the pipeline that is being expanded, or else one of the callers', and the
            transform or provider that is being constructed, each None if there is none; the
            service is not started if it raises.
    """
    theirs = external.ExternalTransform.service

    @functools.wraps(theirs)
    def service(expansion_service: Any) -> Any:
        if not _is_here(expansion_service):
            check(*_found(sys._getframe(1)))
        return theirs(expansion_service)

    setattr(external.ExternalTransform, "service", staticmethod(service))  # noqa: B010
    _before_providers(check)


def _before_providers(check: _Check) -> None:
    """Call a function before a provider logs the error of a service that it has not reached."""
    provider = external_transform_provider.ExternalTransformProvider
    theirs = provider.__init__

    @functools.wraps(theirs)
    def init(self: Any, expansion_services: Any, *rest: Any, **named: Any) -> None:
        given = expansion_services if isinstance(expansion_services, list | set) else ()
        if not all(map(_is_here, given or (expansion_services,))):
            check(_found(sys._getframe(1))[0], self)
        theirs(self, expansion_services, *rest, **named)

    setattr(provider, "__init__", init)  # noqa: B010


def _found(frame: FrameType | None) -> tuple[Pipeline | None, Any]:
    """Return the pipeline of the callers of a frame, and the transform that they construct.

    The innermost pipeline that Beam itself processes comes before those of other callers.
    """
    others: list[Pipeline] = []
    made: Any = None
    while frame is not None:
        of_beam = "apache_beam" in PurePath(frame.f_code.co_filename).parts
        for value in list(frame.f_locals.values()):
            pipeline = value.pipeline if isinstance(value, PValue) else value
            if isinstance(pipeline, Pipeline):
                if of_beam:
                    return pipeline, None
                others.append(pipeline)
        if frame.f_code.co_name == "__init__" and not others:
            maker = frame.f_locals.get("self")
            made = maker if isinstance(maker, PTransform) else made
        frame = frame.f_back
    return next(iter(others), None), made
