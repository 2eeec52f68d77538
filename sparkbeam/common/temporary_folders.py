"""Folders for one run only: private, and removed by the next start where a run could not do it."""

import fcntl
import functools
import os
import shutil
import stat
import tempfile
import threading
from pathlib import Path
from typing import BinaryIO

_PREFIX = "sparkbeam-"
_MARK = "owner"


class RunFolder(tempfile.TemporaryDirectory[str]):
    """A folder, as a rule under the temporary one, that only this user can look into.

    A file in it stays locked as long as the process lives, however that ends. What other
    processes have left behind is removed first.

    Args:
        kind: what it is for, as a part of its name.
        under: another folder in place of the temporary one.
    """

    def __init__(self, kind: str, under: Path | None = None) -> None:
        remove_abandoned(under)
        super().__init__(prefix=f"{_PREFIX}{kind}-", dir=under)
        self._owner = _claimed(Path(self.name))

    def cleanup(self) -> None:
        """Removes it."""
        super().cleanup()
        self._owner.close()


def served_folder() -> RunFolder:
    """Where shipped files lie until the process ends.

    An executor that starts later takes in all files of the session first, and
    cannot run without.
    """
    with _MAKING:  # A folder that nobody holds is removed, with what is in it.
        return _served_folder()


_MAKING = threading.Lock()


@functools.cache
def _served_folder() -> RunFolder:
    return RunFolder("served")


def remove_abandoned(under: Path | None = None) -> None:
    """Removes the folders of processes of this user that are gone.

    Args:
        under: where they are; None for the temporary folder.
    """
    for folder in (under or Path(tempfile.gettempdir())).glob(f"{_PREFIX}*"):
        try:
            found = folder.lstat()
            if stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid():
                _remove_if_abandoned(folder)
        except OSError:
            continue  # It is in use, not ours, or somebody else removes it.


def _claimed(folder: Path) -> BinaryIO:
    """The mark of the folder, locked; it appears under its name when it is."""
    new = folder / f"{_MARK}.new"
    mark = new.open("wb")
    try:
        fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
        new.rename(folder / _MARK)
    except OSError:
        new.unlink()  # A file system without locks; nobody can tell whether it is in use.
    return mark


def _remove_if_abandoned(folder: Path) -> None:
    with os.fdopen(os.open(folder / _MARK, os.O_RDWR | os.O_NOFOLLOW), "wb") as mark:
        fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder, ignore_errors=True)
