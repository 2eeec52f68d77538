"""Beam's options for worker dependencies; those without effect here are errors.

Beam's other runners start workers and stage archives or choose a container for them. Spark's
workers belong to the session and have whatever is installed there.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from apache_beam.options.pipeline_options import (
    PipelineOptions,
    PortableOptions,
    SetupOptions,
    WorkerOptions,
)
from apache_beam.portability import python_urns

from sparkbeam.errors import ConfigurationError

_INSTALL = (
    "Leave it out, and install {what} in the Python of every worker, or let Spark bring an "
    "environment that has it (--spark_conf=spark.archives=environment.tar.gz#environment){ship}: "
    "see docs/cluster.md."
)
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

_SHIP = ", or ship plain Python with --spark_py_files=FILE.zip"
_CONTAINER = (
    "the workers are Spark's own processes, and no container is started. Leave it out; which "
    "Python they run PYSPARK_PYTHON says, and on Kubernetes spark.kubernetes.container.image "
    "their container: see docs/cluster.md."
)


class _Refused(NamedTuple):
    """An option that this runner does not support.

    Attributes:
        option: its name.
        group: the class of Beam's options that declares it.
        remedy: the reason, and what to do instead.
        matters: return whether a value asks for anything.
    """

    option: str
    group: type[PipelineOptions]
    remedy: str
    matters: Callable[[Any], bool] = bool


def _staged(what: str, ship: str = _SHIP) -> str:
    return f"this runner does not stage it. {_INSTALL.format(what=what, ship=ship)}"


_REFUSED = (
    _Refused("setup_file", SetupOptions, _staged("the package")),
    _Refused("requirements_file", SetupOptions, _staged("the packages in it", "")),
    _Refused("extra_packages", SetupOptions, _staged("the package")),
    _Refused(
        "files_to_stage",
        SetupOptions,
        "this runner stages no files. Put them where all workers reach them, or ship modules with "
        "--spark_py_files and other files with --spark_conf=spark.files=FILE: see docs/cluster.md.",
    ),
    _Refused(
        "sdk_location",
        SetupOptions,
        "this runner stages no SDK. Install that version of Beam in the Python of the driver and "
        "of every worker: see docs/cluster.md.",
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
    """Check that no option asks for dependencies that the workers would not get.

    Raises:
        ConfigurationError: an option does.
    """
    views = {group: options.view_as(group) for group in {refused.group for refused in _REFUSED}}
    for refused in _REFUSED:
        if refused.matters(getattr(views[refused.group], refused.option, None)):
            raise ConfigurationError(f"--{refused.option} has no effect: {refused.remedy}")
