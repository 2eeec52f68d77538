"""Files in which explanations and reports are saved."""

from collections.abc import Sequence
from pathlib import Path

from sparkbeam.common import local_files
from sparkbeam.common.arguments import path as checked_path
from sparkbeam.common.arguments import shown
from sparkbeam.errors import ConfigurationError


def check_suffix(path: str | Path, what: str, suffixes: Sequence[str]) -> None:
    """Raise :class:`ConfigurationError` unless the suffix of a file is supported.

    Args:
        what: the subject of the error message.
        suffixes: the supported suffixes.
    """
    remedy = f"use a name that ends in {', '.join(suffixes[:-1])} or {suffixes[-1]}"
    if Path(checked_path("path", path, remedy)).suffix.lower() not in suffixes:
        raise ConfigurationError(f"{what} cannot be saved as {shown(str(path))}: {remedy}.")


def write(path: Path, content: str) -> None:
    """Write a file.

    Raises:
        ConfigurationError: it cannot be written.
    """
    try:
        path.parent.resolve(strict=True)
        local_files.write(path, content.encode())
    except OSError as error:
        raise ConfigurationError(
            f"Cannot write {shown(str(path))}: {error.strerror}. Give another path."
        ) from error
