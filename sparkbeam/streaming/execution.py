"""A plan as one Structured Streaming query: source, layers, sink."""

import json
import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from pyspark.errors import AnalysisException

from sparkbeam.common import untrusted_json
from sparkbeam.common.arguments import shown
from sparkbeam.common.display_text import beginning, line
from sparkbeam.common.temporary_folders import RunFolder
from sparkbeam.connectors.catalog_tables import refresh_table
from sparkbeam.connectors.resolve import first_line
from sparkbeam.errors import CheckpointFailed, ConfigurationError, PipelineCancelled, SparkBeamError
from sparkbeam.observe.figures.micro_batch import MicroBatch
from sparkbeam.observe.figures.phases import Phases, of_progress
from sparkbeam.options.spark_options import AVAILABLE_NOW
from sparkbeam.plan.addresses import Addresses, addresses
from sparkbeam.plan.fingerprint import (
    differences,
    fingerprint,
    other_versions,
    to_store,
    unreadable_format,
)
from sparkbeam.plan.layers import start_steps, topology
from sparkbeam.plan.model import Plan
from sparkbeam.spark import session as sessions
from sparkbeam.spark.capabilities import Capability, has, is_remote, lack
from sparkbeam.spark.failures import explained
from sparkbeam.streaming.available_now import AvailableNowRun, has_caught_up
from sparkbeam.streaming.checkpoint_files import (
    Files,
    ServerFiles,
    absolute,
    checkpoint_id,
    damaged,
    files,
    files_of,
)
from sparkbeam.streaming.feedback import FeedbackFiles
from sparkbeam.streaming.generation import Generation, OwnFiles, only_if_taken
from sparkbeam.streaming.offset_commits import OffsetCommits
from sparkbeam.streaming.query_sink import QuerySink
from sparkbeam.streaming.source_watermarks import spark_sources
from sparkbeam.streaming.spark_sources import SourceFrame, connects, source_frame
from sparkbeam.streaming.stopping import StoppableSink
from sparkbeam.streaming.stored_names import StoredNames
from sparkbeam.streaming.tick_source import TO_FIRST_LAYER, WATERMARK, SourceSpec, TickSource
from sparkbeam.upstream.spark import (
    ENDLESS_REFUSED,
    NAME_TAKEN,
    STARTED_AT_ONCE,
    freezes_available_now,
    has_pandas_state,
    has_row_state,
    is_connect,
    shown_offset,
)
from sparkbeam.wire.environment import Environment
from sparkbeam.wire.failure import FailureReports
from sparkbeam.wire.messages import DDL, SCHEMA
from sparkbeam.wire.output_lines import OutputSpec
from sparkbeam.wire.reports import Reporter, TaskReport
from sparkbeam.worker.streaming.spark_operators import PandasShardLayer, ShardLayer, TickLayer
from sparkbeam.worker.streaming.tasks import LayerTask, layer_tasks

_LOG = logging.getLogger(__name__)
_POLL_SECONDS = 0.02
_REMOTE_POLL_SECONDS = 0.2
_LOOK_SECONDS = 0.5
_PIPELINE = "pipeline.json"
_FORM, _PANDAS = "operator", "pandas"
_MOST_DIFFERENCES = 5
_LONGEST = 400
_TYPES = (
    "Coders are derived from a step's output types, which .with_output_types(...) can preserve. "
)


