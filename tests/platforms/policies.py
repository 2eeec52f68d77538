"""Restrictions of managed platforms, as their documents and their users' reports have them.

They are simulated over an ordinary Spark Connect server; nothing here has seen a platform.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NoReturn

from google.protobuf.message import Message
from pyspark.sql.connect.proto import (
    AddArtifactsRequest,
    AnalyzePlanRequest,
    ConfigRequest,
    ConfigResponse,
    ExecutePlanRequest,
    Repartition,
)
from refusals import UNSUPPORTED, Refused
from requests_of_spark import artifacts, commands, relations, statements

MIB = 1 << 20

ONE_GIB = "export PYSPARK_EXECUTOR_MEMORY_MB=1024"
NO_NETWORK = 'exec unshare --net "$python" "$@"'
READ_ONLY = """exec unshare --mount bash -c '
    for folder in /tmp /var/tmp "$HOME" "$PWD"; do
        mount --bind "$folder" "$folder" && mount -o remount,ro,bind "$folder"
    done
    mount --bind "$VOLUME" "$VOLUME" && mount -o remount,rw,bind "$VOLUME"
    exec "$0" "$@"' "$python" "$@"
"""
OTHER_PYTHON = """exec "$python" -c '
import collections, runpy, sys
Version = collections.namedtuple("Version", "major minor micro releaselevel serial")
sys.version_info = Version(3, sys.version_info.minor + 1, 0, "final", 0)
module = sys.argv[2]
del sys.argv[1:3]
runpy.run_module(module, run_name="__main__", alter_sys=True)' "$@"
"""
"""Conditions of workers; the first two of Databricks serverless."""


@dataclass(frozen=True)
class Policy:
    """An ordinary server, and the contract of the others.

    Attributes:
        worker: shell code that runs before a worker of its sessions. It may change ``$python``, or
            execute it, with the arguments ``"$@"``, in another way.
    """

    worker: str = ""

    def check(self, request: Message) -> list[str]:
        """Refuse a request, or change it to what the platform makes of it.

        Raises:
            Refused: the platform does not serve it.

        Returns:
            Warnings, which only the answer to a setting can carry.
        """
        return []

    def answer(self, request: Message, response: Message) -> None:
        """Change a response, in place, to that of the platform."""


SERVERLESS_SETTINGS = frozenset(
    {
        "spark.databricks.execution.timeout",
        "spark.sql.ansi.enabled",
        "spark.sql.files.maxPartitionBytes",
        "spark.sql.legacy.timeParserPolicy",
        "spark.sql.session.timeZone",
        "spark.sql.shuffle.partitions",
    }
)

CLIENT_SETTINGS = frozenset(
    {
        "spark.python.sql.dataFrameDebugging.enabled",
        "spark.sql.execution.pyspark.binaryAsBytes",
        "spark.sql.execution.pythonUDF.arrow.enabled",
        "spark.sql.execution.pythonUDTF.arrow.enabled",
    }
)
"""Read by PySpark's client itself, one by one; it reads others together."""


def not_available(key: str) -> Refused:
    text = f"Configuration {key} is not available."
    return Refused("CONFIG_NOT_AVAILABLE", "42K0I", text, {"config": key})


@dataclass(frozen=True)
class Settings(Policy):
    """Knows or refuses settings by their names, also where a default is given."""

    def is_readable(self, key: str) -> bool:
        return True

    def is_settable(self, key: str) -> bool:
        return True

    def check(self, request: Message) -> list[str]:
        if isinstance(request, ConfigRequest):
            return self._check_operation(request.operation)
        for text in statements(request):
            found = re.match(r"\s*SET\s+([\w.]+)\s*=", text, re.IGNORECASE)
            _refuse_first([found[1]] if found else [], self.is_settable)
        return []

    def answer(self, request: Message, response: Message) -> None:
        is_all = isinstance(request, ConfigRequest) and request.operation.HasField("get_all")
        if is_all and isinstance(response, ConfigResponse):
            known = [pair for pair in response.pairs if self.is_readable(pair.key)]
            del response.pairs[:]
            response.pairs.extend(known)

    def _check_operation(self, operation: ConfigRequest.Operation) -> list[str]:
        match operation.WhichOneof("op_type"):
            case "set" if getattr(operation.set, "silent", False):  # From PySpark 4.0 on.
                return self._left_out(operation.set)
            case "set":
                _refuse_first([pair.key for pair in operation.set.pairs], self.is_settable)
            case "unset":
                _refuse_first(operation.unset.keys, self.is_settable)
            case "get" if len(operation.get.keys) == 1:  # Those of the client itself have several.
                _refuse_first(operation.get.keys, self.is_readable)
            case "get_option":
                _refuse_first(operation.get_option.keys, self.is_readable)
            case "get_with_default":
                keys = [pair.key for pair in operation.get_with_default.pairs]
                _refuse_first(keys, self.is_readable)
        return []

    def _left_out(self, request: ConfigRequest.Set) -> list[str]:
        """The settings of a new session: those that are refused are warnings."""
        refused = [pair.key for pair in request.pairs if not self.is_settable(pair.key)]
        taken = [pair for pair in request.pairs if self.is_settable(pair.key)]
        del request.pairs[:]
        request.pairs.extend(taken)
        return [not_available(key).message for key in refused]


