"""Files beside those of others: no planted link is followed, and who may write is looked at."""

import errno
import os
import tempfile
from pathlib import Path

import pytest

from sparkbeam.common import local_files
from sparkbeam.connectors.storage import LocalStorage
from sparkbeam.errors import ConfigurationError
from sparkbeam.explain import saving
from sparkbeam.plan.model import Plan
from sparkbeam.streaming.checkpoint_files import LocalFiles, files

OTHER = 54_321
"""A user that is not this one."""


def saved(path: Path, text: str = "") -> None:
    saving.save(path, Plan(()), "", {}, text)


def writes_of(folder: Path, name: str) -> dict[str, object]:
    """All that writes a file of a name into a folder, each as a function of its content."""
    return {
        "checkpoint": lambda content: LocalFiles(str(folder)).write(name, content),
        "output": lambda content: LocalStorage().write(f"{folder}/sparkbeam/{name}", content),
        "saved": lambda content: saved(folder / "sparkbeam" / name, content.decode()),
    }


@pytest.mark.parametrize("way", ["checkpoint", "output", "saved"])
@pytest.mark.parametrize("planted", ["note", "note.tmp", ".note.tmp"])
def test_a_planted_link_is_not_followed(way: str, planted: str, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    folder = tmp_path / "checkpoint/sparkbeam"
    folder.mkdir(parents=True)
    (folder / planted).symlink_to(victim)
    write = writes_of(tmp_path / "checkpoint", "note")[way]
    write(b"new")  # type: ignore[operator]
    assert victim.read_text() == "mine"
    assert (folder / "note").read_text() == "new"
    assert not (folder / "note").is_symlink()
    assert {path.name for path in folder.iterdir()} == {"note", planted}


def test_what_is_there_is_not_created_again_be_it_a_link_to_nothing(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "nothing")
    (tmp_path / "file").write_text("old")
    for name in ("link", "file"):
        assert not local_files.create(tmp_path / name, b"new")
    assert not (tmp_path / "nothing").exists()
    assert (tmp_path / "file").read_text() == "old"
    assert local_files.create(tmp_path / "new", b"new")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "link", "new"]


def test_a_file_is_created_once_where_there_are_no_hard_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "link", refuse)
    assert local_files.create(tmp_path / "new", b"first")
    assert not local_files.create(tmp_path / "new", b"second")
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"first"]


@pytest.mark.parametrize("way", ["checkpoint", "output", "moved"])
@pytest.mark.parametrize("error", [errno.EINVAL, errno.ENOTSUP, errno.ENOSYS])
def test_storage_that_only_takes_whole_files_is_written_to(
    way: str, error: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Mounted object storage has neither links nor renames, and cannot sync a file."""

    def refuse(*_: object, **__: object) -> None:
        raise OSError(error, os.strerror(error))

    for name in ("fsync", "link", "replace", "rename"):
        monkeypatch.setattr(os, name, refuse)
    if way == "moved":
        (tmp_path / "source").write_bytes(b"new")
        target = tmp_path / "sparkbeam/note"
        LocalStorage().move({str(tmp_path / "source"): str(target)})
        assert not (tmp_path / "source").exists()
    else:
        for content in (b"old and longer", b"new"):
            writes_of(tmp_path, "note")[way](content)  # type: ignore[operator]
    assert [path.name for path in (tmp_path / "sparkbeam").iterdir()] == ["note"]
    assert (tmp_path / "sparkbeam/note").read_bytes() == b"new"


def test_a_full_disk_is_not_taken_for_such_storage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(OSError, match="No space left"):
        local_files.write(tmp_path / "note", b"new")
    assert [*tmp_path.iterdir()] == []


def test_folders_that_are_made_are_nobody_elses_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        LocalFiles(str(tmp_path / "a/b")).write("c/note", b"")
    finally:
        os.umask(before)
    for path in (tmp_path / "a").rglob("*"):
        assert not path.stat().st_mode & 0o022


@pytest.mark.parametrize(
    ("mode", "reason"),
    [
        (0o755, None),
        (0o700, None),
        (0o1777, None),
        (0o777, "all users may write to it"),
        (0o702, "all users may write to it"),
    ],
)
def test_who_may_write_to_a_folder_decides_on_trust(
    mode: int, reason: str | None, tmp_path: Path
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    folder.chmod(mode)
    assert local_files.untrusted_reason(folder) == reason
    assert list(folder.iterdir()) == []


def test_a_folder_that_is_not_there_is_nobody_elses(tmp_path: Path) -> None:
    assert local_files.untrusted_reason(tmp_path / "nothing") is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_the_folder_of_another_user_is_not_trusted_nor_a_group_with_others(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir(mode=0o700)
    os.chown(folder, OTHER, OTHER)
    assert local_files.untrusted_reason(folder) == f"it belongs to another user, {OTHER}"
    link = tmp_path / "link"
    link.symlink_to(tmp_path)
    os.chown(link, OTHER, OTHER, follow_symlinks=False)
    assert local_files.untrusted_reason(link) == f"it belongs to another user, {OTHER}"
    shared = tmp_path / "shared"
    shared.mkdir()
    os.chown(shared, 0, 100)
    shared.chmod(0o770)
    assert "other users of the group" in (local_files.untrusted_reason(shared) or "")
    shared.chmod(0o1770)
    assert local_files.untrusted_reason(shared) is None


def test_a_file_system_that_keeps_no_owners_tells_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(0o777)
    monkeypatch.setattr(tempfile, "mkdtemp", lambda prefix, dir: made(dir))

    def made(folder: Path) -> str:
        path = folder / "all-may"
        path.mkdir()
        path.chmod(0o777)
        return str(path)

    assert local_files.untrusted_reason(tmp_path) is None


@pytest.mark.parametrize("folder", ["", "sparkbeam"])
def test_a_checkpoint_to_which_others_may_write_is_named(folder: str, tmp_path: Path) -> None:
    LocalFiles(str(tmp_path)).write("id", b"")
    (tmp_path / folder).chmod(0o777)
    reason = files(str(tmp_path)).untrusted_reason() or ""
    assert reason == f"the folder {tmp_path / folder} is not private: all users may write to it"


def test_a_file_that_cannot_be_saved_is_an_error_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match="Give another path"):
        saved(tmp_path / "file/plan.txt")
