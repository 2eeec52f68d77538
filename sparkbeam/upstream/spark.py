"""Assumptions about PySpark's internals, and about the texts of Spark's errors.

Each private name is used here only. A Spark release may change any of them, or a text; then the
test of that name fails. Callers of some functions do without a result, where these say so.
"""

import ast
import atexit
import functools
import json
import logging
import os
import re
import socket
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from importlib import import_module
from types import FrameType
from typing import Any, NamedTuple

from sparkbeam.common.untrusted_json import loaded

# Schemas.

_foreign: ContextVar[list[str] | None] = ContextVar("sparkbeam_foreign_types", default=None)


@contextmanager
def no_foreign_types() -> Iterator[list[str]]:
    """Prevent this thread from importing modules that a schema names.

    The metadata of files and tables name classes of user-defined types, whose modules PySpark
    imports to read the schema of a DataFrame. In the context it reads the underlying type instead.

    Yields:
        The names of the classes found so far.

    Raises:
        ValueError: an underlying type is unknown, as over Spark Connect.
    """
    from pyspark.sql import types

    kind: Any = types.UserDefinedType
    if not isinstance(vars(kind)["fromJson"], _PlainTypes):
        kind.fromJson = _PlainTypes(vars(kind)["fromJson"])
    met: list[str] = []
    before = _foreign.set(met)
    try:
        yield met
    finally:
        _foreign.reset(before)


@contextmanager
def unlogged(*, everywhere: bool = False) -> Iterator[None]:
    """Prevent PySpark from logging errors of queries that the caller deals with.

    Args:
        everywhere: whether to do so in all threads, not only in this one.
    """
    try:
        from pyspark.logger import PySparkLogger
    except ModuleNotFoundError:  # Before PySpark 4 there is no such log.
        yield
        return
    thread = threading.get_ident()

    def is_of_another(record: logging.LogRecord) -> bool:
        return not everywhere and record.thread != thread

    names = (f"{kind}QueryContextLogger" for kind in ("DataFrame", "SQL"))
    loggers = list(map(PySparkLogger.getLogger, names))
    for logger in loggers:
        logger.addFilter(is_of_another)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(is_of_another)


class _PlainTypes:
    """Descriptor of ``UserDefinedType.fromJson``, which PySpark calls with the JSON of a type."""

    def __init__(self, usual: Any) -> None:
        self._usual = usual

    def __get__(self, instance: Any, owner: Any) -> Any:
        return self._plain if _foreign.get() is not None else self._usual.__get__(instance, owner)

    def _plain(self, told: Mapping[str, Any]) -> Any:
        from pyspark.sql import types

        name = str(told.get("pyClass") or told.get("class"))
        met = _foreign.get()
        if met is not None:
            met.append(name)
        if "sqlType" not in told and is_imported(name):
            return self._usual.__get__(None, types.UserDefinedType)(told)
        if "sqlType" not in told:
            raise ValueError(f"a column has the user-defined type {name}")
        field = {"name": "_", "type": told["sqlType"], "nullable": True, "metadata": {}}
        return types.StructType.fromJson({"type": "struct", "fields": [field]}).fields[0].dataType


def is_imported(name: str) -> bool:
    """Return whether the module of a class is imported, or is part of PySpark."""
    module = name.rpartition(".")[0]
    return module in sys.modules or module.startswith("pyspark.")


# The JVM of a driver.


def starts_jvms() -> bool:
    """Return whether the installed PySpark can start a JVM; pyspark-client has none."""
    try:
        from pyspark.util import is_remote_only
    except ImportError:  # Before Spark 4.0.
        return True
    return not is_remote_only()


def has_jvm() -> bool:
    """Return whether this process has a Spark JVM."""
    from pyspark import SparkContext

    return SparkContext._gateway is not None


def start_jvm(conf: Mapping[str, str], popen_kwargs: Mapping[str, Any]) -> Any:
    """Start the JVM of this process's next session; return its process.

    Args:
        popen_kwargs: further arguments of ``subprocess.Popen``.
    """
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    settings = SparkConf(loadDefaults=False).setAll([*conf.items()])
    gateway = launch_gateway(settings, popen_kwargs=dict(popen_kwargs))
    SparkContext._ensure_initialized(gateway=gateway, conf=settings)
    return gateway.proc


