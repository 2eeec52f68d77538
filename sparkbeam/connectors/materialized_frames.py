"""DataFrames whose rows are computed once for several readers.

Spark persists them. Where a session refuses that, they are kept in a local checkpoint, or else in
Parquet files.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from sparkbeam.connectors.storage import remove_at
from sparkbeam.spark.capabilities import Capability, has, refuses
from sparkbeam.upstream.spark import local_checkpoint


@dataclass(frozen=True)
class MaterializedFrame:
    """Rows that several readers read.

    Attributes:
        release: ends the use of what keeps them.
    """

    rows: Any
    release: Callable[[], object] = lambda: None


def materialize(
    session: Any,
    rows: Any,
    folder: str | None = None,
    begin: Callable[[], None] = lambda: None,
) -> MaterializedFrame | None:
    """Keep the rows of a DataFrame; None if the session does not allow it.

    Args:
        folder: the place of files that keep them; None for none.
        begin: called before a job, as all but ``persist`` compute the rows at once.
    """
    found = persisted(session, rows)
    if found is not None:
        return found
    if has(session, Capability.LOCAL_CHECKPOINTS):
        begin()
        return MaterializedFrame(local_checkpoint(rows))
    if folder is None:
        return None
    begin()
    # A micro-batch that is repeated replaces the files of the attempt before.
    rows.write.mode("overwrite").parquet(folder)
    files = session.read.schema(rows.schema).parquet(folder)
    return MaterializedFrame(files, partial(remove_at, session, folder))


def persisted(session: Any, rows: Any) -> MaterializedFrame | None:
    """Persist the rows of a DataFrame, which computes none yet; None if the session refuses it."""
    if not has(session, Capability.PERSIST):
        return None
    try:
        found = rows.persist()
    except Exception:
        if not refuses(session, Capability.PERSIST):
            raise
        return None
    return MaterializedFrame(found, found.unpersist)
