"""Verdicts on Beam programs without running their pipelines, for ``sparkbeam check``."""

import json
import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from sparkbeam.cli import examining
from sparkbeam.common.display_text import line, shortened

RUNS, CANNOT_RUN, FAILS = "runs", "cannot run", "fails"
UNKNOWN, NO_PIPELINE, NO_BEAM = "not checked", "no pipeline", "no Beam program"

_MOST = 500
_USAGE = 2
_OF_BEAM = re.compile(rb"\b(apache_beam|sparkbeam)\b")
_SKIPPED = ("__pycache__", "site-packages", "node_modules")


@dataclass(frozen=True)
class Verdict:
    """Outcome of the check of a program, or an obstacle to one of its pipelines.

    Attributes:
        transform: the label of the transform that cannot run, else empty.
        reason: the reason, or a note; else empty.
        remedy: the change to make, else empty.
    """

    program: str
    verdict: str
    transform: str = ""
    reason: str = ""
    remedy: str = ""

    @property
    def is_bad(self) -> bool:
        """True if the program does not run on Spark as it is."""
        return self.verdict in (CANNOT_RUN, FAILS)

    def content(self) -> dict[str, str]:
        """Return the verdict as JSON-compatible data, without secrets."""
        return {name: shortened(text, _MOST) for name, text in asdict(self).items()}


def programs_in(path: Path) -> list[str]:
    """Return the program of a path, or the Python files under a folder that mention Beam."""
    if not path.is_dir() or (path / "__main__.py").exists():
        return [str(path)]
    found = []
    for file in sorted(path.rglob("*.py")):
        folders = file.relative_to(path).parts
        if any(part.startswith(".") or part in _SKIPPED for part in folders):
            continue
        with suppress(OSError):
            if _OF_BEAM.search(file.read_bytes()):
                found.append(str(file))
    return found


def verdicts(
    programs: Sequence[str], arguments: Sequence[str], *, is_module: bool, seconds: float
) -> Iterator[list[Verdict]]:
    """Yield the verdicts on each program, at least one, in order."""
    task = examining.Task(
        tuple(programs), tuple(arguments), is_module, seconds, os.cpu_count() or 1
    )
    found: dict[int, list[Verdict]] = {}
    following = 0
    with _examined(task) as outcomes:
        for number, outcome in outcomes:
            found[number] = judged(programs[number], outcome, seconds)
            while following in found:
                yield found.pop(following)
                following += 1


def table(rows: Iterable[Verdict], width: int | None = None) -> list[str]:
    """Return the lines of a table of verdicts.

    Args:
        width: of the terminal, in characters; None for a line for each verdict.
    """
    listed = [("PROGRAM", "VERDICT", "")]
    for row in rows:
        program, verdict, transform, reason, remedy = map(line, row.content().values())
        if reason and remedy and reason[-1] not in ".:":
            reason += "."
        label = f"'{transform}':" if transform else ""
        listed.append((program, verdict, " ".join(filter(None, [label, reason, remedy]))))
    widths = [max(len(row[at]) for row in listed) for at in range(2)]
    lines: list[str] = []
    for program, verdict, rest in listed:
        head = f"{program.ljust(widths[0])}  {verdict}"
        if width is None:
            lines.append(f"{head.ljust(sum(widths) + 2)}  {rest}".rstrip())
        else:
            # Blanks that align the verdicts are left out where they do not fit.
            lines += textwrap.wrap(head if len(head) <= width else f"{program}  {verdict}", width)
            lines += textwrap.wrap(rest, width, initial_indent="  ", subsequent_indent="  ")
    return lines


@dataclass(frozen=True)
class Examined:
    """Outcome of the process that examines a program.

    Attributes:
        code: its exit code; None if it was ended.
    """

    lines: list[dict[str, Any]]
    code: int | None
    last_line: str

    @property
    def end(self) -> dict[str, Any] | None:
        """The end of the program; None if the process has ended in its midst."""
        return next((each["end"] for each in self.lines if "end" in each), None)


