"""Small packages for tests, which need no index."""

import zipfile
from pathlib import Path
from textwrap import dedent


def wheel(folder: Path, name: str, text: str, *, version: str = "1", requires: str = "") -> Path:
    """Writes a wheel with one module."""
    path = folder / f"{name}-{version}-py3-none-any.whl"
    info = f"{name}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    files = {
        f"{name}.py": text,
        f"{info}/METADATA": metadata + (f"Requires-Dist: {requires}\n" if requires else ""),
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        for file, content in files.items():
            archive.writestr(file, content)
        archive.writestr(f"{info}/RECORD", "".join(f"{f},,\n" for f in [*files, f"{info}/RECORD"]))
    return path


def source(folder: Path, name: str, text: str) -> Path:
    """Writes a package with a ``setup.py``, whose path it returns."""
    package = folder / name
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(text)
    (folder / "setup.py").write_text(
        dedent(f"""
            from setuptools import setup
            setup(name={name!r}, version="1", packages=[{name!r}])
        """)
    )
    return folder / "setup.py"
