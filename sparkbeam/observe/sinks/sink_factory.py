"""Creation of the sinks named by pipeline options."""

from importlib import import_module
from typing import Any

from sparkbeam.common.arguments import shown
from sparkbeam.common.display_text import error_line
from sparkbeam.errors import ConfigurationError
from sparkbeam.observe.sinks.metrics_sink import MetricsSink
from sparkbeam.options import metrics_options
from sparkbeam.plan.redaction import Redaction

_LIBRARIES = ("prometheus_client", "opentelemetry")
_MOST_OF_MESSAGE = 200


def sinks_of(options: Any) -> list[tuple[str, MetricsSink]]:
    """Create the sinks of a pipeline, each with its name in the options.

    Raises:
        ConfigurationError: the class does not exist or is not a sink, a library is missing, or the
            sink's constructor fails.
    """
    return [(name, _new_sink(name, options)) for name in metrics_options.sinks(options)]


def _new_sink(name: str, options: Any) -> MetricsSink:
    module, _, kind = metrics_options.SINKS.get(name, name).rpartition(".")
    try:
        found = getattr(import_module(module), kind)
    except AttributeError:
        raise _wrong(name, f"does not exist: module {module} has no {kind}") from None
    except Exception as error:
        missing = (error.name or "").partition(".")[0] if isinstance(error, ImportError) else ""
        if name in metrics_options.SINKS and missing in _LIBRARIES:
            raise ConfigurationError(
                f"--metrics_sink={name} needs the package {missing}: "
                f"pip install 'sparkbeam[{name}]'."
            ) from error
        raise _wrong(name, f"cannot be imported: {_text(error, options)}") from error
    if not (isinstance(found, type) and issubclass(found, MetricsSink)):
        raise _wrong(name, "is not a subclass of sparkbeam.MetricsSink")
    try:
        return found(options)
    except Exception as error:
        raise _wrong(name, f"cannot be made: {_text(error, options)}") from error


def _wrong(name: str, problem: str) -> ConfigurationError:
    return ConfigurationError(f"--metrics_sink={shown(name)[1:-1]} {problem}.")


def _text(error: Exception, options: Any) -> str:
    hide = Redaction(metrics_options.addresses(options))
    return error_line(error, _MOST_OF_MESSAGE, hide).rstrip(".")
