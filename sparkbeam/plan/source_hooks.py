"""Hooks of packages around their data sources, beside what Spark asks these."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar


@dataclass(frozen=True)
class QueryStart:
    """A streaming query that is about to start.

    Attributes:
        session: its Spark session.
        checkpoint: its checkpoint location.
        files: the files under it; see :class:`sparkbeam.streaming.checkpoint_files.Files`.
        tag: the number of the source's rows in the query.
        asks_ends: the watermark needs to know which partitions are exhausted.
        freezes: the source is to end with the rows that it has now; only of sources with
            :attr:`SourceHooks.freezes`.
    """

    session: Any
    checkpoint: str
    files: Any
    tag: int
    asks_ends: bool
    freezes: bool


class SourceClient:
    """A connection to the data source of a running query.

    Its methods may raise any error if the source does not answer.
    """

    def hidden(self, offsets: Mapping[str, int]) -> Collection[str]:
        """Return the partitions that have rows behind their offsets which the source does not show.

        Args:
            offsets: of the partitions without rows in a micro-batch.
        """
        return ()

    def ends(self, offsets: Mapping[str, int]) -> Mapping[str, int] | None:
        """Return the offsets behind the last rows that the source shows; None if unknown.

        Args:
            offsets: of all partitions.
        """
        return None

    def commit(self, offsets: Mapping[str, int]) -> None:
        """Commit the offsets at the end of a micro-batch that Spark has committed."""

    def close(self) -> None:
        """Disconnect."""


@dataclass(frozen=True)
class SourceHooks:
    """Hooks around the reads of a data source; those of this class do nothing.

    There is an instance for each read, made of its options, and it is pickled with the plan.
    Offsets are known for a source whose offsets in Spark are like ``{"topic": {"0": 17}}``, and
    here by ``topic/0``. A ConfigurationError or a PipelineFailed of a hook gets the label of the
    step; other errors become one, which names the data source and hides values of secret options.

    Attributes:
        partition_columns: columns whose values, joined by ``/``, are the names of partitions in the
            offsets.
        checks_offsets: :meth:`check_checkpoint`, :meth:`check_offsets`,
            :meth:`SourceClient.hidden` and :meth:`SourceClient.ends` are called.
        tells_ends: in streaming the source notes which partitions are exhausted in
            :class:`sparkbeam.streaming.exhausted_partitions.ExhaustedPartitions`.
        freezes: it has an option to end with the rows that it has when a query starts.
    """

    partition_columns: ClassVar[tuple[str, ...]] = ()
    checks_offsets: ClassVar[bool] = False
    tells_ends: ClassVar[bool] = False
    freezes: ClassVar[bool] = False

    @property
    def hides_rows(self) -> bool:
        """True if a partition may have rows that it does not show yet, as of open transactions.

        It is asked for them if each partition has a watermark and an idle timeout.
        """
        return False

    @property
    def commits_to(self) -> str | None:
        """The receiver of offsets that are committed, as a phrase; None if none are."""
        return None

    def check(self, *, asks_hidden: bool) -> None:
        """Check that the source can be asked, when a streaming read is applied.

        Args:
            asks_hidden: it will be asked for hidden rows.
        """

    def register(self, session: Any) -> None:
        """Register a data source of Python in a session that is about to read it."""

    def starting_options(self) -> Mapping[str, str]:
        """Return more options for a read that does not continue a checkpoint."""
        return {}

    def query_options(self, start: QueryStart) -> Mapping[str, str]:
        """Return more options for the read of a streaming query."""
        return {}

    def check_checkpoint(
        self, label: str, offsets: Mapping[str, int], notes: bytes | None
    ) -> bytes | None:
        """Check that a streaming query can continue a checkpoint.

        Args:
            label: of the step, for warnings.
            offsets: at which it would continue; empty for a new query.
            notes: returned by the last call for the checkpoint; None if there was none.

        Returns:
            The notes for the next call; None to leave them as they are.
        """
        return None

    def check_offsets(self, before: Mapping[str, int], now: Mapping[str, int]) -> None:
        """Check the offsets between which a micro-batch reads."""

    def connect(self) -> SourceClient:
        """Return a connection for hidden and new rows, and for commits."""
        return SourceClient()


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

    write: Callable[[Any, Any], None] | None
    required: tuple[str, ...] = ()
    merges_tables: bool = False
    needs_jvm: bool = False
