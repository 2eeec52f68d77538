"""Environment variables of the driver, for workers on its machine.

They may hold secrets, so a plan only has the name of a file that is private to this user and
removed with the process.
"""

import functools
import json
import os
import uuid
from collections.abc import Collection
from pathlib import Path

from sparkbeam.common.temporary_folders import served_folder
from sparkbeam.wire.environment import Variables

_OF_SPARK = ("JAVA_", "LD_", "PYSPARK_", "PYTHON", "SPARK_", "_")
"""Prefixes of variables that concern the processes themselves."""

_known = set(os.environ)
"""Names of all variables seen so far; workers may have some that are unset by now."""


def written(without: Collection[str] = ()) -> str:
    """Write the current variables to a private file and return its path.

    Args:
        without: names of variables that workers get in another way.
    """
    own = {name: value for name, value in os.environ.items() if not name.startswith(_OF_SPARK)}
    _known.update(own)
    gone = [name for name in _known - own.keys() if not name.startswith(_OF_SPARK)]
    left = {name: value for name, value in own.items() if name not in without}
    unset = sorted(name for name in gone if name not in without)
    return _file(json.dumps(Variables(left, unset)._asdict(), sort_keys=True))


@functools.lru_cache(1)
def _file(content: str) -> str:
    path = Path(served_folder().name) / uuid.uuid4().hex
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(content)
    return str(path)