@functools.cache
def submitted_settings() -> dict[str, str]:
    """Return the settings with which spark-submit has started this program; none without it."""
    if GATEWAY not in os.environ:
        return {}
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()
    return dict(SparkConf().getAll())


GATEWAY = "PYSPARK_GATEWAY_PORT"
"""Variable of the environment with the port of a JVM that has started this process."""


def jvm(session: Any) -> Any:
    """Return the JVM of a classic session, as a py4j view."""
    return session._jvm


def jvm_process(session: Any) -> Any | None:
    """Return the process of a classic session's JVM; None if PySpark has not started it here."""
    if not is_classic(session):
        return None
    from pyspark import SparkContext  # Which pyspark-client has not.

    return getattr(SparkContext._gateway, "proc", None)


def hush_accumulators(session: Any) -> None:
    """Prevent PySpark's accumulator server from reporting the exit of a session's JVM."""
    server = getattr(session.sparkContext, "_accumulatorServer", None)
    usual = getattr(server, "handle_error", None)
    if usual is None:
        return

    def handle_error(*where: Any) -> None:
        if not isinstance(sys.exc_info()[1], EOFError | OSError):
            usual(*where)

    vars(server)["handle_error"] = handle_error


RELEASE = "_garbage_collect_object"
"""Name of py4j's function that tells the JVM of an object that Python needs no longer."""


def heap_bytes(session: Any) -> int:
    """Return the maximum heap size of a classic session's JVM."""
    return int(jvm(session).java.lang.Runtime.getRuntime().maxMemory())


@contextmanager
def free_connect_port() -> Iterator[None]:
    """Let PySpark start its local Spark Connect server on a free port.

    It does so in its own tests, if this variable is set, and otherwise on port 15002, where a
    second program on a machine fails. The JVM must have started before, as it must not inherit the
    variable.
    """
    before = os.environ.get("SPARK_TESTING")
    os.environ["SPARK_TESTING"] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ["SPARK_TESTING"]
        else:
            os.environ["SPARK_TESTING"] = before


def callback_socket(frame: Any) -> socket.socket | None:
    """Return the socket over which a JVM thread is calling this Python thread.

    Nobody closes it when the JVM thread ends. Once it is shut down, this thread closes it and ends.
    None if the frame is not such a call.
    """
    if not is_classic(frame):
        return None
    connection = jvm(frame.sparkSession)._gateway_client.get_thread_connection()
    return None if connection is None else connection.socket


NOISE = re.compile(
    rb"WARNING: Using incubator modules: |"
    rb"(Starting )?Streaming (TransformWithStateInPandas Python|ForeachBatch|query listener) worker"
)
"""Prefixes of uninformative lines that a JVM writes at each start."""

# Older versions.

TESTED = ((3, 5), (4, 3))
"""First and last PySpark with which sparkbeam is tested; no other is refused."""

_CLASSIC_SHIPS_FROM = (4, 0)
"""First PySpark whose classic sessions send files; in 3.5 the method exists but fails."""


def full_version() -> str:
    """Return PySpark's version, as PySpark tells it."""
    import pyspark

    return str(pyspark.__version__)


def version() -> tuple[int, ...]:
    """Return PySpark's version up to the minor version."""
    return tuple(map(int, re.findall(r"\d+", full_version())[:2]))


def has_row_state(session: Any = None) -> bool:
    """Return whether sessions like this one have ``transformWithState``, which passes rows."""
    return hasattr(_grouped(session), "transformWithState")


def has_pandas_state(session: Any = None) -> bool:
    """Return the same of ``transformWithStateInPandas``, which passes DataFrames."""
    return hasattr(_grouped(session), "transformWithStateInPandas")


def _grouped(session: Any) -> Any:
    """Return the class of grouped data; that of Spark Connect got its methods a version later."""
    place = "pyspark.sql.connect.group" if is_connect(session) else "pyspark.sql"
    return import_module(place).GroupedData


