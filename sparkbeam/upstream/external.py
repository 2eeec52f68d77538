"""Assumptions about Beam's cross-language transforms and the processes that they start."""

import functools
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import PurePath
from types import FrameType
from typing import Any

from apache_beam.coders import RowCoder
from apache_beam.pipeline import Pipeline
from apache_beam.portability.api import external_transforms_pb2
from apache_beam.pvalue import PValue
from apache_beam.transforms import external, external_transform_provider

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


@functools.cache
def before_constructor(
    kind: type, arguments: Callable[[str, Mapping[str, Any]], Mapping[str, Any]]
) -> None:
    """Have the arguments of a transform's constructor replaced by others.

    Args:
        kind: the class of the transform.
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


def before_services(check: Callable[[Pipeline], None]) -> None:
    """Call a function before Beam starts an expansion service for a pipeline.

    Some composites ask the service for its transforms before they apply any.

    Args:
        check: receives the pipeline; the service is not started if it raises.
    """
    theirs = external.ExternalTransform.service

    @functools.wraps(theirs)
    def service(expansion_service: Any) -> Any:
        here = _is_here(expansion_service)
        pipeline = None if here else next(_expanded(sys._getframe(1)), None)
        if pipeline is not None:
            check(pipeline)
        return theirs(expansion_service)

    setattr(external.ExternalTransform, "service", staticmethod(service))  # noqa: B010


def _expanded(frame: FrameType | None) -> Iterator[Pipeline]:
    """Yield the pipelines that Beam processes in the callers of a frame, innermost first."""
    while frame is not None:
        if "apache_beam" in PurePath(frame.f_code.co_filename).parts:
            for value in frame.f_locals.values():
                if isinstance(value, Pipeline):
                    yield value
                elif isinstance(value, PValue):
                    yield value.pipeline
        frame = frame.f_back
