"""Private temporary folders of one run; leftovers are removed by the next run."""

import fcntl
import functools
import os
import shutil
import stat
import tempfile
import threading
from contextlib import suppress
from pathlib import Path

_PREFIX = "sparkbeam-"
_MARK = "owner"


class RunFolder(tempfile.TemporaryDirectory[str]):
    """Private folder, by default under the system's temporary folder.

    A file in it stays locked while the process lives. The first folder of a process removes those
    that dead processes have left.

    Args:
        kind: its purpose, as a part of its name.
    """

    def __init__(self, kind: str, under: Path | None = None) -> None:
        _remove_abandoned(under)
        super().__init__(prefix=f"{_PREFIX}{kind}-", dir=under)
        new = Path(self.name, f"{_MARK}.new")
        self._owner = new.open("wb")
        try:
            fcntl.flock(self._owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
            new.rename(Path(self.name, _MARK))  # It has its final name once it is locked.
        except OSError:
            new.unlink()  # A file system without locks: nothing tells if the folder is in use.

    def cleanup(self) -> None:
        """Remove the folder."""
        super().cleanup()
        self._owner.close()


def served_folder() -> RunFolder:
    """Return the folder of shipped files, which lives as long as the process.

    An executor that starts later first fetches all files of the session and fails without them.
    """
    with _MAKING:  # An unlocked folder would be removed with its content.
        return _served_folder()


_MAKING = threading.Lock()


@functools.cache
def _served_folder() -> RunFolder:
    return RunFolder("served")


def remove_abandoned(under: Path | None = None) -> None:
    """Remove the folders of this user's dead processes.

    Args:
        under: their parent; None for the temporary folder.
    """
    for folder in (under or Path(tempfile.gettempdir())).glob(f"{_PREFIX}*"):
        with suppress(OSError):  # In use, not ours, or being removed by another process.
            found = folder.lstat()
            if stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid():
                mark = os.open(folder / _MARK, os.O_RDWR | os.O_NOFOLLOW)
                with os.fdopen(mark, "wb") as opened:
                    fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(folder, ignore_errors=True)


_remove_abandoned = functools.cache(remove_abandoned)
"""Once a process: a temporary folder may have thousands of files."""