def freezes_available_now() -> bool:
    """Return whether Spark tells Python data sources that a query is an available-now run.

    Otherwise it runs a query with such a source as a single micro-batch.
    """
    with suppress(ImportError):
        contracts = import_module("pyspark.sql.streaming.datasource")
        return hasattr(contracts, "SupportsTriggerAvailableNow")
    return False


def shown_offset(text: str) -> Any:
    """Parse a source's offset in a progress; before 4.2 PySpark shows it as a Python literal.

    Raises:
        ValueError: it is neither that nor JSON.
    """
    try:
        return loaded(text)
    except ValueError:
        with suppress(SyntaxError, RecursionError, MemoryError):
            return ast.literal_eval(text)
        raise


def spread_by(rows: Any, partitions: int, number: Any) -> Any:
    """Partition rows by a column of integers, modulo the number of partitions.

    Before Spark 4.1 a partition can only be selected by a value that hashes to it.
    """
    if hasattr(rows, "repartitionById"):
        return rows.repartitionById(partitions, number)
    from pyspark.sql import functions as sf

    hashed = sf.lit(hashed_to(partitions))
    return rows.repartition(partitions, sf.element_at(hashed, sf.pmod(number, partitions) + 1))


def hashed_to(partitions: int) -> list[int]:
    """Return, per partition, an integer that Spark's hash partitioning assigns to it."""
    found: dict[int, int] = {}
    number = 0
    while len(found) < partitions:
        found.setdefault(murmur3(number) % partitions, number)
        number += 1
    return [found[partition] for partition in range(partitions)]


def murmur3(number: int) -> int:
    """Compute Spark's hash of a non-negative 32-bit integer.

    This is MurmurHash3 (Austin Appleby), x86, 32 bits, of the four bytes, with seed 42.
    """
    mixed = _rotated(number * 0xCC9E2D51 & _WORD, 15) * 0x1B873593 & _WORD
    mixed = (_rotated(42 ^ mixed, 13) * 5 + 0xE6546B64 & _WORD) ^ 4
    mixed = (mixed ^ mixed >> 16) * 0x85EBCA6B & _WORD
    mixed = (mixed ^ mixed >> 13) * 0xC2B2AE35 & _WORD
    mixed ^= mixed >> 16
    return mixed - (mixed >> 31 << 32)


def of_unknown_size(session: Any) -> Any:
    """Return a DataFrame of one row in the column ``id``, with an estimated size of terabytes.

    Spark assumes that the output of a Python function is about as large as its input, and would
    broadcast everything derived from a range. Beside this DataFrame it relies on actual sizes,
    which adaptive plans know. A limit is trusted if nothing is known of its input.
    """
    from pyspark.sql import functions as sf

    one = session.range(0, 1, 1, 1)
    return one.select(sf.explode(sf.array("id")).alias("id")).limit(_MOST_ROWS)


@contextmanager
def jdbc_connection(session: Any, options: Mapping[str, str]) -> Iterator[tuple[Any, Any]]:
    """Open a Java connection to the database that Spark's ``jdbc`` format writes to.

    Yields:
        The connection, and a function that quotes an identifier.
    """
    view = jvm(session)
    of_jdbc = view.org.apache.spark.sql.execution.datasources.jdbc
    given = of_jdbc.JdbcOptionsInWrite(view.PythonUtils.toScalaMap(dict(options)))
    dialect = view.org.apache.spark.sql.jdbc.JdbcDialects.get(given.url())
    connection = dialect.createConnectionFactory(given).apply(-1)
    try:
        yield connection, dialect.quoteIdentifier
    finally:
        connection.close()


def has_class(session: Any, name: str) -> bool:
    """Return whether the driver of a classic session finds a Java class."""
    thread = jvm(session).java.lang.Thread.currentThread()
    try:
        thread.getContextClassLoader().loadClass(name)
    except Exception:
        return False
    return True


def add_jar(session: Any, jar: str) -> None:
    """Add an archive, a path or an ``ivy://`` coordinate, to a session.

    Spark gives it to the tasks, and to the calling thread of the driver. The class loader below
    that one is shared by all threads, as it has the archives of the session's start.
    """
    if is_connect(session) and "://" not in jar:
        session.addArtifacts(jar)
        return
    quoted = jar.replace("\\", "\\\\").replace("'", "\\'")
    session.sql(f"ADD JAR '{quoted}'").collect()
    if not is_classic(session):
        return
    loader = session._jsparkSession.sharedState().jarClassLoader()
    with suppress(Exception):  # Not the class loader of spark-submit.
        for url in loader.getURLs():
            loader.getParent().addURL(url)


