"""Checks of Beam's options for worker dependencies.

Packages and files are given to the workers, see :mod:`sparkbeam.spark.provision`. Spark's workers
belong to the session, so options that choose a container or an SDK for them are errors, but for
programs that are written for another runner.
"""

import os
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

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


class _Refused(NamedTuple):
    """An option that this runner does not support.

    Attributes:
        group: the class of Beam's options that declares it.
        remedy: the reason, and what to do instead.
        matters: return whether a value asks for anything.
    """

    option: str
    group: type[PipelineOptions]
    remedy: str
    matters: Callable[[Any], bool] = bool


_REFUSED = (
    _Refused(
        "sdk_location",
        SetupOptions,
        "this runner does not stage an SDK. Install that version of Beam in the Python of the "
        "driver and of every worker: see docs/cluster.md.",
        lambda given: given not in ("default", "container", "", None),
    ),
    _Refused("prebuild_sdk_container_engine", SetupOptions, _CONTAINER),
    _Refused("sdk_container_image", WorkerOptions, _CONTAINER),
    _Refused("worker_harness_container_image", WorkerOptions, _CONTAINER),
    _Refused(
        "environment_type",
        PortableOptions,
        _CONTAINER,
        # These run in an installed Python.
        lambda given: bool(given) and str(given).upper() not in _OWN_ENVIRONMENTS,
    ),
    _Refused("environment_config", PortableOptions, _CONTAINER),
    _Refused("environment_options", PortableOptions, _CONTAINER),
)


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
    views = {group: options.view_as(group) for group in {refused.group for refused in _REFUSED}}
    for refused in _REFUSED:
        if refused.remedy is _CONTAINER and are_tolerated():
            continue
        if refused.matters(getattr(views[refused.group], refused.option, None)):
            raise ConfigurationError(f"--{refused.option} has no effect: {refused.remedy}")


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
