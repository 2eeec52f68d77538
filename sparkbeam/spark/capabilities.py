"""Capabilities of a Spark session, asked of the session and never of a version number.

Managed platforms refuse settings, caches or endless triggers, and a server that speaks the protocol
of Spark Connect need not be Spark. Each question is asked when its answer is first needed, once per
session: by presence where presence tells the truth, otherwise by a trial. A lack is logged once, in
the words of :data:`WITHOUT`, as ``sparkbeam doctor`` and the documents have it.
"""

import logging
import os
import re
import secrets
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import pyarrow as pa
from pyspark import TaskContext

from sparkbeam.common.arguments import shown
from sparkbeam.common.display_text import shortened
from sparkbeam.common.temporary_folders import served_folder
from sparkbeam.errors import ConfigurationError
from sparkbeam.upstream import spark as upstream

_LOG = logging.getLogger(__name__)


class Capability(Enum):
    """An ability of a session; the value is its name in logs and documents."""

    SETTINGS = "settings"
    PERSIST = "persist"
    LOCAL_CHECKPOINTS = "local checkpoints"
    PARTITIONS = "partitioning by key"
    ARTIFACTS = "artifacts"
    JVM = "JVM"
    FOREACH_BATCH = "foreachBatch"
    STATE = "transformWithState"
    ROW_STATE = "transformWithState over rows"
    AVAILABLE_NOW = "available-now of Python sources"
    ENDLESS = "endless triggers"


WITHOUT: Mapping[Capability, str] = {
    Capability.SETTINGS: "a cluster with Spark's default settings is assumed",
    Capability.PERSIST: "rows that several steps read are kept in local checkpoints, or else in "
    "Parquet files under --temp_location, in streaming under --checkpoint_location",
    Capability.LOCAL_CHECKPOINTS: "without persist, rows that several steps read are kept in "
    "Parquet files under --temp_location, in streaming under --checkpoint_location",
    Capability.PARTITIONS: "pipelines cannot run, as the results of a GroupByKey would be wrong",
    Capability.ARTIFACTS: "workers cannot receive --spark_py_files and side inputs above 8 MiB",
    Capability.JVM: "Spark reads all Parquet files, upserts over JDBC are not supported, and there "
    "are no figures of Spark's own stages",
    Capability.FOREACH_BATCH: "streaming pipelines cannot run",
    Capability.STATE: "streaming pipelines cannot run",
    Capability.ROW_STATE: "state passes through pandas",
    Capability.AVAILABLE_NOW: "sparkbeam itself ends a run that processes the available data",
    Capability.ENDLESS: "a stream processes the available data and ends; start it again for more",
}
"""Consequences of each lack."""


@dataclass
class _Known:
    """Answers of one session.

    Attributes:
        splits: number of tasks that Spark plans for a range; None if not asked yet or unknown.
        refused: names of refused settings; true for those that were logged.
    """

    answers: dict[Capability, bool] = field(default_factory=dict)
    splits: int | None = None
    is_asked: bool = False
    refused: dict[str, bool] = field(default_factory=dict)


_all: "WeakKeyDictionary[Any, _Known]" = WeakKeyDictionary()
_lock = threading.RLock()


def _known(session: Any) -> _Known:
    with _lock:
        try:
            return _all.setdefault(session, _Known())
        except TypeError:  # No class of Spark's: it has no weak references, or no hash.
            return _Known()


# Settings.


def setting(session: Any, key: str, default: str | None = None) -> str | None:
    """Return a setting; the default if it is unset, or the session does not tell it."""
    return _read_setting(session, key, default)


def effective_setting(session: Any, key: str) -> str | None:
    """Return a setting, or Spark's default of it; None if it has none or the session tells none."""
    return _read_setting(session, key)


def _read_setting(session: Any, key: str, *default: str | None) -> str | None:
    try:
        value: str | None = session.conf.get(key, *default)
    except Exception as error:
        if not upstream.NO_SETTING.search(str(error)):
            _note_refused(session, key, error)
        return default[0] if default else None
    return value


def set_setting(session: Any, key: str, value: str) -> bool:
    """Change a setting; return whether the session accepts it."""
    try:
        session.conf.set(key, value)
    except Exception as error:
        _note_refused(session, key, error)
        return False
    return True