def drawn(frame: Any, rows: int, characters: int) -> str:
    """Return the table printed by a DataFrame's ``show``.

    Args:
        rows: the maximum number of rows.
        characters: the maximum length of a value; 0 for unlimited.
    """
    return str(frame._show_string(rows, characters))


def estimated_bytes(frame: Any) -> int | None:
    """Return Spark's size estimate of a DataFrame before execution; None if unavailable.

    For unknown sizes the estimate is eight exbibytes.
    """
    try:
        if is_classic(frame):
            statistics = frame._jdf.queryExecution().optimizedPlan().stats()
            return int(str(statistics.sizeInBytes()))
        told = _SIZE.search(frame._explain_string(mode="cost"))
        return None if told is None else int(float(told[1]) * 1024 ** _UNITS.index(told[2]))
    except Exception:
        return None


_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_SIZE = re.compile(rf"Statistics\(sizeInBytes=([\d.E+]+) ({'|'.join(_UNITS)})\b")

_MOST_ROWS = (1 << 31) - 1

_EXECUTIONS = 200
"""Number of recent queries that are searched for stages."""

_WORD = 0xFFFFFFFF


def _rotated(word: int, bits: int) -> int:
    return (word << bits | word >> 32 - bits) & _WORD


def arrow_table(frame: Any) -> Any:
    """Return all rows as an Arrow table; before Spark 4.0 no public method does."""
    if hasattr(frame, "toArrow"):
        return frame.toArrow()
    import pyarrow as pa
    from pyspark.sql.pandas.types import to_arrow_schema

    if is_classic(frame):
        return pa.Table.from_batches(frame._collect_as_arrow(), to_arrow_schema(frame.schema))
    table, _ = frame._session.client.to_table(frame._plan.to_proto(frame._session.client))
    return table


def is_own_server() -> bool:
    """Return whether this process has started the server of its Spark Connect sessions."""
    return "SPARK_LOCAL_REMOTE" in os.environ


def stage_data(session: Any, id: int) -> dict[str, Any]:
    """Return a classic session's figures of a stage's last attempt, as in :class:`.SparkStage`.

    Raises:
        Exception: of any type, if it has dropped the stage, or has been stopped.
    """
    context = session.sparkContext
    store = context._jsc.sc().statusStore()
    data = store.lastStageAttempt(id)
    found = {
        "tasks": data.numTasks(),
        "failed_tasks": data.numFailedTasks(),
        "read_bytes": data.shuffleReadBytes(),
        "written_bytes": data.shuffleWriteBytes(),
        "spilled_memory_bytes": data.memoryBytesSpilled(),
        "spilled_disk_bytes": data.diskBytesSpilled(),
        "is_done": data.status().toString() == "COMPLETE",
    }
    if found["read_bytes"]:
        quantiles = context._gateway.new_array(context._gateway.jvm.double, 2)
        # For two tasks, half would select the larger one.
        quantiles[0], quantiles[1] = 0.4999, 1.0
        summary = store.taskSummary(id, data.attemptId(), quantiles)
        if summary.isDefined():
            reads = summary.get().shuffleReadMetrics().readBytes()
            found["median_bytes"], found["largest_bytes"] = int(reads.apply(0)), int(reads.apply(1))
    return found


def executed_plans(session: Any, stages: frozenset[int]) -> list[str]:
    """Return Spark's plans of the queries that ran some of these stages, as in its UI.

    Adaptive plans are in their final form, with the initial one below.

    Raises:
        Exception: of any type, if the session has been stopped.
    """
    found = _executions(session, stages)
    return [str(execution.physicalPlanDescription()).strip() for execution in found]


class PlanNode(NamedTuple):
    """An operator of an executed Spark plan.

    Attributes:
        id: unique in the plan.
        children: the ids of its inputs, in order.
    """

    id: int
    name: str
    description: str
    metrics: dict[str, str]
    children: tuple[int, ...]


