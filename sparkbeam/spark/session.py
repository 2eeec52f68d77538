"""The Spark session: the user's, or one made for the pipeline.

A user's session is never stopped, nor reconfigured beyond the needs of a streaming query: see
:func:`set_for_streaming` and :func:`fix_partitions`.
"""

import functools
import logging
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from apache_beam.options.pipeline_options import PipelineOptions
from pyspark.sql import SparkSession

from sparkbeam.common.arguments import shown
from sparkbeam.common.display_text import shortened
from sparkbeam.common.shipped_files import archives
from sparkbeam.errors import ConfigurationError
from sparkbeam.options.spark_options import PACKAGES, SparkBeamOptions, packages, settings
from sparkbeam.plan.redaction import Redaction, shown_url
from sparkbeam.spark import jvm_output
from sparkbeam.spark.capabilities import (
    effective_setting,
    log_refused_settings,
    planned_splits,
    set_setting,
    setting,
    settings_for_now,
    ship,
)
from sparkbeam.spark.interrupts import python_handler
from sparkbeam.spark.jars import add_jars
from sparkbeam.upstream import spark as upstream
from sparkbeam.wire.heap import Heap

_LOG = logging.getLogger(__name__)

_JAVA = 17
_JAVA_REMEDY = (
    f"Spark needs Java {_JAVA} or newer: install a JDK (for example 'apt-get install "
    "openjdk-17-jre-headless') or point JAVA_HOME at one."
)
_JAVA_SECONDS = 20.0
_CONNECT_SECONDS = 5.0
_GRPC_SECONDS = 10.0


class SparkNotStartedError(BaseException):
    """A transform asks for a session where none is started.

    It is no ``Exception``, as those of Spark become errors of the transform's arguments.

    Attributes:
        label: of the transform; empty if unknown.
    """

    label = ""


_unstarted = threading.Event()


@contextmanager
def unstarted() -> Iterator[None]:
    """Start no session within the context, nor let the program start one."""

    def start(*_: Any, **__: Any) -> None:
        raise SparkNotStartedError

    _unstarted.set()
    builder: Any = SparkSession.Builder
    usual = builder.getOrCreate
    if upstream.active_session() is None:
        builder.getOrCreate = start
    try:
        yield
    finally:
        builder.getOrCreate = usual
        _unstarted.clear()


class HasSession:
    """A runner whose pipelines run on a Spark session."""

    def has_session(self, options: PipelineOptions) -> bool:
        """Return whether a pipeline with these options runs on a session that is there already."""
        raise NotImplementedError

    def session(self, options: PipelineOptions) -> Any:
        """Return the session for a pipeline with these options."""
        raise NotImplementedError


def checked(session: Any) -> Any:
    """Check a session given by the user; None for none.

    Raises:
        ConfigurationError: it is not a session.
    """
    if session is None or (hasattr(session, "readStream") and not isinstance(session, type)):
        return session
    raise ConfigurationError(
        f"session={shown(session)} is not a Spark session: give a SparkSession, such as "
        "SparkSession.builder.getOrCreate(), or leave it out and use --spark_master."
    )


ENDED = "The Spark session of this program has ended. Start the program again, or a new session."


@functools.cache
def warn_of_version() -> None:
    """Log a warning, once per process, if sparkbeam is not tested with the installed PySpark."""
    first, last = upstream.TESTED
    if not first <= upstream.version() <= last:
        tested = " to ".join(".".join(map(str, version)) for version in upstream.TESTED)
        _LOG.warning(
            "PySpark %s is installed, but this version of sparkbeam is tested with %s.",
            upstream.full_version(),
            tested,
        )


def obtain(options: SparkBeamOptions) -> SparkSession:
    """Return the active session, or create one from the options.

    Raises:
        ConfigurationError: Java is missing, or no server answers at the URL.
        SparkNotStartedError: none may be started.
    """
    try:
        active = upstream.active_session()
    except OSError as error:
        raise ConfigurationError(ENDED) from error
    if active is None and _unstarted.is_set():
        raise SparkNotStartedError
    if options.spark_connect:
        return _connect(options)
    if active is not None and not options.spark_master:
        return _with_packages(active, options)
    return _create(options)


