"""Programs of this folder share kills and sinks with those of ``tests/io``."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "io"))
