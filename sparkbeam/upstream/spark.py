"""What sparkbeam assumes of the inside of PySpark, and of the texts of Spark's errors.

Each private name is here and nowhere else. A release of Spark may change any of them, or a text,
and then a test of this module fails that names it. Where a function says so, its caller goes on
without what it gives.
"""

import json
import logging
import os
import re
import socket
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import FrameType
from typing import Any, NamedTuple

# Schemas.

_foreign: ContextVar[list[str] | None] = ContextVar("sparkbeam_foreign_types", default=None)


@contextmanager
def no_foreign_types() -> Iterator[list[str]]:
    """Meanwhile this thread imports nothing because a schema names it.

    The metadata of files and tables name classes of user-defined types, and PySpark imports the
    module of one where it reads the schema of a DataFrame. It gets the type behind it here.

    Yields:
        The names of the classes that were met.

    Raises:
        ValueError: the type behind one is not told, as over Spark Connect.
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
def unlogged() -> Iterator[None]:
    """Meanwhile PySpark logs no error of a column that this thread asks for in vain."""
    from pyspark.logger import PySparkLogger

    thread = threading.get_ident()

    def is_of_another(record: logging.LogRecord) -> bool:
        return record.thread != thread

    logger = PySparkLogger.getLogger("DataFrameQueryContextLogger")
    logger.addFilter(is_of_another)
    try:
        yield
    finally:
        logger.removeFilter(is_of_another)


class _PlainTypes:
    """``UserDefinedType.fromJson``, which PySpark calls with what a schema says of a type."""

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
            raise ValueError(f"there is a column of the user-defined type {name}")
        field = {"name": "_", "type": told["sqlType"], "nullable": True, "metadata": {}}
        return types.StructType.fromJson({"type": "struct", "fields": [field]}).fields[0].dataType


def is_imported(name: str) -> bool:
    """Whether the module of a class has been imported, or is one of PySpark's own."""
    module = name.rpartition(".")[0]
    return module in sys.modules or module.startswith("pyspark.")


# The JVM of a driver.


def has_jvm() -> bool:
    """Whether this process has a JVM of Spark's."""
    from pyspark import SparkContext

    return SparkContext._gateway is not None


def start_jvm(conf: Mapping[str, str], popen_kwargs: Mapping[str, Any]) -> Any:
    """Starts the JVM that the next session of this process runs in; gives its process.

    Args:
        conf: the settings of the session.
        popen_kwargs: further arguments for ``subprocess.Popen``.
    """
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    settings = SparkConf(loadDefaults=False).setAll([*conf.items()])
    gateway = launch_gateway(settings, popen_kwargs=dict(popen_kwargs))
    SparkContext._ensure_initialized(gateway=gateway, conf=settings)
    return gateway.proc


def jvm(session: Any) -> Any:
    """The JVM of a classic session, as py4j gives it."""
    return session._jvm


def jvm_process(session: Any) -> Any | None:
    """The process of a classic session's JVM; None where PySpark has not started it here."""
    from pyspark import SparkContext

    return getattr(SparkContext._gateway, "proc", None) if is_classic(session) else None


def hush_accumulators(session: Any) -> None:
    """Keeps PySpark's server of accumulators from printing that the JVM of a session has gone."""
    server = getattr(session.sparkContext, "_accumulatorServer", None)
    usual = getattr(server, "handle_error", None)
    if usual is None:
        return

    def handle_error(*where: Any) -> None:
        if not isinstance(sys.exc_info()[1], EOFError | OSError):
            usual(*where)

    vars(server)["handle_error"] = handle_error


def heap_bytes(session: Any) -> int:
    """The most memory that the JVM of a classic session takes for its heap."""
    return int(jvm(session).java.lang.Runtime.getRuntime().maxMemory())


