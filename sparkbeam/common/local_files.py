"""Atomic writes to a local file system that other users share.

A file is written under an unpredictable name and then renamed: no planted link is followed, and no
reader sees a partial file. All writes are of whole files, as mounted object storage allows no
others.
"""

import errno
import grp
import os
import pwd
import secrets
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_FILE_MODE = 0o644
_FOLDER_MODE = 0o755
_NEW = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW
_OVER = os.O_CREAT | os.O_TRUNC | os.O_WRONLY | os.O_NOFOLLOW
_ROOT = 0
_UNSUPPORTED = frozenset([errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP])
"""Errors of mounted object storage for calls that it does not have."""


def nothing() -> None:
    """Allow a write."""


def write(path: Path, content: bytes, ready: Callable[[], None] = nothing) -> None:
    """Write a file, replacing an existing one; create missing folders.

    Args:
        content: all of it.
        ready: called just before the rename; if it raises, the old file stays.
    """
    with _aside(path, content) as temporary:
        ready()
        move(temporary, path)


def move(source: Path, target: Path) -> None:
    """Move a file, replacing an existing one; copy it where the file system renames nothing.

    A copy is not atomic.
    """
    try:
        source.replace(target)
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise
        with source.open("rb") as old, os.fdopen(os.open(target, _OVER, _FILE_MODE), "wb") as new:
            shutil.copyfileobj(old, new)
        source.unlink()


def create(path: Path, content: bytes, *, outlives: bool = True) -> bool:
    """Write a file unless it exists; atomic across processes.

    Args:
        content: all of it.
        outlives: the content must survive a crash of the machine.

    Returns:
        Whether it was written.
    """
    with _aside(path, content, outlives=outlives) as temporary, suppress(FileExistsError):
        try:
            path.hardlink_to(temporary)
        except FileExistsError:
            raise
        except OSError:  # Some file systems have no hard links.
            _put(path, content, outlives=outlives)
        return True
    return False


def make_folder(folder: Path) -> None:
    """Create a folder and its parents, writable by this user only."""
    if folder.is_dir():
        return
    make_folder(folder.parent)
    folder.mkdir(mode=_FOLDER_MODE, exist_ok=True)


def untrusted_reason(folder: Path) -> str | None:
    """Return why a folder is not trusted, in words.

    Root's folders are trusted, as root may write anywhere. In a sticky folder each user can only
    touch their own files.

    Returns:
        None if no other user could have written to it, it does not exist, or the file system keeps
        no owners.
    """
    try:
        reason = _reason(folder)
    except OSError:
        return None
    return None if reason is None or not _keeps_owners(folder) else reason


@contextmanager
def _aside(path: Path, content: bytes, *, outlives: bool = True) -> Iterator[Path]:
    """Write a hidden file next to another one; remove it at the end unless renamed."""
    make_folder(path.parent)
    temporary = path.with_name(f".{path.name[:100]}.{secrets.token_hex(8)}.tmp")
    try:
        _put(temporary, content, outlives=outlives)
        yield temporary
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def _put(path: Path, content: bytes, *, outlives: bool) -> None:
    with os.fdopen(os.open(path, _NEW, _FILE_MODE), "wb") as file:
        file.write(content)
        if outlives:
            file.flush()
            try:
                os.fsync(file.fileno())
            except OSError as error:
                if error.errno not in _UNSUPPORTED:
                    raise


def _reason(folder: Path) -> str | None:
    user = os.geteuid()
    link, found = folder.lstat(), folder.stat()
    for owner in (link.st_uid, found.st_uid):
        if owner not in (user, _ROOT):
            return f"it belongs to another user, {_name_of(owner)}"
    if found.st_mode & stat.S_ISVTX:
        return None
    if found.st_mode & stat.S_IWOTH:
        return "all users may write to it"
    if found.st_mode & stat.S_IWGRP and _has_others(found.st_gid):
        return f"the other users of the group {grp.getgrgid(found.st_gid).gr_name} may write to it"
    return None


def _has_others(group: int) -> bool:
    """Return whether a group may have other users; a private or an unnamed group has none."""
    try:
        found, user = grp.getgrgid(group), pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:  # In containers.
        return False
    is_own = group == _ROOT or found.gr_name == user
    return not (is_own and set(found.gr_mem) <= {user, "root"})


def _name_of(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return str(user)


def _keeps_owners(folder: Path) -> bool:
    """Return whether a new folder there belongs to its creator; not all file systems do this."""
    try:
        made = Path(tempfile.mkdtemp(prefix=".sparkbeam-", dir=folder))
    except OSError:
        return True
    found = made.lstat()
    made.rmdir()
    return found.st_uid == os.geteuid() and stat.S_IMODE(found.st_mode) == stat.S_IRWXU