def executed_graphs(session: Any, stages: frozenset[int]) -> list[list[PlanNode]]:
    """Return the operators of the plans of :func:`executed_plans`, in their final form.

    Raises:
        Exception: of any type, if the session has been stopped.
    """
    store = session._jsparkSession.sharedState().statusStore()
    return [_graph(store, execution.executionId()) for execution in _executions(session, stages)]


def _graph(store: Any, execution: int) -> list[PlanNode]:
    counted = {entry._1(): entry._2() for entry in _iterated(store.executionMetrics(execution))}
    graph = store.planGraph(execution)
    children: dict[int, list[int]] = {}
    for edge in _iterated(graph.edges()):
        children.setdefault(edge.toId(), []).append(edge.fromId())
    return [
        PlanNode(
            node.id(),
            node.name(),
            node.desc(),
            {
                metric.name(): counted[metric.accumulatorId()]
                for metric in _iterated(node.metrics())
                if metric.accumulatorId() in counted
            },
            tuple(sorted(children.get(node.id(), ()))),
        )
        for node in _iterated(graph.allNodes())
    ]


def _iterated(collection: Any) -> Iterator[Any]:
    """Yield the items of a Scala collection."""
    iterator = collection.iterator()
    while iterator.hasNext():
        yield iterator.next()


def _executions(session: Any, stages: frozenset[int]) -> list[Any]:
    """Return the outermost queries that ran some of these stages.

    Within a micro-batch, the sink runs nested queries over rows of the enclosing query.
    """
    store = session._jsparkSession.sharedState().statusStore()
    first = max(0, store.executionsCount() - _EXECUTIONS)
    executions = store.executionsList(first, _EXECUTIONS)
    found = {
        execution.executionId(): execution
        for execution in map(executions.apply, range(executions.size()))
    }
    asked = set()
    for execution_id, execution in found.items():
        ids = execution.stages().mkString(",")
        if stages & {int(id) for id in ids.split(",") if id}:
            root = execution.rootExecutionId()
            asked.add(root if root in found else execution_id)
    return [execution for execution_id, execution in found.items() if execution_id in asked]


def post_event(session: Any, event: Mapping[str, Any]) -> None:
    """Post an event in event log form to the listeners of a classic session.

    Raises:
        Exception: of any type, if this Spark version does not know the event.
    """
    context = session.sparkContext
    protocol = context._jvm.org.apache.spark.util.JsonProtocol
    context._jsc.sc().listenerBus().post(protocol.sparkEventFromJson(json.dumps(event)))


def is_connect(thing: Any) -> bool:
    """Return whether a session or a DataFrame belongs to a Spark Connect server."""
    return type(thing).__module__.startswith("pyspark.sql.connect.")


def is_classic(thing: Any) -> bool:
    """Return whether a session or a DataFrame belongs to the JVM of this process."""
    return type(thing).__module__.startswith("pyspark.sql.") and not is_connect(thing)


def has_ended(session: Any) -> bool:
    """Return whether a session was stopped, or the JVM of a classic one has ended."""
    if not is_classic(session):
        return bool(getattr(session, "is_stopped", False))
    java = session.sparkContext._jsc
    try:
        return java is None or bool(java.sc().isStopped())
    except Exception:  # Any of py4j's, or of a socket.
        return True


def active_session() -> Any:
    """Return the session that is active in this thread, or None.

    PySpark keeps one for all threads, which each ``createDataFrame`` replaces: within a micro-batch
    by the copy of the session that its query runs in. The JVM has one for each thread.
    """
    from pyspark.sql import SparkSession

    session: Any = SparkSession.getActiveSession()
    if session is None or is_connect(session):
        return session
    found = jvm(session).org.apache.spark.sql.SparkSession.getActiveSession().get()
    return session if session._jsparkSession.equals(found) else SparkSession(session._sc, found)


def channel_builder(url: str) -> Any:
    """Return what PySpark makes the channel to a Spark Connect server with."""
    from pyspark.sql.connect import client

    name = "DefaultChannelBuilder" if hasattr(client, "DefaultChannelBuilder") else "ChannelBuilder"
    return getattr(client, name)(url)  # The latter before PySpark 4.


