"""The pipeline options of the runner."""

import argparse
import contextlib
import logging
import os
import re
import sys
from collections.abc import Callable, Collection
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from apache_beam.options.pipeline_options import (
    DebugOptions,
    GoogleCloudOptions,
    PipelineOptions,
    SetupOptions,
    StandardOptions,
    WorkerOptions,
)
from apache_beam.options.value_provider import StaticValueProvider

from sparkbeam.common import arguments
from sparkbeam.common.display_text import shortened
from sparkbeam.common.maven_packages import COORDINATE, misfit
from sparkbeam.common.shipped_files import archives
from sparkbeam.errors import ConfigurationError
from sparkbeam.options import (
    environment_variables,
    metrics_options,
    other_runners,
    worker_dependencies,
)
from sparkbeam.options.misspelt import misspelt
from sparkbeam.plan.grouping import SessionAggregator
from sparkbeam.plan.redaction import shown_url
from sparkbeam.upstream.logical_types import registered
from sparkbeam.upstream.option_views import known_values
from sparkbeam.upstream.saved_sessions import saved_sessions
from sparkbeam.upstream.spark import full_version
from sparkbeam.wire.environment import Environment, classes_of_program
from sparkbeam.wire.heap import Heap
from sparkbeam.wire.loglevels import QUIET, LogLevels
from sparkbeam.wire.usercode import Sources, entries

AVAILABLE_NOW = "available-now"
"""Value of ``--trigger`` for a query that processes the available data and stops."""

_INTERVAL = re.compile(r"[0-9]{1,9} *(milliseconds?|seconds?|minutes?|hours?)")
_LOCAL = r"local(\[(\*|[1-9][0-9]{0,4})(, *[0-9]{1,4})?\])?"
_MASTER = re.compile(rf"{_LOCAL}|local-cluster\[[0-9, ]+\]|yarn|[a-z][a-z0-9+.-]*://\S+")
_CONNECT = re.compile(rf"{_LOCAL}|sc://\S+")
_MOST_PORT = 65_535
PACKAGES = "spark.jars.packages"
"""Spark's setting for Maven packages, which a session reads when its JVM starts."""

_MISSING = ""
"""Stands for a missing value."""


def _number(text: str) -> object:
    """Parse an integer; return any other text unchanged."""
    return int(text) if re.fullmatch(r"[+-]?[0-9]{1,18}", text) else text


_OPTIONS: dict[str, dict[str, Any]] = {
    "--spark_master": {
        "help": "Spark master URL, such as spark://host:7077 or local[4]. "
        "Default: that of the active session, otherwise local[*].",
    },
    "--spark_connect": {
        "help": "Spark Connect URL, such as sc://host:15002. "
        "Cannot be combined with --spark_master.",
    },
    "--spark_conf": {
        "action": "append",
        "metavar": "KEY=VALUE",
        "help": "A Spark setting for the session that the runner creates; repeatable.",
    },
    "--spark_packages": {
        "action": "append",
        "metavar": "GROUP:ARTIFACT:VERSION",
        "help": "A Maven package with a data source or a JDBC driver, for the session that the "
        "runner uses; repeatable, or a comma-separated list.",
    },
    "--spark_parallelism": {
        "type": _number,
        "help": "Number of partitions of a shuffle, at least 1. Default: chosen by Spark "
        "according to size for groupings, the number of cores for Reshuffle.",
    },
    "--spark_py_files": {
        "action": "append",
        "metavar": "PATH",
        "help": "A .py, .zip or .egg file that the workers need to import the "
        "pipeline's functions; repeatable.",
    },
    "--checkpoint_location": {
        "metavar": "PATH",
        "help": "Streaming: where offsets and state are stored, on storage that all executors "
        "share. A pipeline that starts with the checkpoint of an earlier run continues where "
        "that one stopped. Default: a temporary folder, for one run only.",
    },
    "--trigger": {
        "metavar": "WHEN",
        "help": "Streaming: an interval such as '10 seconds' at which micro-batches start, or "
        "available-now to process the available data and stop. Default: a micro-batch starts "
        "as soon as there is work.",
    },
    "--max_batch_elements": {
        "type": _number,
        "help": "Streaming: about how many elements a micro-batch reads from Beam's unbounded "
        "sources, at least 1. Default: 100000 for each shard.",
    },
    "--shards": {
        "type": _number,
        "help": "Streaming: number of shards for keys and their state; fixed for the lifetime of "
        "a checkpoint. Default: the number of cores.",
    },
    "--query_name": {
        "metavar": "NAME",
        "help": "Streaming: name of the query on Spark's Structured Streaming page, in logs and "
        "for listeners; unique among the active queries of a session. Default: --job_name.",
    },
    "--session_aggregator": {
        "metavar": "{auto,canonical,ordered,columnar}",
        "default": "auto",
        "help": "Batch: how combines over Sessions aggregate the elements of a key. canonical: "
        "merge windows as Beam does; ordered: find sessions by bisection; columnar: many elements "
        "at once. auto: columnar if the CombineFn has a vectorized form, otherwise ordered.",
    },
    "--columns": {
        "metavar": "{auto,off}",
        "default": "auto",
        "help": "auto: functions run over columns where the result is the same as in Python. "
        "off: functions are called for each element.",
    },
    **metrics_options.OPTIONS,
    "--spark_progress": {
        "metavar": "{auto,on,off}",
        "default": "auto",
        "help": "Show progress while the pipeline runs. auto: in a notebook, and when standard "
        "error is a terminal.",
    },
    "--spark_page": {
        "metavar": "PORT",
        "help": "Show the running pipeline on a live page on loopback, whose address is printed. "
        "Default: any free port.",
    },
}
"""Arguments of argparse for each option with a value."""