def _create(options: SparkBeamOptions) -> SparkSession:
    _require_java()
    submitted = upstream.submitted_settings()
    master = _master(options)
    if master.startswith("spark://"):
        _require_answer(master, "--spark_master")
    cores = _local_cores(master)
    if cores is not None:
        _use_own_python()
    builder: Any = SparkSession.builder.master(master)
    defaults = _defaults(cores) | (_LISTENING if _is_on_this_machine(master) else {})
    defaults["spark.app.name"] = "sparkbeam"
    own = {key: value for key, value in defaults.items() if key not in submitted}
    conf = {**own, **settings(options)}
    for key, value in conf.items():
        builder = builder.config(key, value)
    try:
        with python_handler(), _listening_on_loopback(master):
            launched = jvm_output.launch({"spark.master": master, **conf})
            session: SparkSession = builder.getOrCreate()
    except Exception as error:
        wanted = shortened(conf.get(PACKAGES) or "", 200)
        maven = f", and that Maven has the packages {wanted} and their dependencies"
        raise ConfigurationError(
            f"No Spark session on --spark_master={shown_url(master)}: "
            f"{_first_line(error, options)}. "
            "Check the URL and that the installed pyspark matches the cluster's Spark"
            f"{maven if wanted else ''}."
        ) from None  # The JVM's frames add nothing.
    if launched:
        upstream.hush_accumulators(session)
        return session
    session.sparkContext.setLogLevel("ERROR")
    return _with_packages(session, options)


def _with_packages(session: SparkSession, options: SparkBeamOptions) -> SparkSession:
    """Add the packages of the options to a session whose JVM has started without them."""
    add_jars(session, packages(options), "--spark_packages")
    return session


def _master(options: SparkBeamOptions) -> str:
    """Return the master of a session that is to be created."""
    submitted = upstream.submitted_settings().get("spark.master")
    return options.spark_master or submitted or "local[*]"


def _use_own_python() -> None:
    """Avoid that workers run the first python3 on the PATH."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)


def _connect(options: SparkBeamOptions) -> SparkSession:
    url = options.spark_connect
    is_own = not url.startswith("sc://")
    if is_own:
        _require_java()
        _use_own_python()
    else:
        _require_answer(url, "--spark_connect")
    connected = _on_own_server if is_own else _on_server
    try:
        session, launched = connected(url, settings(options))
    except Exception as error:
        raise ConfigurationError(
            f"No Spark Connect session on --spark_connect={shown_url(url)}: "
            f"{_first_line(error, options)}. "
            "Check the URL, and that the client is installed: pip install 'sparkbeam[client]', or "
            "'sparkbeam[connect]' if a JVM is installed."
        ) from None
    return session if launched else _with_packages(session, options)


def _on_own_server(url: str, given: Mapping[str, str]) -> tuple[SparkSession, bool]:
    """Return the session of PySpark's own server, and whether the server is started for it."""
    conf = {**_LISTENING, _SERVER_ADDRESS: _LOOPBACK, **given}
    builder: Any = SparkSession.builder.remote(url)
    with python_handler(), _listening_on_loopback(url):
        # The server starts with its settings; most cannot be changed in a session.
        token = conf.get("spark.connect.authenticate.token", str(uuid.uuid4()))
        # The JVM reads the token of its clients from the environment when it starts.
        os.environ.setdefault("SPARK_CONNECT_AUTHENTICATE_TOKEN", token)
        launched = jvm_output.launch({"spark.master": url, **_defaults(_local_cores(url)), **conf})
        if not launched:
            builder = builder.config(map=_without_packages(conf))
        own_port = launched and _SERVER_PORT not in conf
        with upstream.free_connect_port() if own_port else nullcontext():
            return builder.getOrCreate(), launched


_on_servers: dict[str, Any] = {}
"""Sessions by the URLs of their servers; PySpark itself only knows the active one."""