def _refuse_first(keys: Iterable[str], is_allowed: Callable[[str], bool]) -> None:
    for key in keys:
        if not is_allowed(key):
            raise not_available(key)


@dataclass(frozen=True)
class Serverless(Settings):
    """Databricks serverless: six settings, nothing persisted, streams that end, no JARs.

    Attributes:
        local_checkpoints: whether ``localCheckpoint`` works; reports differ.
        artifact_bytes: the largest artifact; no document has the real limit.
    """

    local_checkpoints: bool = False
    artifact_bytes: int = 64 * MIB

    def is_readable(self, key: str) -> bool:
        return key in SERVERLESS_SETTINGS | CLIENT_SETTINGS

    def is_settable(self, key: str) -> bool:
        return key in SERVERLESS_SETTINGS

    def check(self, request: Message) -> list[str]:
        if isinstance(request, AddArtifactsRequest):
            self._check_artifacts(request)
        elif isinstance(request, AnalyzePlanRequest):
            if request.WhichOneof("analyze") in ("persist", "unpersist"):
                _unsupported("PERSIST TABLE")
        elif isinstance(request, ExecutePlanRequest):
            self._check_plan(request)
        return super().check(request)

    def _check_plan(self, request: ExecutePlanRequest) -> None:
        for command in commands(request):
            is_checkpoint = command.WhichOneof("command_type") == "checkpoint_command"
            if is_checkpoint and not (command.checkpoint_command.local and self.local_checkpoints):
                _unsupported("CHECKPOINT TABLE")
            if command.HasField("write_stream_operation_start"):
                _require_end(command.write_stream_operation_start.WhichOneof("trigger"))
            if command.create_dataframe_view.is_global:
                _unsupported("GLOBAL TEMPORARY VIEW")
        for relation in relations(request):
            if relation.catalog.WhichOneof("cat_type") in _CACHE:
                _unsupported("CACHE TABLE")
        for text in statements(request):
            found = _CACHE_STATEMENT.match(text)
            if found:
                _unsupported(" ".join(found[1].upper().split()))

    def _check_artifacts(self, request: AddArtifactsRequest) -> None:
        for name, size in artifacts(request):
            if name.startswith(("jars/", "classes/")):
                _unsupported("ADD JAR")
            if size > self.artifact_bytes:
                text = f"The artifact {name} of {size} bytes exceeds {self.artifact_bytes} bytes."
                raise Refused("ARTIFACT_TOO_LARGE", "54000", text, kind=UNSUPPORTED)


_CACHE = ("cache_table", "clear_cache", "uncache_table")
_CACHE_STATEMENT = re.compile(
    r"\s*(CACHE(?:\s+LAZY)?\s+TABLE|UNCACHE\s+TABLE|CLEAR\s+CACHE|ADD\s+JARS?)\b", re.IGNORECASE
)


def _unsupported(operation: str) -> NoReturn:
    text = f"{operation} is not supported on serverless compute."
    raise Refused("NOT_SUPPORTED_WITH_SERVERLESS", "0A000", text, {"operation": operation})


def _require_end(trigger: str | None) -> None:
    """Refuse a stream that does not end."""
    if trigger not in ("available_now", "once"):
        kind = "".join(map(str.capitalize, (trigger or "processing_time").split("_")[:2]))
        text = (
            f"Trigger type {kind} is not supported for this cluster type. "
            "Use a different trigger type e.g. AvailableNow, Once."
        )
        parameters = {"trigger": kind}
        raise Refused("INFINITE_STREAMING_TRIGGER_NOT_SUPPORTED", "0A000", text, parameters)


@dataclass(frozen=True)
class Standard(Settings):
    """Clusters that users share under Unity Catalog: no settings of files and environments."""

    def is_settable(self, key: str) -> bool:
        return key not in ("spark.files", "spark.jars") and not key.startswith("spark.executorEnv.")


@dataclass(frozen=True)
class Foreign(Policy):
    """An engine that only speaks Spark's protocol: ``repartition(n, key)`` puts rows anywhere."""

    partitions: int = 4

    def check(self, request: Message) -> list[str]:
        if isinstance(request, ExecutePlanRequest | AnalyzePlanRequest):
            for relation in relations(request):
                if relation.HasField("repartition_by_expression"):
                    old = relation.repartition_by_expression
                    new = Repartition(num_partitions=old.num_partitions or self.partitions)
                    new.shuffle = True
                    new.input.CopyFrom(old.input)
                    relation.repartition.CopyFrom(new)
            for command in commands(request):
                if command.HasField("write_stream_operation_start"):
                    text = "Streaming is not supported."
                    raise Refused("UNSUPPORTED_OPERATION", "0A000", text, kind=UNSUPPORTED)
        return []