@contextmanager
def free_connect_port() -> Iterator[None]:
    """Lets PySpark start its local server of Spark Connect on a port that is free.

    It does so in tests of its own, as this variable tells it; else on 15002, of which a machine
    has one. The JVM has to run already, as it must not see the variable. Without it a second
    program on a machine fails.
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
    """The socket over which a thread of the JVM is calling this thread of Python.

    Nobody closes it when the thread of the JVM ends. Once it is shut down, this thread closes it
    and ends. None where the frame is not one of a JVM.
    """
    if not is_classic(frame):
        return None
    connection = jvm(frame.sparkSession)._gateway_client.get_thread_connection()
    return None if connection is None else connection.socket


NOISE = re.compile(
    rb"WARNING: Using incubator modules: |"
    rb"(Starting )?Streaming (TransformWithStateInPandas Python|ForeachBatch|query listener) worker"
)
"""The beginnings of lines that a JVM writes at each start, and that tell nothing."""

# Older versions.

STREAMING_FROM = (4, 2)
"""The first PySpark on which streaming pipelines run; those in batch run on older ones."""

_CLASSIC_SHIPS_FROM = (4, 0)
"""The first PySpark whose classic sessions send files; 3.5 has the method, which fails."""


def version() -> tuple[int, ...]:
    """That of PySpark, as far as minor versions."""
    import pyspark

    return tuple(map(int, pyspark.__version__.split(".")[:2]))


def spread_by(rows: Any, partitions: int, number: Any) -> Any:
    """Rows in the partitions that a column of integers names, modulo their number.

    Before Spark 4.1 a partition cannot be named, but only what is hashed to find it.

    Args:
        rows: a DataFrame.
        partitions: how many.
        number: the column.
    """
    if hasattr(rows, "repartitionById"):
        return rows.repartitionById(partitions, number)
    from pyspark.sql import functions as sf

    hashed = sf.lit(hashed_to(partitions))
    return rows.repartition(partitions, sf.element_at(hashed, sf.pmod(number, partitions) + 1))


def hashed_to(partitions: int) -> list[int]:
    """For each partition an integer that Spark's hash partitioning puts there."""
    found: dict[int, int] = {}
    number = 0
    while len(found) < partitions:
        found.setdefault(murmur3(number) % partitions, number)
        number += 1
    return [found[partition] for partition in range(partitions)]


def murmur3(number: int) -> int:
    """Spark's hash of an integer of 32 bits that is not negative.

    That is MurmurHash3 (Austin Appleby), x86, 32 bits, of the four bytes, with the seed 42.
    """
    mixed = _rotated(number * 0xCC9E2D51 & _WORD, 15) * 0x1B873593 & _WORD
    mixed = (_rotated(42 ^ mixed, 13) * 5 + 0xE6546B64 & _WORD) ^ 4
    mixed = (mixed ^ mixed >> 16) * 0x85EBCA6B & _WORD
    mixed = (mixed ^ mixed >> 13) * 0xC2B2AE35 & _WORD
    mixed ^= mixed >> 16
    return mixed - (mixed >> 31 << 32)


def of_unknown_size(session: Any) -> Any:
    """A DataFrame with the column ``id`` and one row, which Spark takes for terabytes.

    It believes that what Python makes of a row is about as large as the row, and would broadcast
    whatever is made of a range. With this beside it Spark waits for the sizes that come out, as an
    adaptive plan has them. A limit is believed where nothing is known of the rows before it.
    """
    from pyspark.sql import functions as sf

    one = session.range(0, 1, 1, 1)
    return one.select(sf.explode(sf.array("id")).alias("id")).limit(_MOST_ROWS)


@contextmanager
def jdbc_connection(session: Any, options: Mapping[str, str]) -> Iterator[tuple[Any, Any]]:
    """A connection of Java's to the database that Spark's format ``jdbc`` writes to.

    Args:
        session: a classic session.
        options: of the data source.

    Yields:
        The connection, and the function that makes an identifier of a name.
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


def drawn(frame: Any, rows: int, characters: int) -> str:
    """The table that a DataFrame's ``show`` prints.

    Args:
        frame: the DataFrame.
        rows: how many of them are shown.
        characters: how many of a value are shown; 0 for all of them.
    """
    return str(frame._show_string(rows, characters))


def estimated_bytes(frame: Any) -> int | None:
    """How large Spark believes that a DataFrame is, before anything runs; None if it does not say.

    It takes eight exbibytes for what it knows nothing of.
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
"""So many of the last queries are asked for the stages that they have had."""

_WORD = 0xFFFFFFFF


def _rotated(word: int, bits: int) -> int:
    return (word << bits | word >> 32 - bits) & _WORD


def arrow_table(frame: Any) -> Any:
    """All rows of a DataFrame; before Spark 4.0 no public method gives them as an Arrow table."""
    if hasattr(frame, "toArrow"):
        return frame.toArrow()
    import pyarrow as pa
    from pyspark.sql.pandas.types import to_arrow_schema

    if is_classic(frame):
        return pa.Table.from_batches(frame._collect_as_arrow(), to_arrow_schema(frame.schema))
    table, _ = frame._session.client.to_table(frame._plan.to_proto(frame._session.client))
    return table


def is_own_server() -> bool:
    """Whether this process has started the server of its sessions of Spark Connect."""
    return "SPARK_LOCAL_REMOTE" in os.environ


