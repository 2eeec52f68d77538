"""Hooks of packages around the writes to their data sources."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sparkbeam.plan.spark_io import WriteSpec


@dataclass(frozen=True)
class Upserts:
    """Upserts of a data source, for writes with ``output_mode="update"``.

    Attributes:
        write: merges rows into what the options name; it takes a DataFrame with distinct keys and
            the write, with its ``options``, ``key`` and ``partition_by``. None if it has only
            tables of a catalog.
        required: options that the write needs.
        merges_tables: its tables of a catalog take ``MERGE INTO``.
        needs_jvm: it does not work over Spark Connect.
    """

    write: Callable[[Any, WriteSpec], None] | None
    required: tuple[str, ...] = ()
    merges_tables: bool = False
    needs_jvm: bool = False
