"""Source files of sparkbeam and of the packages beside it."""

from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = [ROOT / "sparkbeam", *sorted(ROOT.glob("packages/*/*_*"))]
"""Their folders."""


def sources() -> dict[str, Path]:
    """Return all files by names such as ``plan/model.py`` and ``sparkbeam_sql/rows.py``."""
    return {
        path.relative_to(ROOT / "sparkbeam" if at == 0 else package.parent).as_posix(): path
        for at, package in enumerate(PACKAGES)
        for path in package.rglob("*.py")
    }