class StreamingExecution:
    """Execution of one plan as a query on one session.

    Args:
        session: the Spark session of the query.
        plan: the plan to run.
        checkpoint: the location of offsets, state and feedback; None for a temporary folder.
        shards: the number of shards of the keys; None for the number of cores.
        trigger: of micro-batches, as in ``--trigger``.
        max_batch_elements: approximate number of elements of unbounded sources per micro-batch.
        output: handling of the workers' output and logs.
        environment: the part of the driver's environment that workers need.
        reports: failures of the workers.
        reporter: receives live metrics of the workers, or None.
        proceed: called from time to time; its exception ends the run.
        drain: once set, the sources end, and the run ends when everything has been processed.
        name: of the Spark query; None for no name.
        committed: called for each committed micro-batch with the number of its tick and all reports
            so far.
        observed: called with the figures of each committed micro-batch.
        begun: called with the run's own files and the plan with its addresses, once the run owns
            the checkpoint; again at each restart.

    Raises:
        ConfigurationError: a checkpoint location is required but missing.
    """

    def __init__(
        self,
        session: Any,
        plan: Plan,
        checkpoint: str | None,
        *,
        shards: int | None = None,
        trigger: str | None = None,
        max_batch_elements: int | None = None,
        output: OutputSpec | None = None,
        environment: Environment | None = None,
        reports: FailureReports | None = None,
        reporter: Reporter | None = None,
        proceed: Callable[[], None] = lambda: None,
        drain: threading.Event | None = None,
        name: str | None = None,
        committed: Callable[[int, list[TaskReport]], None] = lambda *_: None,
        observed: Callable[[MicroBatch], None] = lambda _: None,
        begun: Callable[[Files, Plan], None] = lambda *_: None,
    ) -> None:
        _check(session, checkpoint)
        count = shards or sessions.cores(session)
        self._session = session
        self._topology = topology(plan)
        self._is_remote = is_connect(session)
        self._folder = RunFolder("checkpoint") if checkpoint is None else None
        self._checkpoint = absolute(checkpoint) if checkpoint else self._private_folder()
        self._poll_seconds = _REMOTE_POLL_SECONDS if self._is_remote else _POLL_SECONDS
        self._files = files_of(session, self._checkpoint)
        self._feedback = FeedbackFiles(self._files)
        self._generation: Generation | None = None
        self._shards = _shards(self._session, count)
        self._set_trigger(trigger if has(session, Capability.ENDLESS) else AVAILABLE_NOW)
        self._next_look = 0.0
        self._in_pandas = False
        self._has_rows = has_row_state(session)
        self._max_batch_elements = max_batch_elements
        self._output = output
        self._environment = environment
        self._failures = reports or FailureReports()
        self._reporter = reporter
        self._name = name
        self._proceed = proceed
        self._drain = drain or threading.Event()
        self._tell = committed
        self._observe = observed
        self._begin = begun
        self._stopping = False
        # The checkpoint is read later, or the output of Spark's sinks, which has its settings.
        self._outlives = self._folder is None or bool(plan.sinks)
        # Spark's sink runs in a copy of the session with its own cached tables.
        self._tables = [sink.write.table for sink in plan.sinks if sink.write.table]
        self._number: int | None = None
        self._commits: OffsetCommits | None = None
        self._own_sink: QuerySink | None = None
        self._of_spark: tuple[int | None, Phases] = (None, {})
        self._reports: list[TaskReport] = []

    def run(self) -> list[TaskReport]:
        """Execute the plan to its end; a repeated call continues.

        Returns:
            The reports of all tasks.

        Raises:
            CheckpointTaken: another driver has started over the checkpoint.
        """
        generation = self._start()
        own = OwnFiles(self._files, generation)
        self._feedback = FeedbackFiles(own)
        self._names = StoredNames(self._topology.plan)
        self._begin(own, self._topology.plan)
        self._stopping = False
        sources = self._sources(own)
        self._commits = OffsetCommits(sources, self._feedback)
        sink = self._sink(generation)
        writer = (
            self._rows(sources, own, generation)
            .writeStream.foreachBatch(sink)
            .option("checkpointLocation", self._checkpoint)
            .trigger(**self._trigger_arguments())
        )
        if self._name is not None:
            writer = writer.queryName(self._name)
        with (
            named(self._name),
            runnable([source.label for source in sources if source.has_plan], self._failures),
            sessions.set_for_streaming(self._session, len(self._shards), outlives=self._outlives),
        ):
            query = self._begun(writer, own)
        if query is None:
            return self.run()
        asked = done = False
        pause, heard = self._poll_seconds, self._number
        try:
            while query.isActive and not (done := self._is_done(query)) and not self._is_over():
                self._proceed()
                if self._drain.is_set() and not asked:
                    self._feedback.ask_to_drain()
                    asked = True
                # Each call takes both sides a millisecond, also while nothing happens.
                pause = self._poll_seconds if heard != self._number else pause * 1.1
                heard = self._number
                query.awaitTermination(min(pause, _REMOTE_POLL_SECONDS))
            done |= self._hear(query)
        except SparkBeamError:
            raise
        except Exception:
            _raise_own(sink)
            with only_if_taken():
                own.check()
            raise
        finally:
            self._stopping = True
            query.stop()
            self._commits.close()
            if self._own_sink is not None:
                self._own_sink.close()
            if isinstance(sink, StoppableSink):
                sink.close()
        error = query.exception()
        if error is not None:
            _raise_own(sink)
            with only_if_taken():
                own.check()
            raise error
        if not done:
            own.check()
        return self._reports

    def micro_batches(self) -> int:
        """Return the number of the last known committed micro-batch."""
        return self._number or 0

    def close(self) -> None:
        """Remove temporary files of this execution."""
        if self._folder is not None:
            self._files.remove_all()
            self._folder.cleanup()

    def _private_folder(self) -> str:
        """Return a folder for this run only, owned by this process or by the server."""
        assert self._folder is not None
        own = self._folder.name
        if (
            not is_remote(self._session)
            or ServerFiles(self._session, own).make_private() is not None
        ):
            return own
        # The server runs as another user.
        its = f"{own}-{uuid.uuid4().hex}"
        ServerFiles(self._session, its).make_private()
        return its

    def _sink(self, generation: Generation) -> Callable[[Any, int], None]:
        own = OwnFiles(files(self._checkpoint), generation)
        sink = QuerySink(self._topology, own, self._failures)
        # Over Connect it runs elsewhere and cannot tell.
        if self._is_remote:
            return sink
        self._own_sink = sink
        return StoppableSink(
            sink, self._is_stopping, lambda error: str(explained(error, self._failures))
        )

    def _begun(self, writer: Any, own: OwnFiles) -> Any:
        """Start a query; None if another start is to be made of it.

        That is so if the session only runs queries that end, as that of the next start does, or if
        an older driver has begun the checkpoint at the same time.

        Raises:
            CheckpointTaken: a newer one has.
        """
        try:
            return writer.start()
        except Exception as error:
            if STARTED_AT_ONCE.search(str(error)):
                own.check()
                return None
            if not ENDLESS_REFUSED.search(str(error)):
                raise
            if self._trigger == AVAILABLE_NOW:
                raise ConfigurationError(
                    f"The Spark session has no {Capability.ENDLESS.value}, and its Spark has no "
                    f"{Capability.AVAILABLE_NOW.value}: no stream can run here. Use a session "
                    "of Spark 4.2 or newer, or one that runs endless queries."
                ) from error
        lack(self._session, Capability.ENDLESS)
        self._set_trigger(AVAILABLE_NOW)
        return None

    def _set_trigger(self, trigger: str | None) -> None:
        self._trigger = trigger
        self._available_now: AvailableNowRun | None = None
        if trigger == AVAILABLE_NOW and not freezes_available_now():
            self._available_now = AvailableNowRun.from_plan(self._topology.plan)

    def _is_stopping(self) -> bool:
        try:
            self._proceed()
        except PipelineCancelled:
            return True
        return self._stopping

    def _trigger_arguments(self) -> dict[str, Any]:
        if self._trigger is None or self._available_now is not None:
            return {"processingTime": "0 seconds"}
        if self._trigger == AVAILABLE_NOW:
            return {"availableNow": True}
        return {"processingTime": self._trigger}

    def _start(self) -> Generation:
        """Take over the checkpoint from a driver that may still use it.

        Raises:
            ConfigurationError: it belongs to another pipeline, is drained, or cannot be trusted.
        """
        now = fingerprint(self._topology, len(self._shards))
        if now["layers"] > 1 and not (self._has_rows or has_pandas_state(self._session)):
            raise ConfigurationError(
                "A streaming pipeline with a shuffle needs Spark's transformWithState, which the "
                "installed pyspark does not have over Spark Connect: give a --spark_master, or "
                "install pyspark 4.1 or newer."
            )
        stored = stored_pipeline(self._files, self._checkpoint)
        mistrusted = self._files.untrusted_reason()
        if mistrusted is not None:
            raise ConfigurationError(
                f"--checkpoint_location={self._checkpoint} cannot be trusted: {mistrusted}. "
                "Anyone who can write there controls the pipeline. Inspect its content; then make "
                "it private with chown and chmod go-w, set its sticky bit with chmod +t if several "
                "users must write, or give another --checkpoint_location."
            )
        if self._generation is not None:
            self._generation.check(self._files)  # A restart of the same run takes nothing over.
        elif self._feedback.is_drained():
            raise ConfigurationError(
                f"--checkpoint_location={self._checkpoint} is drained: the sources of its pipeline "
                "have ended and all their data is processed, so nothing is left to "
                "run. Start with another --checkpoint_location, or remove this one to start over."
            )
        # A program that may not continue must not disturb the running one.
        self._check_stored(stored, now)
        self._generation = Generation.begin(self._files, self._checkpoint)
        # From here on no other driver writes to it.
        stored = stored_pipeline(self._files, self._checkpoint)
        versions, found = self._check_stored(stored, now)
        if versions:
            _LOG.warning(
                "The checkpoint %s was written by other versions and continues: %s.",
                self._checkpoint,
                line(", ".join(versions)),
            )
        self._topology = topology(found.applied(self._topology.plan))
        self._in_pandas = self._keeps_pandas(stored)
        kept = to_store(self._topology, len(self._shards), found)
        new = json.dumps(kept | {_FORM: _PANDAS} if self._in_pandas else kept).encode()
        if stored != new:
            OwnFiles(self._files, self._generation).write(_PIPELINE, new)
        return self._generation

    def _check_stored(
        self, content: bytes | None, now: dict[str, Any]
    ) -> tuple[list[str], Addresses]:
        """Check that the checkpoint, if there is one, belongs to this pipeline.

        Args:
            content: its stored description of the pipeline.
            now: the fingerprint of the pipeline to run.

        Returns:
            The changed versions, in words, and the addresses of the plan's state.

        Raises:
            ConfigurationError: the pipeline no longer fits its state, or another version has
                written it in an unknown format.
        """
        metadata = self._files.read_log("metadata")
        if content is None and metadata is not None:
            raise damaged(self._files.path(_PIPELINE), how="missing")
        try:
            if metadata is not None:
                untrusted_json.loaded(metadata)
        except ValueError:
            # Spark's own error names neither the file nor the checkpoint.
            raise damaged(f"{self._checkpoint}/metadata") from None
        try:
            stored = untrusted_json.loaded(content) if content is not None else now
            unreadable = unreadable_format(stored)
            if unreadable is None:
                found = differences(stored, now)
                versions = other_versions(stored, now)
                found_at = addresses(stored if content is not None else None, now)
        except (ValueError, TypeError, AttributeError, LookupError):
            raise damaged(self._files.path(_PIPELINE)) from None
        if unreadable is not None:
            raise ConfigurationError(
                f"--checkpoint_location={self._checkpoint} cannot be continued: {unreadable}. "
                "Drain it with the version that wrote it (sparkbeam drain), or start with another "
                "--checkpoint_location."
            )
        if stored["layers"] > 1 and not self._keeps_pandas(content) and not self._has_rows:
            raise ConfigurationError(
                f"--checkpoint_location={self._checkpoint} cannot be continued here: "
                "transformWithState over rows wrote its state, and the installed pyspark only has "
                "transformWithStateInPandas. Continue with pyspark 4.1 or newer, or start with "
                "another --checkpoint_location."
            )
        if found:
            more = len(found) - _MOST_DIFFERENCES
            raise ConfigurationError(
                f"--checkpoint_location={self._checkpoint} holds the state of another pipeline: "
                f"{'; '.join(found[:_MOST_DIFFERENCES])}{f'; and {more} more' * (more > 0)}. "
                f"{_TYPES if any('coder' in text for text in found) else ''}"
                "Undo the change, or start with another --checkpoint_location."
            )
        return versions, found_at

    def _keeps_pandas(self, content: bytes | None) -> bool:
        """Return whether ``transformWithStateInPandas`` keeps the state of the checkpoint.

        Spark lets neither form of the operator continue the state of the other.

        Args:
            content: the stored description of its pipeline; None for a new checkpoint.
        """
        if content is None:
            return not self._has_rows
        return bool(untrusted_json.loaded(content).get(_FORM) == _PANDAS)

    def _is_done(self, query: Any) -> bool:
        """Return whether the last micro-batch has been committed."""
        finished = self._hear(query)
        if self._number is not None or query.status["message"] != "Waiting for data to arrive":
            return finished
        # It has found no data. If an earlier run has done everything, there is no micro-batch.
        return self._hear_of(self._feedback.last_number())

    def _is_over(self) -> bool:
        """Return whether the tick source has found the end of the run; asks from time to time."""
        now = time.monotonic()
        if self._available_now is None or self._generation is None or now < self._next_look:
            return False
        self._next_look = now + _LOOK_SECONDS
        return self._feedback.is_over(self._generation.token)

    def _hear(self, query: Any) -> bool:
        """Process newly committed micro-batches; return whether nothing is left to do."""
        sink = self._own_sink
        if self._number is not None and sink is not None and sink.number <= self._number:
            return False  # Asking Spark takes both sides a millisecond.
        progress = query.lastProgress
        last = None if progress is None else _committed_tick(progress)
        if last is None:
            return False
        self._of_spark = last, of_progress(progress)
        self._note_caught_up(last, progress["sources"][1:])
        first = last if self._number is None else self._number + 1
        if self._commits is not None and last >= first:
            self._commits.after(last)
        return any(self._hear_of(number) for number in range(first, last + 1))

    def _note_caught_up(self, number: int, sources: Any) -> None:
        """Tell the tick source if a micro-batch of an available-now run has read all rows."""
        run, generation = self._available_now, self._generation
        if run is None or generation is None or not run.goes_on or run.takes_all:
            return
        if has_caught_up(sources) and self._feedback.caught_up(generation.token) is None:
            self._feedback.catch_up(generation.token, number)

    def _hear_of(self, number: int | None) -> bool:
        feedback = None if number is None else self._feedback.readable(number)
        if feedback is None:
            return False
        self._number = number
        for table in self._tables:
            refresh_table(self._session, table)
        self._reports = self._names.own_reports(feedback)
        self._tell(feedback.number, self._reports)
        batch = self._names.own_batch(feedback)
        if batch is not None:
            self._observe(replace(batch, phases={**batch.phases, **self._phases(number)}))
        return feedback.finished

    def _phases(self, number: int | None) -> Phases:
        """Return this process's timings of a micro-batch."""
        told = self._of_spark, (0, {}) if self._own_sink is None else self._own_sink.phases
        return {name: took for of, some in told if of == number for name, took in some.items()}

    def _sources(self, own: Files) -> list[SourceFrame]:
        """Return the frames of Spark's sources."""
        found = spark_sources(self._topology.plan)
        count = len(self._shards)
        if found:
            sessions.fix_partitions(self._session, count)
        return [
            source_frame(
                self._session,
                source,
                number,
                count,
                self._checkpoint,
                own,
                freezes=self._available_now is not None,
            )
            for number, source in enumerate(found)
        ]

    def _rows(self, sources: list[SourceFrame], own: Files, generation: Generation) -> Any:
        first, *later = layer_tasks(
            uuid.uuid4().hex,
            self._topology,
            self._shards,
            self._max_batch_elements,
            output=self._output,
            environment=self._environment,
            checkpoint_id=checkpoint_id(own),
            reports=self._failures,
            reporter=self._reporter,
            check=generation.check_if_seen,
        )
        rows = self._ticks(first, generation, sources)
        for source in sources:
            rows = rows.unionAll(source.through(first))
        if later and self._in_pandas and not self._has_rows:
            lack(self._session, Capability.ROW_STATE)
        for task in later:
            grouped, form = rows.groupBy("shard"), (DDL, "Append", "None")
            if self._in_pandas:
                rows = grouped.transformWithStateInPandas(PandasShardLayer(task), *form)
            else:
                rows = grouped.transformWithState(ShardLayer(task), *form)
        return rows

    def _ticks(self, first: LayerTask, generation: Generation, sources: list[SourceFrame]) -> Any:
        """Return the ticks, behind the first layer.

        Args:
            first: the first layer.
            generation: of the driver.
            sources: of Spark.
        """
        through_steps = start_steps(self._topology)
        ways = TO_FIRST_LAYER if through_steps else first.ways_of_ticks
        plan, rests = self._topology.plan, self._trigger is None
        waits = rests and not self._is_remote and len(sources) == len(plan.sources)
        spec = replace(
            SourceSpec.from_plan(plan, generation),
            ways=ways,
            run=self._available_now,
            rests=rests,
            connects=connects(self._session, sources) if waits else (),
        )
        ticks = TickSource.of_query(spec)
        self._session.dataSource.register(ticks)
        rows = self._session.readStream.format(ticks.name()).load()
        if not any(source.has_plan for source in sources):
            # Only for Spark's display: no operator sees the column. But operators of a user's
            # DataFrame follow the least watermark of all, and ours would wait for them.
            rows = rows.withWatermark(WATERMARK, "0 seconds")
        rows = rows.select(*SCHEMA.names)
        return rows.mapInArrow(TickLayer(first), DDL) if through_steps else rows


