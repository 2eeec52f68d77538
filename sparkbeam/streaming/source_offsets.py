"""Offsets of Spark's sources at the ends of micro-batches, beside what the sources have.

A source that shows only a part of its rows, such as those of committed transactions, is idle only
if its last row, shown or not, has been passed: rows of an open transaction are as old as the time
at which they were sent.
"""

import logging
from collections.abc import Collection, Mapping
from contextlib import suppress

from sparkbeam.connectors.hook_errors import hook_errors
from sparkbeam.errors import PipelineFailed
from sparkbeam.plan.model import Plan
from sparkbeam.plan.source_hooks import SourceClient
from sparkbeam.plan.spark_io import ReadSpec
from sparkbeam.streaming.feedback import FeedbackFiles
from sparkbeam.streaming.source_watermarks import spark_sources

_LOG = logging.getLogger(__name__)


class SourceOffsets:
    """Offsets of the sources of a query whose hooks check them.

    Args:
        feedback: gives the offsets of micro-batches.
    """

    def __init__(self, plan: Plan, feedback: FeedbackFiles) -> None:
        self._sources = [
            (number, str(source.outputs[0][1]), source.label, source.read)
            for number, source in enumerate(spark_sources(plan))
            if source.read is not None and source.read.hooks.checks_offsets
        ]
        self._feedback = feedback
        self._ends: tuple[int, dict[str, dict[str, int]]] = (0, {})
        self._clients: dict[str, SourceClient] = {}
        self._unanswered: set[str] = set()

    def read(self, number: int) -> None:
        """Read the offsets at the end of a tick's micro-batch, and check them.

        Raises:
            PipelineFailed: the micro-batch does not have the rows of the source.
        """
        if not self._sources:
            return
        last, before = self._ends
        if last != number - 1:
            before = self._read(number - 1)
        now = self._read(number)
        self._ends = number, now
        for _, tag, label, spec in self._sources:
            with hook_errors(spec, label):
                spec.hooks.check_offsets(before.get(tag, {}), now[tag])

    def _read(self, number: int) -> dict[str, dict[str, int]]:
        found = self._feedback.partition_offsets(number)
        return {tag: found.get(source, {}) for source, tag, _, _ in self._sources}

    def hidden(self, seen: Mapping[str, Mapping[str, int]]) -> dict[str, tuple[str, ...]]:
        """Return the partitions with rows behind the end of the micro-batch.

        All partitions without rows in it count as such while a source does not answer.

        Args:
            seen: the partitions with rows in the micro-batch, by the tag of the source.

        Raises:
            ConfigurationError: a source cannot be asked with the given configuration.
        """
        found = {}
        for _, tag, label, spec in self._sources:
            silent = {
                partition: offset
                for partition, offset in self._ends[1].get(tag, {}).items()
                if partition not in seen.get(tag, {})
            }
            if not spec.asks_hidden or not silent:
                continue
            hidden = self._hidden(tag, label, spec, silent)
            found[tag] = tuple(partition for partition in silent if partition in hidden)
        return found

    def _hidden(
        self, tag: str, label: str, spec: ReadSpec, silent: Mapping[str, int]
    ) -> Collection[str]:
        try:
            with hook_errors(spec, label):
                if tag not in self._clients:
                    self._clients[tag] = spec.hooks.connect()
                found = self._clients[tag].hidden(silent)
        except PipelineFailed as error:
            if tag not in self._unanswered:
                _LOG.warning("%s The watermark waits for partitions without rows.", error)
            self._unanswered.add(tag)
            return silent
        self._unanswered.discard(tag)
        return found

    def close(self) -> None:
        """Disconnect."""
        for client in self._clients.values():
            with suppress(Exception):
                client.close()
