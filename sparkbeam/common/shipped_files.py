"""The files with modules that a driver ships, under names that tell their content.

Spark takes each name once for the life of a session, and a worker keeps what it has seen. A file
that has changed is therefore another file, also for Python.
"""

import hashlib
import shutil
import uuid
import zipfile
from collections.abc import Iterable
from pathlib import Path

from sparkbeam.common.temporary_folders import served_folder

_DIGITS = 12


def archives(paths: Iterable[str]) -> list[str]:
    """Archives of the modules in ``.py`` files and archives, as they are now.

    They stay until the process ends: an executor that starts later asks for them. A URL stays
    as it is: Spark fetches what is there.
    """
    return [path if "://" in path else str(_archive(Path(path))) for path in paths]


def _archive(path: Path) -> Path:
    content = path.read_bytes()
    digest = hashlib.sha256(path.name.encode() + b"\0" + content).hexdigest()[:_DIGITS]
    is_module = path.suffix == ".py"
    suffix = ".zip" if is_module else path.suffix
    target = Path(served_folder().name) / f"{path.stem}-{digest}{suffix}"
    if not target.exists():
        # Other threads may make it, too.
        unfinished = target.with_name(uuid.uuid4().hex)
        if is_module:
            with zipfile.ZipFile(unfinished, "w") as archive:
                # Another process makes the same file of it.
                archive.writestr(zipfile.ZipInfo(path.name), content)
        else:
            shutil.copyfile(path, unfinished)
        unfinished.replace(target)
    return target