@contextmanager
def named(name: str | None) -> Iterator[None]:
    """Explain the failure of a query whose name is taken."""
    try:
        yield
    except Exception as error:
        if name is None or not NAME_TAKEN.search(str(error)):
            raise
        raise ConfigurationError(
            f"--query_name={shown(name)}: another query of the session with this name is "
            "active. Stop it, or choose another name; the default is --job_name."
        ) from error


@contextmanager
def runnable(labels: list[str], reports: FailureReports) -> Iterator[None]:
    """Explain the failure of a user's plan that Spark cannot run as a stream.

    Args:
        labels: of the steps that read such plans.
        reports: redact secrets.
    """
    try:
        yield
    except AnalysisException as error:
        if not labels:
            raise
        steps = ", ".join(f"'{line(label)}'" for label in labels)
        raise ConfigurationError(
            f"Spark cannot run what {steps} read{'s' if len(labels) == 1 else ''} as a stream: "
            f"{beginning(first_line(error), _LONGEST, reports.redaction)} Rows are never "
            "revised: Spark's output mode is append, in which an aggregation needs "
            "withWatermark, and a sort or a limit cannot run. Aggregate or sort in the pipeline, "
            "or give the DataFrame a watermark."
        ) from None


def _raise_own(sink: Any) -> None:
    """Raise the error of a sink in this process, if any."""
    failure: Exception | None = getattr(sink, "failure", None)
    if failure is not None:
        raise failure from None


