"""What a worker takes over of the driver's process while it runs a pipeline."""

import contextlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from apache_beam.options.value_provider import RuntimeValueProvider


@dataclass(frozen=True)
class Environment:
    """What user code finds around it; it travels with a stage.

    Attributes:
        values: of the options that the pipeline has declared with
            ``add_value_provider_argument``, as far as they were given, by their names.
        folder: the driver's working directory, to which relative paths refer; None where the
            workers do not share the driver's files.
    """

    values: Mapping[str, Any] = field(default_factory=dict)
    folder: str | None = None

    def enter(self) -> None:
        """Makes it that of this process."""
        RuntimeValueProvider.set_runtime_options(dict(self.values))
        if self.folder is not None and self.folder != _current():
            with contextlib.suppress(OSError):  # It may be gone, and is often of no account.
                os.chdir(self.folder)


def _current() -> str | None:
    with contextlib.suppress(OSError):
        return os.getcwd()
    return None