def stage_data(session: Any, id: int) -> dict[str, Any]:
    """What a classic session knows of the last attempt at a stage, as :class:`.SparkStage` has it.

    Raises:
        Exception: of whatever type, where it has forgotten the stage, or has been stopped.
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
        # Of two tasks half would be the larger one.
        quantiles[0], quantiles[1] = 0.4999, 1.0
        summary = store.taskSummary(id, data.attemptId(), quantiles)
        if summary.isDefined():
            reads = summary.get().shuffleReadMetrics().readBytes()
            found["median_bytes"], found["largest_bytes"] = int(reads.apply(0)), int(reads.apply(1))
    return found


def executed_plans(session: Any, stages: frozenset[int]) -> list[str]:
    """Spark's plans of the queries that have had some of these stages, as its UI shows them.

    An adaptive plan is there in its last form, with the first one below it.

    Raises:
        Exception: of whatever type, where the session has been stopped.
    """
    found = _executions(session, stages)
    return [str(execution.physicalPlanDescription()).strip() for execution in found]


class PlanNode(NamedTuple):
    """An operator of a plan that Spark has run.

    Attributes:
        id: unique in the plan.
        name: of the operator.
        description: all that the plan says of it.
        metrics: what it has counted, in words.
        children: the ids of those that it reads, in their order.
    """

    id: int
    name: str
    description: str
    metrics: dict[str, str]
    children: tuple[int, ...]


def executed_graphs(session: Any, stages: frozenset[int]) -> list[list[PlanNode]]:
    """The operators of the same plans as :func:`executed_plans`, adaptive ones in their last form.

    Raises:
        Exception: of whatever type, where the session has been stopped.
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
    """What is in a collection of Scala's."""
    iterator = collection.iterator()
    while iterator.hasNext():
        yield iterator.next()


def _executions(session: Any, stages: frozenset[int]) -> list[Any]:
    """The outermost queries that have had some of these stages.

    Within a micro-batch the sink runs queries of its own over rows that the query around them made.
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
    """Gives the listeners of a classic session an event in the form of the event log.

    Raises:
        Exception: of whatever type, where this version of Spark knows no such event.
    """
    context = session.sparkContext
    protocol = context._jvm.org.apache.spark.util.JsonProtocol
    context._jsc.sc().listenerBus().post(protocol.sparkEventFromJson(json.dumps(event)))


def is_connect(thing: Any) -> bool:
    """Whether a session or a DataFrame is one of a Spark Connect server."""
    return type(thing).__module__.startswith("pyspark.sql.connect.")


def is_classic(thing: Any) -> bool:
    """Whether it is one in the JVM of this process."""
    return type(thing).__module__.startswith("pyspark.sql.") and not is_connect(thing)


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


def ship(session: Any, path: str, *, module: bool = False) -> None:
    """Sends a file to the workers; before Spark 4.0 a classic session cannot, but its context.

    Args:
        session: of this or another kind.
        path: of the file.
        module: the workers may import what is in it.
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


class StateClient(NamedTuple):
    """The connection on which a worker asks Spark for what is in a map state.

    Attributes:
        name: of the state.
        file: what requests are written to and answers are read from.
        serializer: of rows.
    """

    name: str
    file: Any
    serializer: Any


def state_client(map_state: Any) -> StateClient:
    """The connection of a map state.

    Raises:
        AttributeError: it is not as sparkbeam knows it; the public methods do the same, slower.
    """
    import pyspark.sql.streaming.proto.StateMessage_pb2 as messages

    fields = messages.MapStateCall.DESCRIPTOR.fields_by_name
    if not {"stateName", "getValue", "updateValue", "removeKey"}.issubset(fields.keys()):
        raise AttributeError("MapStateCall has other fields")
    client = map_state._mapStateClient._stateful_processor_api_client
    return StateClient(map_state._stateName, client.sockfile, client.pickleSer)


def output_of_task() -> Any:
    """The stream into which PySpark's worker writes the output of the task of this thread.

    None where there is none; then a task does not notice that it is no longer wanted.
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
"""Spark has lost what it cannot, or may not, compute again within the job."""

CONCURRENT = re.compile(r"Concurrent update to the log\. Multiple streaming jobs")
"""Another query has planned, or committed, the micro-batch over the same checkpoint."""

NOT_STARTED = re.compile(
    r"Python worker failed to connect back|Timed out while waiting for the Python worker to connect"
)
"""The machine has no time, or no memory, for another process at the moment."""

DIED = re.compile(
    r"Python worker exited unexpectedly|ExecutorLostFailure|exited with code \d+|exit code:? \d+",
    re.IGNORECASE,
)
"""A worker, or its executor, has ended in the middle of a task."""

OTHER_PYTHON = re.compile(
    r"Python in worker has different version:? (?P<worker>\d+\.\d+)"
    r" than that in driver:? (?P<driver>\d+\.\d+)"
)
"""The Python of a worker is another one than the driver's."""

