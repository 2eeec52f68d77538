"""Errors of a data source's hooks."""

from collections.abc import Iterator
from contextlib import contextmanager

from sparkbeam.common.step_errors import errors_naming
from sparkbeam.errors import ConfigurationError, PipelineFailed, SparkBeamError
from sparkbeam.plan.redaction import Redaction
from sparkbeam.plan.spark_io import ReadSpec


@contextmanager
def hook_errors(
    spec: ReadSpec, label: str, kind: type[ConfigurationError | PipelineFailed] = PipelineFailed
) -> Iterator[None]:
    """Name the step in errors, and the data source in those that are not of this package.

    Args:
        spec: of the read; its secrets are hidden.
        kind: of the error for all others.
    """
    with errors_naming(label):
        try:
            yield
        except SparkBeamError:
            raise
        except Exception as error:
            raise kind(
                f"the package of the data source {spec.what} failed: "
                f"{type(error).__name__}: {Redaction(spec.options)(str(error))}"
            ) from None