@contextmanager
def settings_for_now(session: Any, wanted: Mapping[str, str]) -> Iterator[None]:
    """Change settings as far as the session accepts them, and restore them afterwards.

    Settings that others change in the meantime stay.
    """
    before = {key: setting(session, key) for key in wanted}
    changed = [
        key
        for key, value in wanted.items()
        if before[key] != value and set_setting(session, key, value)
    ]
    try:
        yield
    finally:
        for key in changed:
            value = before[key]
            if setting(session, key) != wanted[key]:
                continue
            if value is None:
                session.conf.unset(key)
            else:
                session.conf.set(key, value)


def _note_refused(session: Any, key: str, error: Exception) -> None:
    """Record a refusal; raise the error if it is of a lost connection."""
    if upstream.JVM_GONE.search(str(error)):
        raise error
    _LOG.debug("The Spark session refuses the setting %s: %s", key, error)
    with _lock:
        _known(session).refused.setdefault(key, False)


def refused_settings(session: Any) -> list[str]:
    """Return the names of the settings that the session has refused to tell or to change."""
    return list(_known(session).refused)


def log_refused_settings(session: Any) -> None:
    """Log a warning with the settings that the session refuses, each of them once."""
    with _lock:
        refused = _known(session).refused
        names = [name for name, is_logged in refused.items() if not is_logged]
        refused.update(dict.fromkeys(names, True))
    if names:
        _LOG.warning(
            "The Spark session refuses settings (%s): %s.",
            ", ".join(names),
            WITHOUT[Capability.SETTINGS],
        )


# Questions.


def has(session: Any, capability: Capability) -> bool:
    """Return whether a session has a capability; ask if it is not known yet."""
    known = _known(session)
    if capability not in known.answers:
        answer = _QUESTIONS[capability](session)
        with _lock:
            known.answers[capability] = answer
        if not answer:
            _log_lack(capability)
    return known.answers[capability]


def lack(session: Any, capability: Capability) -> None:
    """Record that a session has refused something."""
    with _lock:
        is_new = _known(session).answers.get(capability) is not False
        _known(session).answers[capability] = False
    if is_new:
        _log_lack(capability)


def _log_lack(capability: Capability) -> None:
    _LOG.warning("The Spark session has no %s: %s.", capability.value, WITHOUT[capability])


def refuses(session: Any, capability: Capability) -> bool:
    """Return whether a failure was a refusal of the session, found by trying on a small range."""
    try:
        _TRIALS[capability](session)
    except Exception as error:
        if upstream.JVM_GONE.search(str(error)):
            return False
        lack(session, capability)
        return True
    return False


def is_available(session: Any, capability: Capability) -> bool:
    """Return whether a session has a capability, by a trial where a pipeline would only notice."""
    return has(session, capability) and not (capability in _TRIALS and refuses(session, capability))


def require_partitions(session: Any) -> None:
    """Check that a shuffle by key brings all rows of a key into one task.

    Raises:
        ConfigurationError: it does not.
    """
    if not has(session, Capability.PARTITIONS):
        raise ConfigurationError(
            f"This Spark Connect server has no {Capability.PARTITIONS.value}: rows of one key "
            "arrive in several tasks, or tasks have no numbers, so that results would be wrong. "
            "Run the pipeline on a server of Apache Spark, or of a platform built on it."
        )


def ship(session: Any, path: str, remedy: str, *, module: bool = False) -> None:
    """Send a file to the workers.

    Args:
        path: of the file; a URL for one that Spark fetches.
        remedy: the alternative, for the error.
        module: whether the workers may import its contents.

    Raises:
        ConfigurationError: the session refuses it.
    """
    try:
        upstream.ship(session, path, module=module)
    except Exception as error:
        if upstream.JVM_GONE.search(str(error)):
            raise
        reason = shortened(next(iter(str(error).splitlines()), type(error).__name__), 200)
        raise ConfigurationError(
            f"The Spark session does not accept {shown(path)} for its workers ({reason}). {remedy}"
        ) from error


def is_remote(session: Any) -> bool:
    """Return whether the session's Spark Connect server may be on another machine."""
    return upstream.is_connect(session) and not upstream.is_own_server()


def planned_splits(session: Any) -> int | None:
    """Return the number of tasks that Spark plans for a range; None if the plan has no number."""
    known = _known(session)
    if not known.is_asked:
        plan = str(session.sql("EXPLAIN SELECT * FROM range(1000000)").collect()[0][0])
        found = re.search(r"splits=(\d+|Some\((\d+)\))", plan)
        known.splits = None if found is None else int(found.group(2) or found.group(1))
        known.is_asked = True
    return known.splits


