"""Checks of Beam's options for worker dependencies.

Packages and files are given to the workers, see :mod:`sparkbeam.spark.provision`. Spark's workers
belong to the session, so options that choose a container or an SDK for them are errors, but for
programs that are written for another runner.
"""

import os
from collections.abc import Mapping, Sequence
from typing import Any

from apache_beam.options.pipeline_options import (
    PipelineOptions,
    PortableOptions,
    SetupOptions,
    WorkerOptions,
)
from apache_beam.portability import python_urns

from sparkbeam.common import arguments
from sparkbeam.errors import ConfigurationError
from sparkbeam.options.other_runners import are_tolerated

_OWN_ENVIRONMENTS = frozenset(
    name.upper()
    for name in (
        "LOOPBACK",
        "EMBEDDED",
        python_urns.EMBEDDED_PYTHON,
        python_urns.EMBEDDED_PYTHON_GRPC,
        python_urns.EMBEDDED_PYTHON_LOOPBACK,
    )
)
"""Beam's names for environments that run in the runner's Python."""

_ARCHIVES = (".tar", ".tar.gz", ".whl", ".zip")
_SETUPS = ("setup.py", "pyproject.toml")
_CONTAINER = (
    "the workers are Spark's own processes, and no container is started. Leave it out; set the "
    "workers' Python with PYSPARK_PYTHON and, on Kubernetes, their container image with "
    "spark.kubernetes.container.image: see docs/cluster.md."
)


_OF_CONTAINERS: Mapping[type[PipelineOptions], Sequence[str]] = {
    SetupOptions: ["prebuild_sdk_container_engine"],
    WorkerOptions: ["sdk_container_image", "worker_harness_container_image"],
    PortableOptions: ["environment_type", "environment_config", "environment_options"],
}
"""Options that choose a container, by the class of Beam's options that declares them."""


def check(options: PipelineOptions) -> None:
    """Check that the workers can get what the options ask for.

    Raises:
        ConfigurationError: they cannot.
    """
    setup: Any = options.view_as(SetupOptions)
    for name, given in (
        ("requirements_file", [setup.requirements_file]),
        ("setup_file", [setup.setup_file]),
        ("extra_package", setup.extra_packages),
        ("files_to_stage", setup.files_to_stage),
    ):
        for path in several(f"--{name}", given):
            if path not in (None, ""):
                _check_file(f"--{name}", path)
    if setup.sdk_location not in ("default", "container", "", None):
        raise ConfigurationError(
            "--sdk_location has no effect: this runner does not stage an SDK. Install that version "
            "of Beam in the Python of the driver and of every worker: see docs/cluster.md."
        )
    for group, names in () if are_tolerated() else _OF_CONTAINERS.items():
        view = options.view_as(group)
        for name in names:
            given = getattr(view, name, None)
            # Some environments run in an installed Python.
            is_own = name == "environment_type" and str(given).upper() in _OWN_ENVIRONMENTS
            if given and not is_own:
                raise ConfigurationError(f"--{name} has no effect: {_CONTAINER}")


def several(option: str, given: object) -> Sequence[Any]:
    """Return the values of a repeatable option.

    Raises:
        ConfigurationError: they are not a list.
    """
    if given is None:
        return ()
    if isinstance(given, str | bytes) or not isinstance(given, Sequence):
        raise ConfigurationError(f"{option} must be a list of strings, not {type(given).__name__}.")
    return given


def _check_file(option: str, given: object) -> None:
    path = arguments.path(option, given, "use the path of a file")
    # Beam's stager fetches packages from elsewhere.
    is_remote = "://" in path and option == "--extra_package"
    if not is_remote and not arguments.is_file(path):
        raise ConfigurationError(
            f"{option}={arguments.shown(path)}: the file does not exist. Correct the path."
        )
    if option == "--setup_file" and os.path.basename(path) not in _SETUPS:
        raise ConfigurationError(
            f"{option}={arguments.shown(path)} is not a {' or a '.join(_SETUPS)}: "
            "use the one of your package."
        )
    if option == "--extra_package" and not path.endswith(_ARCHIVES):
        raise ConfigurationError(
            f"{option}={arguments.shown(path)} is not a package: use a file that ends "
            f"in {arguments.listed(_ARCHIVES)}; for a name in an index use --requirements_file."
        )