def connected_session(url: str) -> Any:
    """Return the session that PySpark would take if it is of the server and user of a URL.

    PySpark takes the active session of Spark Connect, whichever server it is of.
    """
    session = _connect_session()
    if session is None:
        return None
    wanted, given = channel_builder(url), session.client._builder
    is_there = wanted.endpoint == getattr(given, "endpoint", None)
    return session if is_there and wanted.userId in (None, given.userId) else None


_LEAVING_SECONDS = 2.0


def leave_only_living_server(client: Any) -> None:
    """Skip PySpark's ten minutes of retries at exit if the server is gone."""
    leave = getattr(client, "_on_exit", None)
    if leave is None:
        return

    def if_alive() -> None:
        import grpc

        with suppress(grpc.FutureTimeoutError, ValueError):  # The latter: it is closed.
            grpc.channel_ready_future(client._channel).result(_LEAVING_SECONDS)
            leave()

    atexit.unregister(leave)
    atexit.register(if_alive)


def new_session(url: str, conf: Mapping[str, str]) -> Any:
    """Return a new session of a server, also if one of another server is active.

    Raises:
        PySparkRuntimeError: there is a classic session, beside which there can be none.
    """
    from pyspark.sql import SparkSession

    builder: Any = SparkSession.builder.remote(url).config(map={**conf})
    # The former takes an active session, the latter does not look for a classic one.
    session = builder.getOrCreate() if _connect_session() is None else builder.create()
    leave_only_living_server(session.client)
    return session


def _connect_session() -> Any:
    from pyspark.sql.connect.session import SparkSession

    return SparkSession.getActiveSession() or SparkSession._default_session


def configure(session: Any, conf: Mapping[str, str]) -> None:
    """Change settings of a session of Spark Connect; those that it refuses are warnings."""
    from pyspark.sql.connect.session import SparkSession

    SparkSession.builder.config(map={**conf})._apply_options(session)


def local_checkpoint(frame: Any) -> Any:
    """Compute the rows of a DataFrame and return a DataFrame of them.

    Over Spark Connect PySpark gives it to the active session of the thread, or else to the default
    one. With several sessions in a process that may be another server's.
    """
    if not is_connect(frame):
        return frame.localCheckpoint(eager=True)
    from pyspark.sql.connect.session import SparkSession

    active = SparkSession._active_session
    before = getattr(active, "session", None)
    active.session = frame.sparkSession
    try:
        return frame.localCheckpoint(eager=True)
    finally:
        active.session = before


def ship(session: Any, path: str, *, module: bool = False) -> None:
    """Send a file to the workers; before Spark 4.0 by the context of a classic session.

    Args:
        session: a classic or Spark Connect session.
        module: whether the workers may import its contents.
    """
    # A classic session looks for a file of this machine, even where it gets a URL.
    by_session = version() >= _CLASSIC_SHIPS_FROM and "://" not in path
    if is_connect(session) or by_session:
        session.addArtifacts(path, **{"pyfile" if module else "file": True})
    elif module:
        session.sparkContext.addPyFile(path)
    else:
        session.sparkContext.addFile(path)


# A worker.


def state_client(map_state: Any) -> tuple[str, Any, Any]:
    """Return the connection over which a worker asks Spark for the contents of a map state.

    Returns:
        The name of the state, the file of the connection and the serializer of its values.

    Raises:
        AttributeError: its internals differ; the public methods do the same, slower.
    """
    import pyspark.sql.streaming.proto.StateMessage_pb2 as messages

    fields = messages.MapStateCall.DESCRIPTOR.fields_by_name
    if not {"stateName", "getValue", "updateValue", "removeKey"}.issubset(fields.keys()):
        raise AttributeError("MapStateCall has other fields")
    client = map_state._mapStateClient._stateful_processor_api_client
    return map_state._stateName, client.sockfile, client.pickleSer


def output_of_task() -> Any:
    """Return the stream to which PySpark's worker writes the output of this thread's task.

    None if there is none; then the task does not notice when it is no longer needed.
    """
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith("pyspark.") and (
            stream := frame.f_locals.get("outfile")
        ):
            return stream
        frame = frame.f_back
    return None


