"""Errors that name the step which they are about."""

from collections.abc import Iterator
from contextlib import contextmanager

from sparkbeam.common import arguments
from sparkbeam.errors import ConfigurationError, PipelineFailed


@contextmanager
def errors_naming(label: str) -> Iterator[None]:
    """Add the label of a step to an error that does not name it."""
    try:
        yield
    except ConfigurationError as error:
        raise ConfigurationError(f"'{arguments.shown(label)[1:-1]}': {error}") from None
    except PipelineFailed as error:
        if type(error) is not PipelineFailed or error.label is not None:
            raise
        raise PipelineFailed(f"Step '{label}' failed: {error}", label) from None
