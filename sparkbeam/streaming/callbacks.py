"""Pending callbacks of bundle finalizers."""

import logging
from collections.abc import Iterable, Sequence

from sparkbeam.wire.messages import Finalizers

_PATIENCE = 10
"""After this many micro-batches each living Python worker has had a task."""

_logger = logging.getLogger(__name__)


class Callbacks:
    """Tokens of pending callbacks, by the micro-batch that registered them.

    A worker calls its callbacks when a tick tells that their micro-batch is committed, and reports
    this. Callbacks of a worker that has ended are lost.

    Args:
        waiting: tokens of earlier micro-batches.
    """

    def __init__(self, waiting: Iterable[str] = ()) -> None:
        self._left = dict.fromkeys(waiting, _PATIENCE)

    @property
    def waiting(self) -> Sequence[str]:
        """The tokens."""
        return tuple(self._left)

    def after(self, told: Iterable[Finalizers]) -> None:
        """Apply the finalizer reports of a micro-batch."""
        told = list(told)
        called = {token for each in told for token in each.called}
        left = {token: n - 1 for token, n in self._left.items() if token not in called}
        lost = [token for token, n in left.items() if not n]
        if lost:
            _logger.warning(
                "Callbacks of bundle finalizers were lost with the workers of %d tasks: "
                "unconfirmed messages may be delivered again.",
                len(lost),
            )
        self._left = {token: n for token, n in left.items() if n}
        self._left |= {each.kept: _PATIENCE for each in told if each.kept is not None}