def ask_to_drain(checkpoint: str) -> bool:
    """Make the pipeline of a checkpoint end its sources, in whatever process it runs.

    Args:
        checkpoint: its checkpoint location, visible to this process.

    Returns:
        Whether there was something to end; a finished pipeline is unchanged.

    Raises:
        ConfigurationError: there is no checkpoint.
    """
    known, _ = known_pipeline(absolute(checkpoint))
    feedback = FeedbackFiles(known)
    if feedback.last_number() is not None:
        return False
    feedback.ask_to_drain()
    return True


def known_pipeline(checkpoint: str) -> tuple[Files, bytes]:
    """Return the files under a checkpoint, and its stored description of the pipeline.

    Args:
        checkpoint: the absolute checkpoint location, visible to this process.

    Raises:
        ConfigurationError: there is no checkpoint of a pipeline, or it cannot be read.
    """
    known = files(checkpoint)
    content = stored_pipeline(known, checkpoint)
    if content is None:
        raise ConfigurationError(f"There is no checkpoint of a sparkbeam pipeline at {checkpoint}.")
    return known, content


def stored_pipeline(files: Files, checkpoint: str) -> bytes | None:
    """Return the stored description of a checkpoint's pipeline; None without one.

    Raises:
        ConfigurationError: it cannot be read.
    """
    try:
        return files.read(_PIPELINE)
    except (OSError, ValueError, CheckpointFailed) as error:
        raise ConfigurationError(
            f"The checkpoint location {checkpoint} cannot be read: {str(error).splitlines()[0]} "
            "Use a folder that this process can access, or a URL that both Spark and Beam's "
            "filesystems support."
        ) from error


