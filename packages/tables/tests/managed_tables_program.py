"""The first parts of two programs in one session, which starts with Delta and gets Iceberg later.

It prints the findings of both as JSON.

Usage: managed_tables_program.py FOLDER
"""

import json
import sys
from pathlib import Path

import iceberg_program
import managed_delta_program


def main(folder: Path) -> None:
    found = {}
    for name, program in (("delta", managed_delta_program), ("iceberg", iceberg_program)):
        (folder / name).mkdir()
        found[name] = program.findings(folder / name, "basics")
    print(f"\n{json.dumps(found)}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