class SparkBeamOptions(PipelineOptions):
    """Options of a pipeline on Spark.

    They also work on the command line of any Beam program that runs with
    ``--runner=sparkbeam.SparkRunner``.
    """

    @classmethod
    def _add_argparse_args(cls, parser: argparse.ArgumentParser) -> None:
        for flag, settings in _OPTIONS.items():
            # problems() reports missing and wrong values: argparse would print all of Beam's
            # options.
            parser.add_argument(flag, nargs="?", const=_MISSING, **settings)
        parser.add_argument(
            "--spark_explain",
            nargs="?",  # A value is reported in the same way.
            const=True,
            default=False,
            type=bool,
            help="Print the plan (pipeline, stages, Spark plan) instead of running it.",
        )

    def validate(self, validator: object) -> list[str]:
        """Beam's hook for the problems of options."""
        return problems(self)


def problems(options: SparkBeamOptions) -> list[str]:
    """Return one message per problem."""
    found = []
    for check in _CHECKS:
        try:
            check(options)
        except ConfigurationError as error:
            found.append(str(error))
    return list(filter(None, [*found, misspelt(options)]))


def _check_places(options: SparkBeamOptions) -> None:
    master, connect = options.spark_master, options.spark_connect
    if master is not None and connect is not None:
        raise ConfigurationError(
            "--spark_master and --spark_connect exclude each other: "
            "use the one that your cluster supports."
        )
    if master is not None:
        arguments.text("--spark_master", master, "use local[*] or spark://host:port", secret=True)
        if not _MASTER.fullmatch(master):
            raise ConfigurationError(
                f"--spark_master={shown_url(master)} is not a Spark master URL: use local[*], "
                "local[4], spark://host:port, yarn or k8s://…"
            )
    if connect is not None:
        arguments.text("--spark_connect", connect, "use sc://host:port", secret=True)
        if not _CONNECT.fullmatch(connect):
            raise ConfigurationError(
                f"--spark_connect={shown_url(connect)} is not a Spark Connect URL: "
                "use sc://host:port."
            )


def _check_streaming(options: SparkBeamOptions) -> None:
    streaming = options.view_as(StandardOptions).streaming
    if isinstance(streaming, str):  # Set in a program; any text would turn it on.
        arguments.flag("--streaming", streaming)


def _check_settings(options: SparkBeamOptions) -> None:
    for setting in worker_dependencies.several("--spark_conf", options.spark_conf):
        arguments.text("--spark_conf", setting, "use spark.some.key=value", secret=True)
        key, separator, _ = setting.partition("=")
        if not separator or not re.fullmatch(r"spark\.\S+", key):
            name = shortened(re.split(r"[^\w.\-]", key, maxsplit=1)[0], 60)
            raise ConfigurationError(
                f"--spark_conf={name}… is not of the form spark.some.key=value."
            )


