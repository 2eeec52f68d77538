"""Opens live pages: for the runs of this process, and for the command ``sparkbeam watch``."""

import contextlib
import logging
import sys
import threading
from importlib.util import find_spec
from typing import TYPE_CHECKING

from sparkbeam.common.display_text import shortened
from sparkbeam.errors import ConfigurationError
from sparkbeam.page.own_page import RunView
from sparkbeam.plan.model import Plan
from sparkbeam.plan.redaction import Redaction
from sparkbeam.run.run import Run

if TYPE_CHECKING:
    from sparkbeam.page.server import PageServer

_logger = logging.getLogger(__name__)
_lock = threading.Lock()
_servers: "dict[int, PageServer]" = {}


def check() -> None:
    """Sees to it that there can be pages.

    Raises:
        ConfigurationError: the library of the server is missing.
    """
    if find_spec("tornado") is None:
        raise ConfigurationError(
            "A live page needs the package tornado: pip install 'sparkbeam[page]'."
        )


def server(port: int) -> "PageServer":
    """The server of this process for a port; another port where that one is taken.

    Args:
        port: as the user has given it; 0 for any.

    Raises:
        OSError: nobody can listen on loopback.
    """
    from sparkbeam.page.server import PageServer

    with _lock:
        if port not in _servers:
            try:
                _servers[port] = PageServer(port)
            except OSError as error:
                if not port:
                    raise
                _logger.warning(
                    "Port %d is not free for the live page, which takes another one: %s.",
                    port,
                    error.strerror,
                )
                _servers[port] = PageServer()
        return _servers[port]


def show(port: int, plan: Plan, run: Run, redaction: Redaction, name: str | None) -> None:
    """Shows a run at an address, which is printed on one line of standard error.

    A page that cannot be is logged, and harms nothing else.
    """
    try:
        address = server(port).add(RunView(plan, run, redaction, name))
    except Exception as error:
        _logger.warning(
            "There is no live page: %s: %s", type(error).__name__, shortened(str(error), 300)
        )
        return
    run.result.page = address
    with contextlib.suppress(OSError, ValueError, AttributeError):  # Closed, or there is none.
        sys.stderr.write(f"sparkbeam: the live page is at {address}\n")
        sys.stderr.flush()
