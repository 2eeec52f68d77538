"""The version of sparkbeam, and that of Python without which nothing of it can be imported."""

import sys

__version__ = "0.1.0"

if sys.version_info < (3, 11):  # noqa: UP036 - a worker may run another one than the driver.
    raise ImportError(
        "sparkbeam needs Python 3.11 or newer, but this is Python "
        f"{sys.version_info[0]}.{sys.version_info[1]} ({sys.executable})."
    )
