"""Folders of Parquet files whose listing by Spark is predictable without Spark.

Spark handles everything else: partitions, patterns, and settings that change the meaning of a path.
"""

import os
import re
from collections.abc import Mapping
from typing import Any

from sparkbeam.connectors.committed_files import listed_files
from sparkbeam.connectors.storage import from_here
from sparkbeam.plan.spark_io import ReadSpec
from sparkbeam.spark import session as sessions
from sparkbeam.upstream.scans import hadoop_setting

_MERGED = "spark.sql.parquet.mergeSchema"
_FILE_SYSTEM, _LOCAL = "fs.defaultFS", "file:///"
_ABOUT_FILES = ("fs.", "parquet.", "spark.hadoop.")

_NOT_PLAIN = re.compile(r"metadata|[=:]|\._COPYING_$")
"""File names that Spark ignores or interprets."""

_PATTERN = re.compile(r"[*?\[\]{}\\]|^[A-Za-z][A-Za-z0-9+.-]*:")
"""Paths other than plain local ones."""


def plain_files(session: Any, spec: ReadSpec, settings: Mapping[str, str]) -> list[str] | None:
    """Return the files that Spark would find, sorted by name.

    Args:
        session: of the pipeline.
        spec: of a batch source.
        settings: of the session.

    Returns:
        None if Spark may find others, or none.

    Raises:
        OSError: the file or folder does not exist.
    """
    if spec.format.lower() != "parquet" or [name.lower() for name, _ in spec.options] != ["path"]:
        return None
    if not _is_plain(session, settings):
        return None
    path = from_here(spec.options[0][1], spec.format, session)
    if _PATTERN.search(path) or _is_hidden(os.path.basename(path)):
        return None
    if os.path.isfile(path):
        return [path]
    with os.scandir(path) as found:
        entries = [*found]
    if any(entry.is_dir() or _NOT_PLAIN.search(entry.name) for entry in entries):
        return None
    listed = listed_files(path)
    if listed is not None:
        return listed or None
    names = sorted(entry.name for entry in entries if not _is_hidden(entry.name))
    return [os.path.join(path, name) for name in names] or None


def _is_plain(session: Any, settings: Mapping[str, str]) -> bool:
    """Return whether the session reads local files and takes the schema from one of them."""
    return (
        "spark.master" in settings
        and sessions.is_local(session)
        and settings.get(_MERGED, "false").strip().lower() == "false"
        and not any(name.startswith(_ABOUT_FILES) for name in settings)
        and hadoop_setting(session, _FILE_SYSTEM) == _LOCAL
    )


def _is_hidden(name: str) -> bool:
    return name.startswith(("_", "."))
