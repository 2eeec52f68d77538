"""Examination of a program in a process of its own: ``python -m sparkbeam.cli.examining``.

The program runs to its end; its pipelines are planned and not executed. What is found is written
to a file, a line of JSON for each pipeline as soon as it is known, and one for the end.
"""

import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from sparkbeam.cli import main_program
from sparkbeam.cli.replaced_runners import on_our_runner
from sparkbeam.errors import SparkBeamError

if TYPE_CHECKING:
    from sparkbeam.explain.findings import Finding

MODULE = "-m"
"""Says that the program is a module."""


def examine(file: Path, name: str, arguments: Sequence[str], *, is_module: bool) -> None:
    """Run a program and write what is found of its pipelines.

    Args:
        file: the file to write.
        name: of the program.
        arguments: of the program.
        is_module: the name is that of a module.
    """
    from sparkbeam.explain.findings import Finding, findings, named

    lines = _Lines(file)
    with findings.collected(lines), on_our_runner(name, is_told=False), _watched() as waiting:
        end: dict[str, Any] = {}
        try:
            main_program.start(name, arguments, is_module=is_module)
            for pipeline in waiting():
                pipeline.run()
        except SystemExit as exit:
            end = {"code": exit.code if isinstance(exit.code, int) else int(exit.code is not None)}
        except SparkBeamError as error:
            end = {"findings": [asdict(Finding.of(error))]}
        except BaseException as error:
            end = {"error": named(error), "kind": type(error).__name__}
        lines.write(end=end, is_of_beam=_is_of_beam(sys.modules["__main__"]))


class _Lines(list["tuple[Finding, ...]"]):
    """Findings of pipelines, written to a file as they come.

    Args:
        file: the file.
    """

    def __init__(self, file: Path) -> None:
        super().__init__()
        self._file = file

    def append(self, item: "tuple[Finding, ...]") -> None:
        super().append(item)
        self.write(findings=[asdict(each) for each in item])

    def write(self, **content: Any) -> None:
        """Write a line of JSON."""
        with self._file.open("a") as lines:
            lines.write(f"{json.dumps(content)}\n")


@contextmanager
def _watched() -> Iterator[Callable[[], list[Any]]]:
    """Yield a function that returns the pipelines made meanwhile that nobody has run."""
    from apache_beam import Pipeline

    beams: Any = Pipeline
    made, run = beams.__init__, beams.run
    known: list[Any] = []
    started: list[Any] = []

    def noted(pipeline: Any, *args: Any, **kwargs: Any) -> None:
        made(pipeline, *args, **kwargs)
        known.append(pipeline)

    def ran(pipeline: Any, *args: Any, **kwargs: Any) -> Any:
        started.append(pipeline)
        return run(pipeline, *args, **kwargs)

    beams.__init__, beams.run = noted, ran
    try:
        yield lambda: [each for each in known if each not in started and each.applied_labels]
    finally:
        beams.__init__, beams.run = made, run


def _is_of_beam(main: ModuleType) -> bool:
    """Return whether a program has anything of Beam's among its names."""
    return any(
        str(getattr(value, "__module__", None) or getattr(value, "__name__", "")).startswith(
            "apache_beam"
        )
        for value in list(vars(main).values())
    )


if __name__ == "__main__":
    _, target, kind, program, *rest = sys.argv
    sys.argv[1:] = []
    examine(Path(target), program, rest, is_module=kind == MODULE)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # Threads of the program are not waited for.