def check_pipeline(files: Files, content: bytes) -> None:
    """Raise a CheckpointFailed if the stored description is damaged."""
    try:
        untrusted_json.loaded(content)
    except ValueError:
        raise damaged(files.path(_PIPELINE)) from None


def _committed_tick(progress: Any) -> int | None:
    """Return the number of the last tick in a progress; None before the first."""
    # The ticks are the first source.
    end = progress["sources"][0]["endOffset"]
    number: int = (shown_offset(end) if isinstance(end, str) else end)["number"]
    return number or None


def _check(session: Any, checkpoint: str | None) -> None:
    """Raise a ConfigurationError if the session cannot run a streaming pipeline."""
    if checkpoint is None and not sessions.on_one_machine(session):
        raise ConfigurationError(
            "A streaming pipeline on a cluster needs --checkpoint_location: "
            "a folder on storage that the driver and all executors share."
        )
    sessions.check_streaming(session)


def _shards(session: Any, count: int) -> tuple[int, ...]:
    """Return a number per shard, such that Spark's hash maps each to a different partition."""
    (row,) = session.sql(
        f"SELECT transform(sequence(0, {64 * count}), i -> pmod(hash(int(i)), {count}))"
    ).collect()
    of_partition: dict[int, int] = {}
    for number, partition in enumerate(row[0]):
        of_partition.setdefault(partition, number)
    return tuple(of_partition[partition] for partition in range(count))