def _check_packages(options: SparkBeamOptions) -> None:
    for given in worker_dependencies.several("--spark_packages", options.spark_packages):
        arguments.text("--spark_packages", given, "use GROUP:ARTIFACT:VERSION")
    for package in packages(options):
        if not COORDINATE.fullmatch(package):
            raise ConfigurationError(
                f"--spark_packages={arguments.shown(package)} is not a Maven package: use "
                "GROUP:ARTIFACT:VERSION, such as org.postgresql:postgresql:42.7.14."
            )
        problem = None if options.spark_connect else misfit(package, full_version())
        if problem is not None:
            raise ConfigurationError(
                f"--spark_packages={arguments.shown(package)} {problem}, and PySpark "
                f"{full_version()} is installed: use a package for this version, or install the "
                "PySpark version that the package needs."
            )


def packages(options: SparkBeamOptions) -> list[str]:
    """Return the Maven packages for the session."""
    given = worker_dependencies.several("--spark_packages", options.spark_packages)
    return [part.strip() for text in given for part in str(text).split(",") if part.strip()]


def _check_files(options: SparkBeamOptions) -> None:
    for path in worker_dependencies.several("--spark_py_files", options.spark_py_files):
        arguments.text("--spark_py_files", path, "use the path of a .py, .zip or .egg file")
        if not path.endswith((".py", ".zip", ".egg", ".jar")):
            raise ConfigurationError(
                f"--spark_py_files={arguments.shown(path)} cannot be imported by Python: "
                "use a .py, .zip or .egg file; repeat the option for several."
            )
        if "://" not in path and not arguments.is_file(path):
            raise ConfigurationError(
                f"--spark_py_files={arguments.shown(path)}: the file does not exist. "
                "Correct the path."
            )


def _check_trigger(name: str, given: object) -> None:
    if given == AVAILABLE_NOW or (isinstance(given, str) and _INTERVAL.fullmatch(given)):
        return
    raise ConfigurationError(
        f"{name}={arguments.shown(given)} must be {AVAILABLE_NOW} or an interval "
        "such as '10 seconds'."
    )


_CHECKS_OF_VALUES: dict[str, Callable[[str, Any], object]] = {
    "spark_parallelism": partial(arguments.whole_number, least=1, most=1_000_000),
    "shards": partial(arguments.whole_number, least=1, most=100_000),
    "max_batch_elements": partial(arguments.whole_number, least=1, most=2**31 - 1),
    "checkpoint_location": partial(
        arguments.text, remedy="use the path or the URL of a folder, or leave the option out"
    ),
    "trigger": _check_trigger,
    "query_name": partial(arguments.text, remedy="use a name, or leave the option out"),
    "session_aggregator": partial(
        arguments.one_of, choices=("auto", *(each.value for each in SessionAggregator))
    ),
    "columns": partial(arguments.one_of, choices=("auto", "off")),
    "spark_progress": partial(arguments.one_of, choices=("auto", "on", "off")),
}


def _check_value(name: str, options: SparkBeamOptions) -> None:
    value = getattr(options, name)
    if value is not None or "default" in _OPTIONS[f"--{name}"]:
        _CHECKS_OF_VALUES[name](f"--{name}", value)


def name_of(options: SparkBeamOptions) -> str | None:
    """Return the user's name for the pipeline: ``--query_name``, else Beam's ``--job_name``."""
    named = options.query_name or options.view_as(GoogleCloudOptions).job_name
    return str(named) if named else None


def temp_location(options: PipelineOptions) -> str | None:
    """Return Beam's ``--temp_location``, a folder for files of a run that all workers reach."""
    place = options.view_as(GoogleCloudOptions).temp_location
    return str(place) if place else None


def page_port(options: SparkBeamOptions) -> int | None:
    """Return the port of the live page, 0 for any free one, None for no page.

    Raises:
        ConfigurationError: the value is not a port.
    """
    given = options.spark_page
    if given is None or given is False:
        return None
    if given is True or given == _MISSING:
        return 0
    number = _number(given) if isinstance(given, str) else given
    return arguments.whole_number("--spark_page", number, least=0, most=_MOST_PORT)


def session_aggregator(options: SparkBeamOptions) -> SessionAggregator | None:
    """Return the requested session aggregator; None leaves the choice to the plan."""
    asked: str = options.session_aggregator
    return None if asked == "auto" else SessionAggregator(asked)


