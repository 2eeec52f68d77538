"""Java archives that a session gets while it runs: JDBC drivers and the like."""

import glob
from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

from sparkbeam.common.arguments import shown
from sparkbeam.common.display_text import shortened
from sparkbeam.common.maven_packages import COORDINATE
from sparkbeam.errors import ConfigurationError
from sparkbeam.upstream import spark as upstream

_added: "WeakKeyDictionary[Any, set[str]]" = WeakKeyDictionary()


def add_jars(session: Any, jars: Sequence[str], argument: str) -> None:
    """Add archives to a session.

    Args:
        jars: paths, patterns of paths, URLs or Maven coordinates, ``group:artifact:version``.

    Raises:
        ConfigurationError: a file does not exist, or the session refuses an archive.
    """
    for jar in jars:
        for place in _places(jar, argument):
            added = _added_to(session)
            if place in added:
                continue
            try:
                upstream.add_jar(session, place)
                added.add(place)
            except Exception as error:
                raise ConfigurationError(
                    f"{argument}: the session does not accept {shown(jar)} "
                    f"({shortened(upstream.first_line(error), 200)}). Start it with the archive: "
                    "--spark_packages=GROUP:ARTIFACT:VERSION or --spark_conf=spark.jars=PATH; with "
                    "Spark Connect, start the server with it."
                ) from None


def _added_to(session: Any) -> set[str]:
    """Return the archives that a session has got here."""
    try:
        return _added.setdefault(session, set())
    except TypeError:  # No class of Spark's: it has no weak references, or no hash.
        return set()


def _places(jar: str, argument: str) -> list[str]:
    if COORDINATE.fullmatch(jar):
        return [f"ivy://{jar}"]
    if "://" in jar:
        return [jar]
    found = sorted(glob.glob(jar))
    if not found:
        raise ConfigurationError(
            f"{argument}={shown(jar)}: the file does not exist. Correct the path, or give a Maven "
            "coordinate such as 'org.postgresql:postgresql:42.7.14'."
        )
    return found
