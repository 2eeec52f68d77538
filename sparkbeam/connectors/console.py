"""Spark's ``console`` format: the rows of a micro-batch as a table on standard output."""

from typing import Any

from sparkbeam.common import arguments
from sparkbeam.common.display_text import line
from sparkbeam.errors import ConfigurationError
from sparkbeam.observe.collection.printed_output import write
from sparkbeam.plan.spark_io import Options
from sparkbeam.upstream.spark import drawn
from sparkbeam.wire.output_lines import STDOUT

FORMAT = "console"
_BAR = "-" * 43
_ROWS, _CHARACTERS = 20, 20
_MOST = (1 << 31) - 2


def write_table(rows: Any, batch_id: int, label: str, options: Options) -> None:
    """Write rows as Spark's own console does, with the label of the transform, all at once.

    Args:
        batch_id: the number of the micro-batch.
    """
    most, characters = limits(options)
    table = drawn(rows, most, characters)
    write(STDOUT, f"{_BAR}\nBatch: {batch_id} ({line(label)})\n{_BAR}\n{table}")


def limits(options: Options) -> tuple[int, int]:
    """Return the maximum number of rows and of characters of a value; 0 for no limit.

    Raises:
        ConfigurationError: an option has another value.
    """
    found = {name.lower(): value for name, value in options}
    most = _number("numRows", found.get("numrows", str(_ROWS)))
    truncate = found.get("truncate", "true").lower()
    characters = {"true": _CHARACTERS, "false": 0}.get(truncate)
    return most, _number("truncate", truncate) if characters is None else characters


def _number(name: str, text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        other = ", True or False" if name == "truncate" else ""
        raise ConfigurationError(
            f"The option {name}={arguments.shown(text)} of the console must be a number, such as "
            f"20{other}."
        ) from None
    return arguments.whole_number(f"The option {name}", number, least=0, most=_MOST)
