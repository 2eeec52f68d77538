"""Files in which explanations and reports are saved."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sparkbeam.common import local_files
from sparkbeam.common.arguments import path as checked_path
from sparkbeam.common.arguments import shown
from sparkbeam.errors import ConfigurationError

if TYPE_CHECKING:
    from sparkbeam.explain.stage_graph import Figures
    from sparkbeam.plan.model import Plan


def check_suffix(path: str | Path, what: str, suffixes: Sequence[str]) -> None:
    """Raise :class:`ConfigurationError` unless the suffix of a file is supported.

    Args:
        what: the subject of the error message.
    """
    remedy = f"use a name that ends in {', '.join(suffixes[:-1])} or {suffixes[-1]}"
    if Path(checked_path("path", path, remedy)).suffix.lower() not in suffixes:
        raise ConfigurationError(f"{what} cannot be saved as {shown(str(path))}: {remedy}.")


def save(
    path: Path,
    plan: "Plan",
    title: str,
    sections: Mapping[str, str],
    text: str,
    figures: "Figures | None" = None,
) -> None:
    """Write the stages as a Mermaid flowchart (.mmd), with sections (.html), or else a text.

    Raises:
        ConfigurationError: the file cannot be written.
    """
    from sparkbeam.explain.stage_graph import flowchart, page, sketch

    match path.suffix.lower():
        case ".mmd":
            text = flowchart(sketch(plan), figures)
        case ".html":
            text = page(sketch(plan), title, sections, figures)
    try:
        path.parent.resolve(strict=True)
        local_files.write(path, text.encode())
    except OSError as error:
        raise ConfigurationError(
            f"Cannot write {shown(str(path))}: {error.strerror}. Give another path."
        ) from error
