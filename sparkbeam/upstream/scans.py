"""Assumptions about Spark's plans of file scans; see :mod:`sparkbeam.upstream.spark`.

A plan that deviates from them is not a scan; Spark reads it itself.
"""

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from sparkbeam.common.parquet_footers import MOST_FOOTERS
from sparkbeam.upstream.spark import is_classic


class ScannedColumn(NamedTuple):
    """A column of a scan.

    Attributes:
        name: its name in the files, in Spark's letter case.
        type: Spark's type, as named by its JSON; empty for complex types, and for those whose
            values may differ from the files.
        in_micros: whether the column is the microseconds since 1970 of a timestamp.
    """

    name: str
    type: str
    in_micros: bool = False


class ScannedFile(NamedTuple):
    """A file found by Spark.

    Attributes:
        size: in bytes.
        modified: the modification time, in milliseconds since 1970.
    """

    path: str
    size: int
    modified: int


class ParquetScan(NamedTuple):
    """A DataFrame that consists of columns of Parquet files only.

    Attributes:
        columns: its columns in order; None for a column that is constant.
        files: all files with rows.
        is_table: whether they belong to a named table.
    """

    columns: tuple[ScannedColumn | None, ...]
    files: tuple[ScannedFile, ...]
    is_table: bool


def parquet_scan(frame: Any) -> ParquetScan | None:
    """Return the scan that a DataFrame consists of, considering cached tables and extensions.

    Nothing is executed.

    Args:
        frame: newly made by ``select``.

    Returns:
        None for other DataFrames, and if it reads files of other machines or too many of them.
    """
    try:
        return _scan(frame) if is_classic(frame) else None
    except Exception:
        return None


def sql_settings(session: Any) -> dict[str, str]:
    """Return the modified settings of a classic session; none if unavailable."""
    try:
        told = str(session._jsparkSession.sessionState().conf().getAllConfs().mkString("\n"))
    except Exception:
        return {}
    pairs = (line.partition(" -> ") for line in told.splitlines())
    return {name: value for name, _, value in pairs if value}


def task_bytes(session: Any) -> int:
    """Return the maximum bytes of files per task of a classic session."""
    return int(session._jsparkSession.sessionState().conf().filesMaxPartitionBytes())


def hadoop_setting(session: Any, name: str) -> str | None:
    """Return a Hadoop setting of a classic session's context."""
    found: str | None = session.sparkContext._jsc.hadoopConfiguration().get(name)
    return found


def same_session(one: Any, other: Any) -> bool:
    """Return whether two classic sessions are the same in the JVM."""
    return one is other or bool(one._jsparkSession.equals(other._jsparkSession))


_DEEPEST = 10
_PASSED = frozenset(["Project", "SubqueryAlias", "View"])
_RELATION = "LogicalRelation"
_SOURCES = "org.apache.spark.sql.execution.datasources"
_CLASSES = (
    f"{_SOURCES}.HadoopFsRelation",
    f"{_SOURCES}.parquet.ParquetFileFormat",
    f"{_SOURCES}.InMemoryFileIndex",
)

_OPTIONS = frozenset(
    [
        "path",
        "paths",
        "basepath",
        "recursivefilelookup",
        "pathglobfilter",
        "modifiedafter",
        "modifiedbefore",
        "mergeschema",
        "serialization.format",
    ]
)
"""Options of a source that select its files without affecting how they are read."""

_FILE = re.compile(
    r"\w+\{path=file:(?P<path>/.*); isDirectory=false; length=(?P<size>\d+);"
    r".* modification_time=(?P<modified>\d+);.*\}"
)


def _scan(frame: Any) -> ParquetScan | None:
    execution = frame._jdf.queryExecution()
    # To optimize another plan may take long, and is in vain.
    if not _may_be_scan(execution.analyzed()):
        return None
    plan = execution.optimizedPlan()
    if plan.nodeName() != "Project" or plan.child().nodeName() != _RELATION:
        return None
    relation = plan.child().relation()
    nodes = json.loads(plan.toJSON())
    columns = _columns(nodes)
    if columns is None or not _is_plain(relation):
        return None
    found = relation.location().allFiles()
    if found.size() > MOST_FOOTERS:
        return None
    files = [*_files(str(found.mkString("\n")))]
    return ParquetScan(columns, tuple(files), nodes[1].get("catalogTable") is not None)


def _may_be_scan(plan: Any) -> bool:
    for _ in range(_DEEPEST):
        name = plan.nodeName()
        if name not in _PASSED:
            return bool(name == _RELATION)
        plan = plan.child()
    return False


def _is_plain(relation: Any) -> bool:
    """Return whether a relation consists of Parquet files that are all read in the same way."""
    if _class_of(relation) != _CLASSES[0]:
        return False
    classes = (*_CLASSES[:1], _class_of(relation.fileFormat()), _class_of(relation.location()))
    options = str(relation.options().keySet().mkString("\n")).lower().splitlines()
    return (
        classes == _CLASSES
        and relation.bucketSpec().isEmpty()
        and relation.partitionSchema().isEmpty()
        and _OPTIONS.issuperset(options)
    )


def _class_of(thing: Any) -> str:
    return str(thing.getClass().getName())


def _columns(nodes: list[dict[str, Any]]) -> tuple[ScannedColumn | None, ...] | None:
    """Return the output of a projection over a relation, from their JSON; None if it is not one."""
    projection, relation = nodes
    if relation["isStreaming"]:
        return None
    there = {_id(attribute): attribute for (attribute,) in relation["output"]}
    found: list[ScannedColumn | None] = []
    for expression in projection["projectList"]:
        kinds = [node["class"].rpartition(".")[2] for node in expression]
        if kinds == ["Alias", "Literal"]:
            found.append(None)
            continue
        if kinds not in _EXPRESSIONS:
            return None
        attribute = there[_id(expression[-1])]
        kind = attribute["dataType"]
        if not isinstance(kind, str) or set(attribute["metadata"]) - {"comment"}:
            kind = ""
        found.append(ScannedColumn(attribute["name"], kind, "UnixMicros" in kinds))
    return tuple(found)


_EXPRESSIONS = (
    ["AttributeReference"],
    ["Alias", "AttributeReference"],
    ["Alias", "UnixMicros", "AttributeReference"],
)


def _id(attribute: dict[str, Any]) -> tuple[Any, ...]:
    return attribute["exprId"]["id"], attribute["exprId"]["jvmId"]


def _files(told: str) -> Iterator[ScannedFile]:
    """Yield the files with rows that the scan reads.

    Raises:
        ValueError: a file is on another machine.
    """
    for line in told.split("\n") if told else []:
        found = _FILE.fullmatch(line)
        if found is None:
            raise ValueError("there are other files")
        file = ScannedFile(found["path"], int(found["size"]), int(found["modified"]))
        name = file.path.rpartition("/")[2]
        is_hidden = name.startswith(".") or (name.startswith("_") and "=" not in name)
        if file.size and not is_hidden:
            yield file
