"""Callbacks of bundles, kept until the output of the bundles is committed.

They are objects of this process, as a rule with a connection in them, so they stay in it. A token
that travels with a task's output tells that it is committed. Another attempt at the same task has
another token.
"""

import logging
import threading
import uuid
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any

_MOST = 1000

Callback = Callable[[], Any]

_logger = logging.getLogger(__name__)


class PendingCallbacks:
    """Callbacks by the token of the task that has registered them; the latest of them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_token: OrderedDict[str, list[Callback]] = OrderedDict()

    def keep(self, callbacks: list[Callback]) -> str:
        """Keep the callbacks of a task; return their token."""
        token = uuid.uuid4().hex
        with self._lock:
            self._by_token[token] = callbacks
            if len(self._by_token) > _MOST:
                self._by_token.popitem(last=False)
        return token

    def run(self, tokens: Iterable[str]) -> list[str]:
        """Call the callbacks kept for tokens, once; return the tokens that had some."""
        with self._lock:
            found = {token: self._by_token.pop(token, None) for token in tokens}
        for callbacks in found.values():
            call(callbacks or ())
        return [token for token, callbacks in found.items() if callbacks is not None]


PENDING_FINALIZERS = PendingCallbacks()
"""Those of this process."""


def call(callbacks: Iterable[Callback]) -> None:
    """Call all callbacks, even if some fail."""
    for callback in callbacks:
        try:
            callback()
        except Exception:
            # As in Beam's own runners: what is not confirmed is delivered again.
            _logger.warning("A callback of a bundle finalizer failed", exc_info=True)
