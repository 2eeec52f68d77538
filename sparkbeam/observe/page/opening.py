"""Live pages for the runs of this process and for the command ``sparkbeam watch``."""

import logging
import threading
from importlib.util import find_spec
from typing import TYPE_CHECKING

from sparkbeam.common.display_text import error_line
from sparkbeam.errors import ConfigurationError
from sparkbeam.observe.collection.printed_output import write
from sparkbeam.observe.page.own_page import RunView
from sparkbeam.plan.model import Plan
from sparkbeam.plan.redaction import Redaction
from sparkbeam.run.run import PipelineRun
from sparkbeam.wire.output_lines import STDERR

if TYPE_CHECKING:
    from sparkbeam.observe.page.server import PageServer

_logger = logging.getLogger(__name__)
_lock = threading.Lock()
_servers: "dict[int, PageServer]" = {}


def check() -> None:
    """Check that live pages are available.

    Raises:
        ConfigurationError: the server's library is missing.
    """
    if find_spec("tornado") is None:
        raise ConfigurationError(
            "A live page needs the package tornado: pip install 'sparkbeam[page]'."
        )


def server(port: int) -> "PageServer":
    """Return this process's server for a port; on another port if that one is in use.

    Args:
        port: the port given by the user; 0 for any.

    Raises:
        OSError: loopback cannot be bound.
    """
    from sparkbeam.observe.page.server import PageServer

    with _lock:
        if port not in _servers:
            try:
                _servers[port] = PageServer(port)
            except OSError as error:
                if not port:
                    raise
                _logger.warning(
                    "Port %d is in use; the live page uses another one: %s.", port, error.strerror
                )
                _servers[port] = PageServer()
        return _servers[port]


def show(port: int, plan: Plan, run: PipelineRun, redaction: Redaction, name: str | None) -> None:
    """Show a run on a live page, and print its address as one line on standard error.

    A failure is logged and has no other effect.
    """
    try:
        address = server(port).add(RunView(plan, run, redaction, name))
    except Exception as error:
        _logger.warning("The live page is not available: %s", error_line(error))
        return
    run.result.page = address
    write(STDERR, f"sparkbeam: the live page is at {address}")