def judged(program: str, found: Examined, seconds: float) -> list[Verdict]:
    """Return the verdicts on a program from its examination within a time limit."""
    pipelines = [each["findings"] for each in found.lines if "findings" in each]
    end = found.end or {}
    problems = [problem for each in [*pipelines, end.get("findings", [])] for problem in each]
    if problems:
        rows = (Verdict(program, CANNOT_RUN, **problem) for problem in problems)
        return list(dict.fromkeys(rows))
    if pipelines and "error" in end and not end["may_lack_results"]:
        earlier = "a pipeline that runs" if len(pipelines) == 1 else "pipelines that run"
        reason = f"After {earlier}, it ended with {end['error']}"
        return [Verdict(program, FAILS, "", reason, _REMEDIES.get(end["kind"], _REMEDY))]
    if pipelines and "asks_spark" not in end:
        return [Verdict(program, RUNS, reason=_note(found, len(pipelines), seconds))]
    return [_without_pipeline(program, found, seconds)]


def _note(found: Examined, pipelines: int, seconds: float) -> str:
    """Return the remarks on a program whose pipelines run."""
    several = f"{pipelines} pipelines." if pipelines > 1 else ""
    end = found.end
    if found.code is None:
        after = f"It did not end within {seconds:g} seconds."
    elif end is None:
        after = f"It ended its process with exit code {found.code}."
    elif "error" in end:
        after = f"Then it ended with {end['error']}: expected if it needs the results of a run."
    elif end.get("code"):
        after = f"Then it ended with exit code {end['code']}."
    else:
        after = ""
    return " ".join(filter(None, [several, after]))


def _without_pipeline(program: str, found: Examined, seconds: float) -> Verdict:
    end, code = found.end, found.code
    unknown = partial(Verdict, program, UNKNOWN)
    if code is None:
        remedy = "Find out what pipeline construction is waiting for, or raise --timeout."
        return unknown("", f"No pipeline ran within {seconds:g} seconds.", remedy)
    if end is None:
        reason = f"It ended its process with exit code {code} before it ran a pipeline."
        return unknown("", f"{reason} {found.last_line}".strip(), _ARGUMENTS)
    if "asks_spark" in end:
        return unknown(end["asks_spark"], _ASKS_SPARK, _EXPLAIN)
    if end.get("kind") == "EOFError":
        return unknown("", "It reads standard input, which is empty here.", _ARGUMENTS)
    if "error" in end:
        return Verdict(program, FAILS, "", end["error"], _REMEDIES.get(end["kind"], _REMEDY))
    code = end.get("code")
    if code:
        reason = f"It ended with exit code {code} before it ran a pipeline."
        if code == _USAGE:
            reason = "It needs other arguments."
        return unknown("", f"{reason} {found.last_line}".strip(), _ARGUMENTS)
    if not any(each.get("is_of_beam") for each in found.lines):
        return Verdict(program, NO_BEAM)
    return Verdict(program, NO_PIPELINE, "", "It creates no pipeline with these arguments.")


_ASKS_SPARK = "It needs Spark while the pipeline is built, but this command does not start it."
_EXPLAIN = "To see how it runs, use sparkbeam explain, which starts Spark."
_ARGUMENTS = "Give it the arguments with which it runs a pipeline, after --."


_MODULE = "Install the module, or start the command in the folder of the program."
_REMEDIES = {
    **dict.fromkeys(("ImportError", "ModuleNotFoundError"), _MODULE),
    "SyntaxError": "Correct the program.",
    examining.YAML: "Correct the pipeline.",
}
_REMEDY = "Correct the program, or give it what it needs, for example arguments after --."


@contextmanager
def _examined(task: examining.Task) -> Iterator[Iterator[tuple[int, Examined]]]:
    """Examine programs; yield the number of each with its outcome, in the order of their ends."""
    process = subprocess.Popen(
        [sys.executable, "-m", examining.__name__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(f"{json.dumps(asdict(task))}\n")
        process.stdin.close()
        lines = map(json.loads, process.stdout)
        yield ((number, Examined(**outcome)) for number, outcome in lines)
    finally:
        process.terminate()
        process.wait()
