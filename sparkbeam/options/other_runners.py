"""Options of Beam's other runners, in programs that are written for one."""

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from apache_beam.options import pipeline_options as of_beam
from apache_beam.options.pipeline_options import PipelineOptions

from sparkbeam.errors import ConfigurationError
from sparkbeam.upstream.option_views import known_values

_GROUPS: tuple[type[PipelineOptions], ...] = tuple(
    getattr(of_beam, name)
    for name in (
        "DebugOptions",
        "DirectOptions",
        "FlinkRunnerOptions",
        "GoogleCloudOptions",
        "JobServerOptions",
        "KafkaStreamsRunnerOptions",
        "PortableOptions",
        "PrismRunnerOptions",
        "ProfilingOptions",
        "SparkRunnerOptions",
        "WorkerOptions",
    )
    if hasattr(of_beam, name)  # Beam 2.72 has not all of them.
)
"""Classes of options of which a runner of ours uses few."""

_USED = frozenset(
    (
        "default_sdk_harness_log_level",
        "experiments",
        "gcp_oauth_scopes",
        "impersonate_service_account",
        "job_name",
        "no_auth",
        "sdk_harness_log_level_overrides",
    )
)
"""Options among them that this runner or Beam's sources and sinks use."""

_CONTAINERS = frozenset(
    (
        "cloud_build_machine_type",
        "docker_registry_push_url",
        "prebuild_sdk_container_base_image",
        "prebuild_sdk_container_engine",
    )
)
"""Options of Beam's setup for containers."""

_INSTEAD = (
    ("GoogleCloudOptions", "template_location", "stores a template of the pipeline"),
    ("GoogleCloudOptions", "update", "replaces a running job and takes over its state"),
    ("GoogleCloudOptions", "create_from_snapshot", "begins with the state of another job"),
    ("PortableOptions", "output_executable_path", "writes an archive that runs the pipeline"),
    ("TestOptions", "dry_run", "runs nothing"),
    ("TestOptions", "on_success_matcher", "checks the results of the pipeline"),
)
"""Options without which a pipeline has other results, with their effect on other runners."""

_REMEDIES = {
    "update": "leave it out, stop the pipeline, and start the changed program over the same "
    "--checkpoint_location",
    "template_location": "leave it out, and run the program",
    "dry_run": "leave it out, and use --spark_explain or sparkbeam explain",
}
"""Remedies other than to leave out the option."""

OF_JAVA = frozenset(
    """
    autobalancewritefilesshardingenabled bqstreamingapiloggingfrequencysec
    checkpointdurationmillis checkpointinginterval checkpointingmode checkpointtimeoutmillis
    externalizedcheckpointsenabled failoncheckpointingerrors finishbundlebeforecheckpointing
    forceunalignedcheckpointenabled maxstreamingbatchsize maxstreamingrowstobatch
    minpausebetweencheckpoints numconcurrentcheckpoints numstreamingkeys
    retainexternalizedcheckpointsoncancellation tolerablecheckpointfailurenumber
    unalignedcheckpointenabled
    """.split()
)
"""Options of Beam's runners in Java, such as Flink's, whose names share words with ours.

Beam's Python does not declare them; it asks a job server for their names. In lower case and
without punctuation.
"""

_tolerant = threading.Event()


@contextmanager
def tolerated() -> Iterator[None]:
    """Ignore options of other runners that say how their workers and services are started."""
    _tolerant.set()
    try:
        yield
    finally:
        _tolerant.clear()


def are_tolerated() -> bool:
    """Return whether options of other runners are ignored, in all threads."""
    return _tolerant.is_set()


def unused(options: PipelineOptions) -> list[str]:
    """Return the names of given options that this runner does not use, in alphabetical order."""
    given = {name for group in _GROUPS for name in _given_options(options, group)}
    of_containers = _CONTAINERS.intersection(_given_options(options, of_beam.SetupOptions))
    return sorted(of_containers | (given - _USED - {name for _, name, _ in _INSTEAD}))


def _given_options(options: PipelineOptions, group: type[PipelineOptions]) -> Iterable[str]:
    found: dict[str, Any] = options.view_as(group).get_all_options(
        drop_default=True, current_only=True
    )
    return found


def check(options: PipelineOptions) -> None:
    """Check that no option asks for something other than a run of the pipeline.

    Raises:
        ConfigurationError: an option does.
    """
    known = known_values(options)
    for group, name, effect in _INSTEAD:
        if name not in known:  # Beam has viewed those of a pipeline.
            known[name] = getattr(options.view_as(getattr(of_beam, group)), name, None)
        if known[name]:
            raise ConfigurationError(
                f"--{name} {effect} on other runners, but not on this one: "
                f"{_REMEDIES.get(name, 'leave it out')}."
            )