def _on_server(url: str, given: Mapping[str, str]) -> tuple[SparkSession, bool]:
    """Return the session of a server that runs, and False; other sessions stay active."""
    conf = _without_packages(given)
    known = upstream.connected_session(url) or _on_servers.get(url)
    if known is not None and not known.is_stopped:
        upstream.configure(known, conf)
    else:
        _require_spark_connect(url)
        with python_handler():
            known = upstream.new_session(url, conf)
        _on_servers[url] = known
    return known, False


def _without_packages(conf: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that a session of a running server may have."""
    return {key: value for key, value in conf.items() if key != PACKAGES}


def _defaults(cores: int | None) -> dict[str, str]:
    """Return the default settings of a session that we create."""
    defaults = {
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
        "spark.sql.execution.arrow.maxBytesPerBatch": "8m",
        "spark.sql.adaptive.coalescePartitions.minPartitionSize": "64k",
        # Otherwise one task would read all sources with one partition each, one after the other.
        "spark.sql.unionOutputPartitioning": "false",
        "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false",
    }
    if cores is not None:
        # A third of the machine's memory, within 1 to 8 GiB: workers need the rest.
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20
        defaults |= {
            # Spark's data for pages that nobody sees would fill the heap of a long stream.
            "spark.ui.retainedJobs": "50",
            "spark.ui.retainedStages": "50",
            "spark.ui.retainedTasks": "1000",
            "spark.sql.ui.retainedExecutions": "50",
            "spark.sql.shuffle.partitions": str(2 * cores),
            # With few partitions none is five times the median. And sizes that are small for Spark
            # are large for Python.
            "spark.sql.adaptive.skewJoin.skewedPartitionFactor": "2",
            "spark.sql.adaptive.skewJoin.skewedPartitionThresholdInBytes": "8m",
            "spark.sql.adaptive.advisoryPartitionSizeInBytes": "8m",
            "spark.driver.memory": f"{max(1024, min(8192, total // 3))}m",
            "spark.driver.maxResultSize": "0",
            "spark.python.daemon.module": "sparkbeam.worker.daemon",
            "spark.python.worker.faulthandler.enabled": "true",
            # An overloaded machine may take longer than Spark's 15 s.
            "spark.python.authenticate.socketTimeout": "60s",
        }
    return defaults


_LOOPBACK = "127.0.0.1"
_LOOPBACK_VARIABLE = "SPARK_LOCAL_IP"
_SERVER_ADDRESS = "spark.connect.grpc.binding.address"
_SERVER_PORT = "spark.connect.grpc.binding.port"
_LISTENING = {
    "spark.driver.bindAddress": _LOOPBACK,
    "spark.driver.host": _LOOPBACK,
    "spark.ui.enabled": "false",
}
"""Settings that make Spark reachable from this machine only."""


def _is_on_this_machine(master: str) -> bool:
    """Return whether all of Spark runs here: ``local``, ``local[2]``, ``local-cluster[…]``."""
    return re.match(r"local(\[|-cluster\[|$)", master) is not None


@contextmanager
def _listening_on_loopback(master: str) -> Iterator[None]:
    """Make Spark listen on loopback, unless the user's environment sets an address.

    Spark's web pages only follow this variable.
    """
    if not _is_on_this_machine(master) or _LOOPBACK_VARIABLE in os.environ:
        yield
        return
    os.environ[_LOOPBACK_VARIABLE] = _LOOPBACK
    try:
        yield
    finally:
        del os.environ[_LOOPBACK_VARIABLE]


def _local_cores(master: str) -> int | None:
    """Return the cores of a local master; None for a cluster."""
    matched = re.match(r"local(?:\[([\d*]+)(?:,\s*\d+)?\])?$", master)
    if matched is None:
        return None
    count = matched.group(1) or "1"
    return os.cpu_count() or 1 if count == "*" else int(count)


def _require_java() -> None:
    """Check that a JVM can be started, as Spark's own scripts would.

    Raises:
        ConfigurationError: PySpark has none, or Java is missing or too old.
    """
    if not upstream.starts_jvms():
        raise ConfigurationError(
            "The installed PySpark is a client without a JVM: use --spark_connect=sc://host:15002"
            ", or pip install 'sparkbeam[spark]'."
        )
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    place = f" at JAVA_HOME={shown(home)}" if home else ""
    if java is None or not Path(java).is_file():
        raise ConfigurationError(f"No Java found{place}. {_JAVA_REMEDY}")
    version = _java_version(java)
    if version is not None and version < _JAVA:
        raise ConfigurationError(
            f"Java {version} found{place or f' at {shown(java)}'}. {_JAVA_REMEDY}"
        )


@functools.cache
def _java_version(java: str) -> int | None:
    """Return the major version of a Java, or None if it prints none.

    Raises:
        ConfigurationError: it cannot be started.
    """
    try:
        # The output is in the language and encoding of the machine.
        done = subprocess.run(
            [java, "-version"], capture_output=True, timeout=_JAVA_SECONDS, check=False
        )
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        raise ConfigurationError(
            f"The Java at {shown(java)} cannot be started ({_first_line(error)}). {_JAVA_REMEDY}"
        ) from None
    # Java 8 calls itself 1.8.
    found = re.search(rb'version "(?:1\.)?([0-9]{1,4})', done.stderr + done.stdout)
    return int(found.group(1)) if found else None


def _require_answer(url: str, option: str) -> None:
    """Fail fast if no server listens; Spark itself would retry for minutes."""
    problem: Exception | None = None
    for address in url.split("://", 1)[1].split(","):
        try:
            parts = urlsplit(f"//{address.split(';')[0]}")
            port = parts.port or (15002 if option == "--spark_connect" else 7077)
            if not parts.hostname:
                raise ValueError("the host name is missing")
            with socket.create_connection((parts.hostname, port), _CONNECT_SECONDS):
                return
        except (OSError, ValueError) as error:
            problem = error
    reason = shortened(str(problem), 80, Redaction([("url", url)]))
    raise ConfigurationError(
        f"No server answers at {option}={shown_url(url)} ({reason}). "
        "Start the server or correct the URL."
    )


def _require_spark_connect(url: str) -> None:
    """Fail fast if the server does not speak gRPC."""
    import grpc

    with upstream.channel_builder(url).toChannel() as channel:
        try:
            grpc.channel_ready_future(channel).result(_GRPC_SECONDS)
        except grpc.FutureTimeoutError:
            raise TimeoutError("the server is not a Spark Connect server") from None


def _first_line(error: Exception, options: SparkBeamOptions | None = None) -> str:
    """Return the first line of an error without secrets."""
    hide = Redaction()
    if options is not None:
        urls = [("master", options.spark_master or ""), ("connect", options.spark_connect or "")]
        hide = Redaction(urls, settings(options).items())
    return shortened(upstream.first_line(error), 200, hide)


def ship_modules(session: Any, options: SparkBeamOptions) -> None:
    """Send the files of ``--spark_py_files`` to the workers.

    Raises:
        ConfigurationError: the session refuses one.
    """
    remedy = "Install the modules on the workers, and leave out --spark_py_files."
    for archive in archives(options.spark_py_files or ()):
        ship(session, archive, remedy, module=True)


def is_local(session: Any) -> bool:
    """Return whether all workers certainly share this machine's files."""
    if upstream.is_connect(session):
        return False
    return (setting(session, "spark.master") or "").startswith("local")


def will_be_local(session: Any, options: SparkBeamOptions) -> bool:
    """Return the same before a pipeline with these options has a session."""
    if session is None and not options.spark_connect and not options.spark_master:
        session = upstream.active_session()
    if session is not None:
        with suppress(Exception):  # The run reports the error.
            return is_local(session)
        return False
    return not options.spark_connect and _is_on_this_machine(_master(options))


def variables_of(session: Any) -> list[str]:
    """Return the names of the environment variables that a local session gives to workers."""
    return list(session.sparkContext.environment) if is_local(session) else []


def heap(session: Any) -> Heap:
    """Return the memory of the JVM that receives the workers' rows, if known."""
    if not upstream.is_connect(session) and on_one_machine(session):
        with suppress(Exception):  # Not one of Spark's own sessions.
            return Heap(upstream.heap_bytes(session), "spark.driver.memory")
    with suppress(Exception):  # It may be gone.
        return Heap(_bytes(setting(session, "spark.executor.memory")))
    return Heap()


def _bytes(text: str | None) -> int | None:
    """Parse a size of Spark's settings, in mebibytes without a unit; None if it is none."""
    found = re.fullmatch(r"([0-9]+)([kmgt]?)b?", (text or "").strip().lower())
    if found is None:
        return None
    return int(found[1]) << {"k": 10, "": 20, "m": 20, "g": 30, "t": 40}[found[2]]


def scratch(session: Any) -> Path | None:
    """Return Spark's local folder for large files; None if none is set."""
    told = os.environ.get("SPARK_LOCAL_DIRS") or setting(session, "spark.local.dir") or ""
    folders = [Path(folder) for folder in told.split(",") if os.path.isabs(folder)]
    return next(filter(Path.is_dir, folders), None)


def on_one_machine(session: Any) -> bool:
    """Return whether the driver, or else the Connect server, and its workers share one machine."""
    return re.match(r"local(\[|$)", setting(session, "spark.master") or "") is not None


def can_lose_executors(session: Any) -> bool:
    """Return whether tasks run in executors that can be lost separately."""
    return not on_one_machine(session)


def check_streaming(session: Any) -> None:
    """Check that a session can run a streaming query.

    Raises:
        ConfigurationError: Python data sources cannot stream in it.
    """
    if setting(session, _UNIX_SOCKETS) == "true":
        raise ConfigurationError(
            f"Spark cannot stream from Python with {_UNIX_SOCKETS}=true: "
            "start the session without this setting."
        )


@contextmanager
def set_for_streaming(session: Any, partitions: int, *, outlives: bool = True) -> Iterator[None]:
    """Apply the settings of a streaming query to a session while the query starts.

    Spark runs each query in a copy of its session, made at the start. So the query has the user's
    views, sources and settings except for these few, and the session gets its own back. Settings
    changed by others in the meantime stay.

    Args:
        partitions: the number of state partitions per layer.
        outlives: whether anything that the query writes is read after its run.
    """
    wanted = {**_STREAMING, "spark.sql.shuffle.partitions": str(partitions)}
    if not outlives:
        wanted |= upstream.WITHOUT_CHECKSUMS
    with _starting:
        wanted[_RETAINED] = setting(session, _RETAINED) or _MICRO_BATCHES
        with settings_for_now(session, wanted):
            log_refused_settings(session)
            yield


_starting = threading.Lock()
"""Queries that start together in one session would take each other's settings for the user's."""


def fix_partitions(session: Any, partitions: int) -> None:
    """Make Spark divide files equally in each micro-batch, also after a restart.

    On a cluster the division depends on the current number of cores. Spark reads files in the
    session itself, not in the query's copy, so the setting stays; so does one of the user's.

    Args:
        partitions: the minimum number of parts.
    """
    if can_lose_executors(session) and setting(session, _LEAF_PARTITIONS) is None:
        set_setting(session, _LEAF_PARTITIONS, str(partitions))


_LEAF_PARTITIONS = "spark.sql.leafNodeDefaultParallelism"

_UNIX_SOCKETS = "spark.python.unix.domain.socket.enabled"

_RETAINED = "spark.sql.streaming.minBatchesToRetain"
_MICRO_BATCHES = "20"
"""Spark keeps the state of 100 micro-batches; a repeated one needs only the last."""

_STREAMING = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
}


def cores(session: Any) -> int:
    """Return the number of concurrent tasks, as Spark assumes for a range."""
    return planned_splits(session) or os.cpu_count() or 1


_adaptive: "WeakKeyDictionary[Any, bool]" = WeakKeyDictionary()
_COALESCES = ("spark.sql.adaptive.enabled", "spark.sql.adaptive.coalescePartitions.enabled")


def is_adaptive(session: Any) -> bool:
    """Return whether Spark reads small partitions of a shuffle together; asked once a session.

    A platform that does not tell is taken for one that does.
    """
    if session not in _adaptive:
        told = [effective_setting(session, name) for name in _COALESCES]
        _adaptive[session] = not any(value and value.lower() == "false" for value in told)
    return _adaptive[session]