WITHOUT_CHECKSUMS = {"fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.RawLocalFs"}
"""With these settings a query keeps no checksums of the files of a checkpoint on this machine.

Hadoop keeps each of them in a file of its own, and starts processes to put a file in its place.
"""


# The texts of errors.

GAVE_UP = re.compile(
    r"indeterminate output was failed and retried"
    r"|cannot rollback (a running|completed) result stage"
    r"|for the maximum allowable number of times"
    r"|failed the maximum allowable number of times"
    r"|exceeded the maximum allowable total stage attempts"
    r"|most recent failure: [^\n]*(ExecutorLostFailure|java\.nio\.channels\.ClosedChannelException)"
)
"""Errors after the loss of data that Spark cannot recompute within the job."""

CONCURRENT = re.compile(r"Concurrent update to the log\. Multiple streaming jobs")
"""Errors after another query planned or committed the micro-batch of the same checkpoint."""

NOT_STARTED = re.compile(
    r"Python worker failed to connect back|Timed out while waiting for the Python worker to connect"
)
"""Errors of a machine that temporarily lacks the time or memory for another process."""

DIED = re.compile(
    r"Python worker exited unexpectedly|ExecutorLostFailure|exited with code \d+|exit code:? \d+",
    re.IGNORECASE,
)
"""Errors after a worker or its executor has died during a task."""

OTHER_PYTHON = re.compile(
    r"Python in worker has different version:? (?P<worker>\d+\.\d+)"
    r" than that in driver:? (?P<driver>\d+\.\d+)"
)
"""Errors when the Python versions of worker and driver differ."""

NO_PROGRAM = re.compile(
    r"Cannot run program \"(?P<program>[^\"\n]+)\"[^\n:]*: "
    r"(?P<why>(?:Exec failed, )?error(?:=|: )(?:2|13)\b(?:(?!Cannot run program)[^\n])*)"
)
"""Errors for a missing or non-executable program, such as a worker's Python."""

WRAPPED = re.compile(
    r"An error occurred while calling \S+\s*:?"
    r"|\borg\.apache\.spark\.SparkException: (?=Exception thrown|Job aborted)"
    r"|Exception thrown in awaitResult:"
    r"|Job aborted due to stage failure: Task \d+ in stage [\d.]+ failed \d+ times, "
    r"most recent failure: "
    r"|Lost task [\d.]+ in stage [\d.]+ \(TID \d+\) \([^)\n]*\):"
    r"|Caused by:"
)
"""Texts that py4j and Spark put around an error message."""

KAFKA_FAILED = re.compile(
    r"org\.apache\.kafka\.common\.(errors|config|KafkaException)\b"
    r"|Failed to (create new|construct) [Kk]afka"
)
"""Errors of the clients of Kafka in Spark's source and sink."""

KAFKA_LOST = re.compile(
    r"KAFKA_DATA_LOSS|KafkaIllegalStateException|[Ss]ome data may have been (lost|missed)"
)
"""Errors of Spark's source of Kafka about records that are gone."""

QUERY_DUMP = re.compile(r"\s*=== Streaming Query ===.*", re.DOTALL)
"""The plan of a streaming query that Spark adds to its error."""

JVM_GONE = re.compile(
    r"Connection refused|Connection reset by peer|Broken pipe|Answer from Java side is empty"
    r"|Error while (sending|receiving)|An error occurred while trying to connect to the Java server"
    r"|^An error occurred while calling \S+\s*$(?!\n)"
)
"""Errors, by py4j or the system, when the driver's JVM or another server does not respond."""

GATEWAY_GONE = re.compile(
    r"\A\[Errno \d+\] |\AError while (sending|receiving)( or receiving)?\s*\Z"
    r"|Answer from Java side is empty|An error occurred while trying to connect to the Java server"
    r"|\AAn error occurred while calling \S+\s*\Z"
)
"""Errors of py4j or its socket, which only occur when the JVM does not respond."""

OUT_OF_HEAP = 52
"""Exit code of a Spark JVM that has run out of memory."""

OF_MEMORY = re.compile(
    r"exit(ed with)? (code|status):? 137|OOMKilled|exceeding (physical |virtual )?memory limits",
    re.IGNORECASE,
)
"""Errors after a process was killed for its memory."""