def _check_levels(options: SparkBeamOptions) -> None:
    worker = options.view_as(WorkerOptions)
    default = worker.default_sdk_harness_log_level
    overrides = worker.sdk_harness_log_level_overrides or {}
    given = [] if default is None else [("default_sdk_harness_log_level", default)]
    given += [("sdk_harness_log_level_overrides", value) for value in overrides.values()]
    for option, value in given:
        if _level(value) is None:
            raise ConfigurationError(
                f"--{option}={arguments.shown(value)} is not a level: "
                "use DEBUG, INFO, WARNING, ERROR or a number."
            )


_CHECKS: tuple[Callable[[SparkBeamOptions], object], ...] = (
    _check_places,
    _check_streaming,
    _check_settings,
    _check_packages,
    _check_files,
    *(partial(_check_value, name) for name in _CHECKS_OF_VALUES),
    page_port,
    lambda options: arguments.flag("--spark_explain", options.spark_explain),
    metrics_options.check,
    worker_dependencies.check,
    other_runners.check,
    _check_levels,
)


def log_levels(options: PipelineOptions) -> LogLevels:
    """Return the log levels of workers from Beam's options for its SDK harness."""
    worker = options.view_as(WorkerOptions)
    default = _level(worker.default_sdk_harness_log_level)
    given = worker.sdk_harness_log_level_overrides or {}
    overrides = {name: _level(value) or logging.NOTSET for name, value in given.items()}
    if default is None:
        return LogLevels(overrides={**QUIET, **overrides})
    return LogLevels(default, overrides)


def environment(
    options: PipelineOptions,
    *,
    shares_files: bool,
    given: Collection[str] = (),
    heap: Heap | None = None,
    packages: str | None = None,
) -> Environment:
    """Return the parts of the driver's environment that workers need.

    Args:
        shares_files: the workers see the driver's files.
        given: names of the environment variables that the session gives to workers.
        heap: the memory of the JVM that receives their rows.
        packages: the folder of the pipeline's packages, or the name of a shipped archive of them.
    """
    # Beam uses the first class of each name. Its own declare no values for workers.
    first = {str(kind): kind for kind in reversed(PipelineOptions.__subclasses__())}
    for kind in first.values():
        if kind.__module__ != PipelineOptions.__module__:
            options.view_as(kind)
    values = {
        name: value.get()
        for name, value in known_values(options).items()
        if isinstance(value, StaticValueProvider)
    }
    experiments = options.view_as(DebugOptions).experiments
    if experiments:
        values["experiments"] = experiments
    shipped = options.view_as(SparkBeamOptions).spark_py_files or ()
    sources = Sources(archives=tuple(map(os.path.basename, archives(shipped))), packages=packages)
    folder = file = None
    if shares_files:
        file = environment_variables.written(given)
        folders, libraries = entries(sys.path)
        sources = replace(sources, folders=folders, libraries=libraries)
        with contextlib.suppress(OSError):
            folder = str(Path.cwd())
    setup = options.view_as(SetupOptions)
    return Environment(
        values,
        folder,
        sources,
        file,
        classes_of_program(),
        tuple(setup.beam_plugins or ()),
        heap or Heap(),
        tuple(saved_sessions()) if setup.save_main_session else (),
        registered(),
    )


def _level(value: object) -> int | None:
    """Return a level by name or number; None if it is neither."""
    text = str(value).strip().upper() if isinstance(value, (str, int)) else ""
    if re.fullmatch("[0-9]{1,6}", text):
        return int(text)
    return logging.getLevelNamesMapping().get(text)


def checked(options: PipelineOptions) -> SparkBeamOptions:
    """Check the options and return them as :class:`SparkBeamOptions`.

    Raises:
        ConfigurationError: an option has a wrong value.
    """
    view: SparkBeamOptions = options.view_as(SparkBeamOptions)
    found = problems(view)
    if found:
        raise ConfigurationError(" ".join(found))
    return view


def settings(options: SparkBeamOptions) -> dict[str, str]:
    """Return the settings of a new session; of several ``--spark_conf`` the last one wins."""
    found = dict(setting.split("=", 1) for setting in options.spark_conf or ())
    more = packages(options)
    if more:
        found[PACKAGES] = ",".join([*filter(None, [found.get(PACKAGES)]), *more])
    return found