NO_PROGRAM = re.compile(
    r"Cannot run program \"(?P<program>[^\"\n]+)\"[^\n:]*: "
    r"(?P<why>(?:Exec failed, )?error(?:=|: )(?:2|13)\b(?:(?!Cannot run program)[^\n])*)"
)
"""There is no such program, or it may not be started: that of a worker's Python, or any other."""

WRAPPED = re.compile(
    r"An error occurred while calling \S+\s*:?"
    r"|\borg\.apache\.spark\.SparkException: (?=Exception thrown|Job aborted)"
    r"|Exception thrown in awaitResult:"
    r"|Job aborted due to stage failure: Task \d+ in stage [\d.]+ failed \d+ times, "
    r"most recent failure: "
    r"|Lost task [\d.]+ in stage [\d.]+ \(TID \d+\) \([^)\n]*\):"
    r"|Caused by:"
)
"""What py4j and Spark put around the text of an error."""

JVM_GONE = re.compile(
    r"Connection refused|Connection reset by peer|Broken pipe|Answer from Java side is empty"
    r"|Error while (sending|receiving)|An error occurred while trying to connect to the Java server"
    r"|^An error occurred while calling \S+\s*$(?!\n)"
)
"""The JVM of the driver does not answer, as py4j and the system say it, or some other server."""

GATEWAY_GONE = re.compile(
    r"\A\[Errno \d+\] |\AError while (sending|receiving)( or receiving)?\s*\Z"
    r"|Answer from Java side is empty|An error occurred while trying to connect to the Java server"
    r"|\AAn error occurred while calling \S+\s*\Z"
)
"""It is surely the JVM that does not answer: these are py4j's own words, or its socket's."""

OUT_OF_HEAP = 52
"""The code with which a JVM of Spark's exits that has no memory left."""

OF_MEMORY = re.compile(
    r"exit(ed with)? (code|status):? 137|OOMKilled|exceeding (physical |virtual )?memory limits",
    re.IGNORECASE,
)
"""It was ended for its memory."""

HEAP_FULL = re.compile(
    r"OutOfMemory|OutOfDirectMemoryError|Requested array size exceeds VM limit"
    r"|exit(ed with)? (code|status):? 52\b|Unable to acquire \d+ bytes of memory"
    r"|Not enough memory to (build|grow)|Cannot grow BufferHolder"
)
"""A JVM has no memory left."""

NAME_TAKEN = re.compile(r"Cannot start query with name [^\n]* already active")
"""Another streaming query of the session has the name."""

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
"""A file of the checkpoint is not as Spark has written it."""

CHECKPOINT_FILE = re.compile(
    r"(?:[a-z][a-z0-9+.-]*:)?/[^\s'\"\[\],;)]*/(?:offsets|commits|metadata|sources|state)"
    r"(?:/[^\s'\"\[\],;)]*[^\s'\"\[\],;:.)])?"
)
"""The path of such a file."""

MISSING_SOURCE = re.compile(
    r"DATA_SOURCE_NOT_FOUND|Failed to find (the )?data source|ClassNotFoundException"
    r"|NoClassDefFoundError|No suitable driver|STREAMING_SOURCE_NOT_FOUND"
)
"""The package of a data source is not there."""

MISSING_TABLE = re.compile(r"TABLE_OR_VIEW_NOT_FOUND|Table or view not found|SCHEMA_NOT_FOUND")
"""A catalog does not know a table or its schema."""

OTHER_PLAN = re.compile(
    r"sources in the checkpoint offsets and now there are|STATEFUL_OPERATOR_NOT_MATCH"
)
"""A query goes on over a checkpoint of one with other sources or other operators with state."""

OTHER_VIEW = re.compile(
    r"is not a temp view of (batch|streaming) logical plan|is a permanent view, which is not"
)
"""A view is read as a stream and is none, or the other way round."""

OTHER_VERSION = re.compile(
    r"NoSuchMethodError|NoSuchFieldError|AbstractMethodError|ClassChangeError"
    # How a streaming query tells of a method that is missing: by its signature alone.
    r"|terminated with exception: '[\w.$\[\]]+ [\w.$]+\.[\w<>$]+\("
)
"""The package of a data source is for another version of Spark."""