HEAP_FULL = re.compile(
    r"OutOfMemory|OutOfDirectMemoryError|Requested array size exceeds VM limit"
    r"|exit(ed with)? (code|status):? 52\b|Unable to acquire \d+ bytes of memory"
    r"|Not enough memory to (build|grow)|Cannot grow BufferHolder"
)
"""Errors after a JVM has run out of memory."""

NO_SETTING = re.compile(r"SQL_CONF_NOT_FOUND|NoSuchElementException")
"""Errors for a setting that is neither set nor has a default."""

ENDLESS_REFUSED = re.compile(r"INFINITE_STREAMING_TRIGGER_NOT_SUPPORTED")
"""Errors of platforms on which a streaming query has to end."""

STARTED_AT_ONCE = re.compile(r"Multiple streaming queries are concurrently using [^\n]*metadata")
"""Errors of a query when another one has made the first file of the checkpoint meanwhile."""

NAME_TAKEN = re.compile(r"Cannot start query with name [^\n]* already active")
"""Errors when another streaming query of the session has the same name."""

DAMAGED = re.compile(
    r"Failed to read log file"
    r"|Log file was malformed"
    r"|Incomplete log file"
    r"|Error reading stream metadata"
    r"|ChecksumException"
    r"|CANNOT_LOAD_STATE_STORE(?!\.(\w*OUT_OF_MEMORY|UNRELEASED_THREAD_ERROR))"
    r"|CANNOT_LOAD_CHECKPOINT_FILE_MANAGER"
    r"|STREAMING_CHECKPOINT_MISSING_METADATA_FILE"
    r"|STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY"
    r"|\bbatch(es)? [^\n]*doesn't exist"
)
"""Errors for a checkpoint file that differs from what Spark wrote."""

CHECKPOINT_FILE = re.compile(
    r"(?:[a-z][a-z0-9+.-]*:)?/[^\s'\"\[\],;)]*/(?:offsets|commits|metadata|sources|state)"
    r"(?:/[^\s'\"\[\],;)]*[^\s'\"\[\],;:.)])?"
)
"""Path of the damaged file."""


def first_line(error: Exception) -> str:
    """Return the first line of an error of a session that says something."""
    lines = str(error).strip().splitlines()
    # py4j's first line says nothing about an error of the JVM.
    if len(lines) > 1 and lines[0].startswith("An error occurred while calling "):
        return lines[1].removeprefix(": ")
    return lines[0] if lines else type(error).__name__


def cause_of(error: Exception) -> str:
    """Return the first line of the root cause of a PySpark error; empty if it tells none."""
    cause: Any = getattr(error, "_cause", None)
    while getattr(cause, "_cause", None) is not None:
        cause = cause._cause
    return next(iter(str(cause).strip().splitlines()), "") if cause is not None else ""


MISSING_SOURCE = re.compile(
    r"DATA_SOURCE_NOT_FOUND|Failed to find (the )?data source|ClassNotFoundException"
    r"|NoClassDefFoundError|No suitable driver|STREAMING_SOURCE_NOT_FOUND"
)
"""Errors when the package of a data source is missing."""

MISSING_TABLE = re.compile(r"TABLE_OR_VIEW_NOT_FOUND|Table or view not found|SCHEMA_NOT_FOUND")
"""Errors for a table or schema missing in a catalog."""

OTHER_PLAN = re.compile(
    r"sources in the checkpoint offsets and now there are|STATEFUL_OPERATOR_NOT_MATCH"
)
"""Errors for a checkpoint of a query with other sources or stateful operators."""

OTHER_VIEW = re.compile(
    r"is not a temp view of (batch|streaming) logical plan|is a permanent view, which is not"
)
"""Errors for a batch view read as a stream, or the reverse."""

OTHER_VERSION = re.compile(
    r"NoSuchMethodError|NoSuchFieldError|AbstractMethodError|ClassChangeError"
    # Streaming queries report a missing method by its signature only.
    r"|terminated with exception: '[\w.$\[\]]+ [\w.$]+\.[\w<>$]+\("
)
"""Errors when the package of a data source is for another Spark version."""
