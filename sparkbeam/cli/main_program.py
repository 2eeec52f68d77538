"""A Python program as the main program of this process, as ``python`` runs it."""

import atexit
import builtins
import logging
import os
import pkgutil
import signal
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec, SourceFileLoader, SourcelessFileLoader
from importlib.util import find_spec
from types import CodeType, ModuleType, TracebackType
from typing import Any

_MAIN = "__main__"
_BYTECODE = ".pyc"


def start(name: str, arguments: Sequence[str], *, is_module: bool) -> None:
    """Execute a program as the main module, which it stays.

    Args:
        name: a file, a folder or an archive with a ``__main__.py``, or a module.

    Raises:
        ImportError: there is no such module.
        BaseException: raised by the program.
    """
    if is_module:
        _put_first(os.getcwd())
        main, code = _of_module(name)
    else:
        main, code = _of_path(name)
    sys.argv = [str(main.__file__) if is_module else name, *arguments]
    sys.modules[_MAIN] = main
    exec(code, vars(main))


def perform(name: str, arguments: Sequence[str], *, is_module: bool) -> None:
    """Execute a program, and end as ``python`` would.

    Raises:
        SystemExit: the program ends with an exit code, or has failed; its traceback is printed.
    """
    interrupts: list[KeyboardInterrupt] = []
    # The first handler of all is called last.
    atexit.register(_die_of, interrupts)
    try:
        start(name, arguments, is_module=is_module)
    except SystemExit:
        raise
    except BaseException as error:
        error = error.with_traceback(users_frames(error))
        sys.excepthook(type(error), error, error.__traceback__)
        if isinstance(error, KeyboardInterrupt):
            interrupts.append(error)
        raise SystemExit(1) from None


@contextmanager
def restored() -> Iterator[None]:
    """Restore the state of the process that a program changes."""
    argv, path, main = sys.argv, list(sys.path), sys.modules[_MAIN]
    try:
        yield
    finally:
        sys.argv = argv
        sys.path[:] = path
        sys.modules[_MAIN] = main


def users_frames(error: BaseException) -> TracebackType | None:
    """Return the frames of a program's exception from its own first line on."""
    frames, here = error.__traceback__, os.path.dirname(__file__)
    while frames is not None:
        file = frames.tb_frame.f_code.co_filename
        if os.path.dirname(file) != here and not file.startswith("<frozen "):
            break
        frames = frames.tb_next
    return frames


def users_traceback(error: BaseException) -> str:
    """Format a program's exception with its own frames."""
    return "".join(traceback.format_exception(type(error), error, users_frames(error)))


def _of_module(name: str) -> tuple[ModuleType, CodeType]:
    spec = find_spec(name)
    if spec is not None and spec.submodule_search_locations is not None:
        name = f"{name}.{_MAIN}"
        spec = find_spec(name)
    if spec is None:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    return _of_spec(spec)


def _of_path(path: str) -> tuple[ModuleType, CodeType]:
    importer: Any = pkgutil.get_importer(path)
    if importer is not None:
        _put_first(os.path.abspath(path))
        return _of_spec(importer.find_spec(_MAIN))
    _put_first(os.path.dirname(os.path.realpath(path)))
    file = os.path.abspath(path)
    if file.endswith(_BYTECODE):
        compiled: Any = SourcelessFileLoader(_MAIN, file)
        return _module(file, compiled), compiled.get_code(_MAIN)
    loader = SourceFileLoader(_MAIN, file)
    # Without bytecode: nobody imports it.
    return _module(file, loader), loader.source_to_code(loader.get_data(file), file)


def _of_spec(spec: ModuleSpec) -> tuple[ModuleType, CodeType]:
    loader: Any = spec.loader
    code = None if loader is None else loader.get_code(spec.name)
    if code is None:
        raise ImportError(f"No code object available for {spec.name}", name=spec.name)
    return _module(spec.origin, loader, spec), code


def _module(file: str | None, loader: object, spec: ModuleSpec | None = None) -> ModuleType:
    main = ModuleType(_MAIN)
    vars(main).update(
        __annotations__={},
        __builtins__=builtins,
        __cached__=None if spec is None else spec.cached,
        __file__=file,
        __loader__=loader,
        __package__=None if spec is None else spec.parent,
        __spec__=spec,
    )
    return main


def _put_first(entry: str) -> None:
    """Put a folder first on the module search path, in the place of the command's own."""
    if sys.flags.safe_path:
        return
    own = ("", os.getcwd(), os.path.dirname(os.path.realpath(sys.argv[0])))
    if sys.path and sys.path[0] in own:
        sys.path[0] = entry
    else:
        sys.path.insert(0, entry)


def _die_of(interrupts: list[KeyboardInterrupt]) -> None:
    """End the process by the signal of an interrupt that the program has not caught."""
    if not interrupts:
        return
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGINT)
