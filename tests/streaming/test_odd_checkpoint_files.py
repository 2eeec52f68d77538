"""Checkpoints in which somebody has put something else: always an error that says which file."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from ended_checkpoints import leave
from odd_files import ODD_CONTENTS, ODD_VALUES, says_what_is_wrong

from sparkbeam.errors import SparkBeamError
from sparkbeam.observe.page.watch import CheckpointView

NAMES = [
    "sparkbeam/pipeline.json",
    "sparkbeam/feedback/1.json",
    "sparkbeam/finished",
    "sparkbeam/drain",
    "sparkbeam/driver.json",
    "sparkbeam/graph.json",
    "sparkbeam/id",
    "sparkbeam/epoch",
    "sparkbeam/places",
    "sparkbeam/ends/0.json",
    "offsets",
    "offsets/0",
    "commits/0",
    "commits/1",
    "metadata",
]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkpoint of a pipeline that has ended, with the logs that Spark would write."""
    made = tmp_path_factory.mktemp("whole")
    leave(made)
    for name in ("offsets/0", "commits/0"):
        (made / name).parent.mkdir(exist_ok=True)
        (made / name).write_text('v1\n{}\n{"number": 1}')
    return made


@pytest.fixture
def checkpoint(whole: Path, tmp_path: Path) -> Path:
    made = tmp_path / "checkpoint"
    shutil.copytree(whole, made)
    return made


def cleared(path: Path) -> Path:
    """The path, with nothing there."""
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def in_its_place(path: Path, what: str) -> None:
    """Puts something else in the place of a file."""
    cleared(path)
    if what in ODD_CONTENTS:
        path.write_bytes(ODD_CONTENTS[what])
    elif what == "a folder":
        path.mkdir()
    elif what == "a link to nothing":
        path.symlink_to("nowhere")
    elif what == "a link to itself":
        path.symlink_to(path.name)
    elif what == "a pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")


KINDS = [*ODD_CONTENTS, "a folder", "a link to nothing", "a link to itself", "a pipe", "a device"]


@pytest.mark.parametrize("what", KINDS)
@pytest.mark.parametrize("name", NAMES)
def test_commands_and_pages_say_what_is_wrong(checkpoint: Path, name: str, what: str) -> None:
    in_its_place(checkpoint / name, what)
    says_what_is_wrong("status", str(checkpoint))
    says_what_is_wrong("status", "--json", str(checkpoint))
    try:
        view = CheckpointView(str(checkpoint))
        json.dumps(view.content(), allow_nan=False)
        view.history(0)
    except SparkBeamError as error:
        assert str(checkpoint) in str(error)  # noqa: PT017


OURS = [name for name in NAMES if name.startswith("sparkbeam")]
STARTS = [
    (name, what)
    for row, name in enumerate(OURS)
    for column, what in enumerate(KINDS)
    if (row + column) % 3 == 0
]
"""A third of all pairs: a start takes long."""


@pytest.mark.part(3)
@pytest.mark.parametrize(("name", "what"), STARTS)
def test_a_start_over_it_says_what_is_wrong(checkpoint: Path, name: str, what: str) -> None:
    in_its_place(checkpoint / name, what)
    try:
        leave(checkpoint)
    except SparkBeamError as error:
        assert str(checkpoint) in str(error)  # noqa: PT017


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths to all parts of a value of JSON."""
    parts: Any = value.items() if isinstance(value, dict) else ()
    if isinstance(value, list):
        parts = enumerate(value)
    return [path, *(found for at, part in parts for found in places(part, (*path, at)))]


def changed(value: Any, path: tuple[Any, ...], to: Any) -> Any:
    if not path:
        return to
    at, *rest = path
    copied = value.copy()
    copied[at] = changed(value[at], tuple(rest), to)
    return copied


@pytest.mark.parametrize("name", ["feedback/1.json", "driver.json", "graph.json", "pipeline.json"])
def test_each_part_of_a_file_may_be_anything(checkpoint: Path, name: str) -> None:
    path = checkpoint / "sparkbeam" / name
    (checkpoint / "sparkbeam/finished").unlink()
    content = json.loads(path.read_text())
    for number, place in enumerate(places(content)):
        for at in (number, number * 7 + 3):
            to = ODD_VALUES[at % len(ODD_VALUES)]
            path.write_text(json.dumps(changed(content, place, to)))
            says_what_is_wrong("status", str(checkpoint))
            try:
                json.dumps(CheckpointView(str(checkpoint)).content(), allow_nan=False)
            except SparkBeamError as error:
                assert str(checkpoint) in str(error)  # noqa: PT017
