"""The pipeline options of the runner."""

import argparse
import logging
import re
from collections.abc import Iterator

from apache_beam.options.pipeline_options import PipelineOptions, WorkerOptions

from sparkbeam.errors import ConfigurationError
from sparkbeam.worker.logs import LogLevels

AVAILABLE_NOW = "available-now"
"""The value of ``--trigger`` with which a query ends when it has done what is there."""

_INTERVAL = re.compile(r"\d+ *(milliseconds?|seconds?|minutes?|hours?)")


class SparkBeamOptions(PipelineOptions):
    """Where and how a pipeline runs on Spark.

    All of them also work on the command line of any Beam program that runs
    with ``--runner=sparkbeam.SparkRunner``.
    """

    @classmethod
    def _add_argparse_args(cls, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--spark_master",
            default=None,
            help="Spark master URL, such as spark://host:7077 or local[4]. "
            "Default: the active session's, or else local[*].",
        )
        parser.add_argument(
            "--spark_connect",
            default=None,
            help="Spark Connect URL, such as sc://host:15002. "
            "Cannot be combined with --spark_master.",
        )
        parser.add_argument(
            "--spark_conf",
            action="append",
            default=None,
            metavar="KEY=VALUE",
            help="A Spark setting for the session that the runner creates; repeatable.",
        )
        parser.add_argument(
            "--spark_parallelism",
            type=int,
            default=None,
            help="How many partitions a shuffle has, at least 1. Default: Spark's own "
            "choice by size for groupings, the number of cores for Reshuffle.",
        )
        parser.add_argument(
            "--spark_py_files",
            action="append",
            default=None,
            metavar="PATH",
            help="A .py, .zip or .egg file that the workers need to import the "
            "pipeline's functions; repeatable.",
        )
        parser.add_argument(
            "--checkpoint_location",
            default=None,
            metavar="PATH",
            help="Streaming: where offsets and state are kept, on storage that all executors "
            "share. A pipeline that starts over the checkpoint of an earlier run goes on where "
            "that stopped. Default: a temporary folder, for one run only.",
        )
        parser.add_argument(
            "--trigger",
            default=None,
            metavar="WHEN",
            help="Streaming: an interval such as '10 seconds' at which micro-batches start, or "
            "available-now to process what is there and stop. Default: a micro-batch as soon as "
            "there is something to do.",
        )
        parser.add_argument(
            "--max_batch_elements",
            type=int,
            default=None,
            help="Streaming: about how many elements a micro-batch reads from Beam's unbounded "
            "sources, at least 1. Default: 100000 for each shard.",
        )
        parser.add_argument(
            "--shards",
            type=int,
            default=None,
            help="Streaming: into how many shards keys and their state are divided; fixed for "
            "the life of a checkpoint. Default: the number of cores.",
        )
        parser.add_argument(
            "--spark_progress",
            choices=["auto", "on", "off"],
            default="auto",
            help="Show progress while the pipeline runs. auto: when standard error is a terminal.",
        )
        parser.add_argument(
            "--spark_explain",
            action="store_true",
            help="Print the plan (pipeline, stages, Spark plan) instead of running it.",
        )

    def validate(self, validator: object) -> list[str]:
        """Beam's hook; the messages name the option and the remedy."""
        return problems(self)


def problems(options: SparkBeamOptions) -> list[str]:
    """What is wrong with the options, one message each."""
    found = []
    if options.spark_master and options.spark_connect:
        found.append(
            "--spark_master and --spark_connect exclude each other: "
            "give the one that your Spark offers."
        )
    if options.spark_connect and not options.spark_connect.startswith(("sc://", "local")):
        found.append(
            f"--spark_connect={options.spark_connect} is not a Spark Connect URL: "
            "use sc://host:port."
        )
    if options.spark_parallelism is not None and options.spark_parallelism < 1:
        found.append(f"--spark_parallelism={options.spark_parallelism} must be at least 1.")
    for option in ("shards", "max_batch_elements"):
        value = getattr(options, option)
        if value is not None and value < 1:
            found.append(f"--{option}={value} must be at least 1.")
    if options.trigger not in (None, AVAILABLE_NOW) and not _INTERVAL.fullmatch(options.trigger):
        found.append(
            f"--trigger={options.trigger} is neither {AVAILABLE_NOW} nor an interval "
            "such as '10 seconds'."
        )
    for option, value in _log_levels(options):
        if _level(value) is None:
            found.append(
                f"--{option}: {value} is not a level: use DEBUG, INFO, WARNING, ERROR or a number."
            )
    for setting in options.spark_conf or ():
        key, separator, _ = setting.partition("=")
        if not separator or not key.startswith("spark."):
            found.append(f"--spark_conf={key}… is not of the form spark.some.key=value.")
    return found


def log_levels(options: PipelineOptions) -> LogLevels:
    """What workers log by Beam's own options, which are those of its SDK harness."""
    worker = options.view_as(WorkerOptions)
    default = _level(worker.default_sdk_harness_log_level)
    overrides = worker.sdk_harness_log_level_overrides or {}
    return LogLevels(
        LogLevels.default if default is None else default,
        {name: _level(value) or logging.NOTSET for name, value in overrides.items()},
    )


def _log_levels(options: PipelineOptions) -> Iterator[tuple[str, object]]:
    worker = options.view_as(WorkerOptions)
    if worker.default_sdk_harness_log_level is not None:
        yield "default_sdk_harness_log_level", worker.default_sdk_harness_log_level
    for value in (worker.sdk_harness_log_level_overrides or {}).values():
        yield "sdk_harness_log_level_overrides", value


def _level(value: object) -> int | None:
    """A level by its name or number; None if it is none."""
    text = str(value).strip().upper()
    return int(text) if text.isdecimal() else logging.getLevelNamesMapping().get(text)


def checked(options: PipelineOptions) -> SparkBeamOptions:
    """The options as :class:`SparkBeamOptions`.

    Raises:
        ConfigurationError: an option has a wrong value.
    """
    view: SparkBeamOptions = options.view_as(SparkBeamOptions)
    found = problems(view)
    if found:
        raise ConfigurationError(" ".join(found))
    return view


def settings(options: SparkBeamOptions) -> dict[str, str]:
    """The ``--spark_conf`` options as a dictionary; a later one wins."""
    return dict(setting.split("=", 1) for setting in options.spark_conf or ())