def _persists(session: Any) -> bool:
    """Return whether rows are persisted; other engines than Spark may do nothing, silently."""
    if not is_remote(session) or planned_splits(session) is not None:
        return True  # Until it refuses.
    return _keeps(session, lambda rows: rows.persist())


def _keeps(session: Any, keep: Callable[[Any], Any]) -> bool:
    """Return whether random rows are the same each time once they are kept."""
    rows = session.range(0, 2, 1, 2).mapInArrow(_random, "token binary")
    rows.collect()  # Fails here if workers do not run.
    try:
        kept = keep(rows)
        return sorted(kept.collect()) == sorted(kept.collect())
    except Exception as error:
        if upstream.JVM_GONE.search(str(error)):
            raise
        return False


def _random(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Replace each batch by random bytes."""
    for _ in batches:
        yield pa.record_batch([pa.array([os.urandom(8)])], names=["token"])


def _partitions(session: Any) -> bool:
    """Return whether a shuffle puts each key into one task, and tasks differ in their numbers."""
    if not is_remote(session):
        return True
    keys = session.range(0, _ROWS, 1, _TASKS).selectExpr(f"id % {_KEYS} AS key")
    seen = keys.repartition(_TASKS, "key").mapInArrow(_tasks, "task binary, number int, key long")
    of_key, of_number = defaultdict[int, set[bytes]](set), defaultdict[int, set[bytes]](set)
    for task, number, key in seen.collect():
        of_key[key].add(bytes(task))
        of_number[number].add(bytes(task))
    are_apart = all(len(tasks) == 1 for tasks in (*of_key.values(), *of_number.values()))
    return are_apart and len(of_number) > 1


_ROWS, _KEYS, _TASKS = 64, 8, 4


def _tasks(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the keys of a task with a random name of the task, and its number."""
    context = TaskContext.get()
    task, number = os.urandom(8), -1 if context is None else context.partitionId()
    for batch in batches:
        count = batch.num_rows
        columns = [
            pa.array([task] * count, pa.binary()),
            pa.array([number] * count, pa.int32()),
            batch.column(0).cast(pa.int64()),
        ]
        yield pa.record_batch(columns, names=["task", "number", "key"])


def _delivers_files(session: Any) -> bool:
    """Return whether workers get a file of the driver."""
    token = secrets.token_hex(8)
    path = Path(served_folder().name, f"sparkbeam-{token}")
    path.write_text(token)
    try:
        upstream.ship(session, str(path))
        rows = session.range(0, 1, 1, 1).mapInArrow(_Content(path.name), "text string").collect()
    except Exception as error:
        if upstream.JVM_GONE.search(str(error)):
            raise
        return False
    return [text for (text,) in rows] == [token]


@dataclass(frozen=True)
class _Content:
    """Task that yields the text of a shipped file."""

    name: str

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import SparkFiles  # Which pyspark-client has not.

        for _ in batches:
            text = Path(SparkFiles.get(self.name)).read_text()
            yield pa.record_batch([pa.array([text])], names=["text"])


def _rate(session: Any) -> Any:
    return session.readStream.format("rate").load().writeStream


def _try_endless(session: Any) -> None:
    _rate(session).format("noop").trigger(processingTime="1 hour").start().stop()


_QUESTIONS: Mapping[Capability, Callable[[Any], bool]] = {
    Capability.PERSIST: _persists,
    Capability.LOCAL_CHECKPOINTS: lambda session: _keeps(session, upstream.local_checkpoint),
    Capability.PARTITIONS: _partitions,
    Capability.ARTIFACTS: _delivers_files,
    Capability.JVM: upstream.is_classic,
    Capability.FOREACH_BATCH: lambda session: hasattr(_rate(session), "foreachBatch"),
    Capability.STATE: lambda session: (
        upstream.has_row_state(session) or upstream.has_pandas_state(session)
    ),
    Capability.ROW_STATE: upstream.has_row_state,
    Capability.AVAILABLE_NOW: lambda _: upstream.freezes_available_now(),
    Capability.ENDLESS: lambda _: True,  # Until it refuses.
}

_TRIALS: Mapping[Capability, Callable[[Any], object]] = {
    Capability.PERSIST: lambda session: session.range(1).persist().unpersist(),
    Capability.ENDLESS: _try_endless,
}
