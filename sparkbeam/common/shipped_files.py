"""Python archives shipped by the driver, with content digests in their names.

Spark accepts each file name once per session, and workers cache modules. A changed file therefore
gets a new name.
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
    """Archive ``.py`` files and archives with their current content.

    The archives live as long as the process, as executors that start later fetch them. URLs are
    returned unchanged: Spark fetches them.
    """
    return [path if "://" in path else str(_archive(Path(path))) for path in paths]


def _archive(path: Path) -> Path:
    content = path.read_bytes()
    digest = hashlib.sha256(path.name.encode() + b"\0" + content).hexdigest()[:_DIGITS]
    is_module = path.suffix == ".py"
    suffix = ".zip" if is_module else path.suffix
    target = Path(served_folder().name) / f"{path.stem}-{digest}{suffix}"
    if not target.exists():
        # Other threads may create it at the same time.
        unfinished = target.with_name(uuid.uuid4().hex)
        if is_module:
            with zipfile.ZipFile(unfinished, "w") as archive:
                # A fixed timestamp gives the same file in each process.
                archive.writestr(zipfile.ZipInfo(path.name), content)
        else:
            shutil.copyfile(path, unfinished)
        unfinished.replace(target)
    return target
