"""Whatever is given as an argument of a command, it works or is told in a few words, with 2."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from odd import FEW, TEXTS, assert_short

from beam_nexmark import engine
from sparkbeam.cli.commands import main

WORDS = st.one_of(
    st.sampled_from(["run", "report", "compare", "generate", "explain", "drain", "nexmark", "-h"]),
    st.sampled_from(["--query", "--events", "--rate", "--mode", "streaming", "--set", "--save"]),
    st.sampled_from(["--tolerance", "--format", "--runner", "--json", "-m", "--repeat", "--"]),
    TEXTS,
)
OPTIONS = ["--query", "--events", "--set", "--runner", "--mode", "--rate", "--repeat"]
HANDED_ON = ["--set=window_size", "--spark_master", "--shards"]
STREAMED = ["nexmark", "--mode", "streaming"]


class Started(Exception):
    """The arguments were taken: what follows is work."""


@pytest.fixture(scope="module", autouse=True)
def no_work(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keeps queries from running, and files in a folder of their own."""

    def started(*_: Any, **__: Any) -> None:
        raise Started

    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("commands")
        (folder / "text").write_text("text")
        patch.chdir(folder)
        patch.setenv("XDG_DATA_HOME", str(folder))
        for name in ("spark.session.obtain", "streaming.execution.ask_to_drain"):
            patch.setattr(f"sparkbeam.{name}", started)
        patch.setattr("beam_nexmark.event_files.write_json", started)
        patch.setattr("beam_nexmark.event_files.write_parquet", started)
        patch.setattr(engine.Engine, "run", started)
        yield


def check(*arguments: str) -> None:
    result = CliRunner().invoke(main, arguments)
    if result.exit_code == 0 or isinstance(result.exception, Started):
        return
    assert isinstance(result.exception, SystemExit), repr(result.exception)[:500]
    assert result.exit_code == 2, result.stderr
    assert_short(result.stderr.replace("\n", " "))


@FEW
@given(arguments=st.lists(WORDS, min_size=1, max_size=4))
def test_all_commands(arguments: list[str]) -> None:
    check(*arguments)


@pytest.mark.parametrize(
    "before",
    [
        ["explain"],
        ["explain", "-m"],
        ["explain", "--save"],
        ["drain"],
        ["nexmark", "report"],
        ["nexmark", "report", "--history"],
        ["nexmark", "compare", "text"],
        ["nexmark", "compare", "text", "text", "--tolerance"],
        ["nexmark", "generate"],
        ["nexmark", "generate", "--format"],
        ["nexmark", "--json"],
        *([*STREAMED, option] for option in OPTIONS),
        ["nexmark"],
    ],
    ids=" ".join,
)
@FEW
@given(value=TEXTS)
def test_arguments_of_each_command(before: list[str], value: str) -> None:
    check(*before, value)


@FEW
@given(name=st.one_of(st.sampled_from(HANDED_ON), TEXTS), value=TEXTS)
def test_settings_and_options_that_nexmark_hands_on(name: str, value: str) -> None:
    check("nexmark", f"{name}={value}")
    check("nexmark", "--set", f"{name}={value}")
    check("nexmark", "generate", "--set", f"event_rate={value}", "events")


@pytest.mark.parametrize(
    "arguments",
    [
        ["nexmark", "--mode", "streaming", "--rate", "nan"],
        ["nexmark", "--mode", "streaming", "--rate", "inf"],
        ["nexmark", "compare", "text", "text", "--tolerance", "nan"],
        ["nexmark", "--repeat", "99999999999"],
        ["nexmark", "--query", "9" * 5_000],
        ["nexmark", "--runner", "sys.exit"],
        ["explain", "x" * 5_000],
        ["explain", "-m", ".."],
        ["explain", "--save", "a\0.mmd", "text"],
    ],
    ids=lambda arguments: " ".join(arguments)[:40],
)
def test_nonsense_is_refused(arguments: list[str]) -> None:
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 2
    assert_short(result.stderr.replace("\n", " "))


def test_the_programs_own_errors_keep_their_length(tmp_path: Path) -> None:
    program = tmp_path / "long.py"
    program.write_text(f"raise ValueError('{'x' * 5_000}')")
    assert len(CliRunner().invoke(main, ["explain", str(program)]).stderr) > 5_000
