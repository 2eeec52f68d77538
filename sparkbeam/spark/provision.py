"""Files, modules and packages that a pipeline's options give to its workers."""

import hashlib
import shutil
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import pyarrow as pa
from apache_beam.options.pipeline_options import SetupOptions

from sparkbeam.common import arguments
from sparkbeam.common.temporary_folders import served_folder
from sparkbeam.errors import ConfigurationError
from sparkbeam.options import spark_options
from sparkbeam.spark import requirements
from sparkbeam.spark import session as sessions
from sparkbeam.spark.capabilities import ship
from sparkbeam.wire.environment import Environment
from sparkbeam.wire.heap import Heap

_DIGITS = 12
_INSTALL = "Install the packages, or place the files, on the workers, and leave out the option."


def provided(
    session: Any, options: spark_options.SparkBeamOptions, heap: Heap | None = None
) -> Environment:
    """Give the workers what the options name, and return their environment.

    Args:
        heap: the memory of the JVM that receives the rows of the workers.

    Raises:
        ConfigurationError: it cannot be given to them.
    """
    sessions.ship_modules(session, options)
    for path in options.view_as(SetupOptions).files_to_stage or ():
        _stage(session, path)
    shares_files = sessions.is_local(session)
    return spark_options.environment(
        options,
        shares_files=shares_files,
        given=sessions.variables_of(session),
        heap=heap,
        packages=_packages(session, options, shares_files=shares_files),
    )


def _packages(
    session: Any, options: spark_options.SparkBeamOptions, *, shares_files: bool
) -> str | None:
    """Return the folder of the pipeline's packages, or the name of an archive of them."""
    folder = requirements.installed(options, same_python=shares_files)
    if folder is None:
        return None
    if shares_files:
        return str(folder)
    _check_platform(session, folder)
    archive = requirements.archive(folder)
    _ship_once(session, archive, "")
    return archive.name


def _check_platform(session: Any, folder: Path) -> None:
    """Check that workers elsewhere can load the compiled parts of packages, if there are any."""
    compiled = {path.relative_to(folder).parts[0] for path in folder.rglob("*.so")}
    if not compiled:
        return
    ((found,),) = session.range(1).mapInArrow(_platforms, "platform string").collect()
    if found != sysconfig.get_platform():
        raise ConfigurationError(
            f"The packages of the pipeline have parts compiled for {sysconfig.get_platform()} "
            f"({arguments.listed(sorted(compiled))}), but the workers run {found}. Start the "
            "program on a machine like theirs, or let Spark ship an environment that has them: see "
            "docs/cluster.md."
        )


def _platforms(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Return the platform of a worker for each row; the function for ``mapInArrow``."""
    for batch in batches:
        yield pa.RecordBatch.from_pydict({"platform": [sysconfig.get_platform()] * batch.num_rows})


def _stage(session: Any, path: str) -> None:
    """Ship a file under its own name; Spark takes each name once."""
    try:
        content = Path(path).read_bytes()
    except (OSError, ValueError) as error:
        raise ConfigurationError(
            f"--files_to_stage={arguments.shown(path)} cannot be read "
            f"({getattr(error, 'strerror', None) or error}). Correct the path."
        ) from None
    digest = hashlib.sha256(content).hexdigest()
    # Spark serves it as long as the process lives, whatever becomes of the original.
    folder = Path(served_folder().name) / digest[:_DIGITS]
    folder.mkdir(exist_ok=True)
    copy = folder / Path(path).name
    if not copy.exists():
        shutil.copyfile(path, copy)
    _ship_once(session, copy, digest)


_shipped: "WeakKeyDictionary[Any, dict[str, str]]" = WeakKeyDictionary()


def _ship_once(session: Any, file: Path, digest: str) -> None:
    """Ship a file, unless the session has it.

    Raises:
        ConfigurationError: it has another file of the same name, or refuses this one.
    """
    known = _shipped.setdefault(session, {})
    name = file.name
    if known.get(name, digest) != digest:
        raise ConfigurationError(
            f"--files_to_stage={arguments.shown(name)}: the Spark session already has a file of "
            "this name with other content, and keeps it. Rename the file, or start another "
            "session."
        )
    if name not in known:
        ship(session, str(file), _INSTALL)
        known[name] = digest
