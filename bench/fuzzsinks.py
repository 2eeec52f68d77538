"""Rows that nobody has thought of: do sinks write what they are given, or say what is wrong?

Run with ``python bench/fuzzsinks.py --minutes 10 --seed 1``. Random schemas, nested to three
levels, with random values for them, some of which the columns do not take, are packed in this
process, element by element and as columns, and compared with a plain reference
(``tests/random_sinks.py``). With ``--spark_master "local[2]"`` each hundredth trial is also written
and read back through Spark, as Parquet, by ``as_dataframe`` and by ``ForeachBatch``, in batch and
in a stream. Each difference is printed, and ``--only NUMBER`` with the same seed runs that trial
alone. Ends with 1 if there is any.
"""

import sys
import tempfile
from pathlib import Path
from random import Random
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "io"))

import trials
from all_sinks import Sinks, plain
from random_sinks import Case, Figures, case, comparable, try_case

from sparkbeam import SparkBeamOptions
from sparkbeam.spark import session as sessions

_PACKED = 100
"""Of so many trials one goes through Spark."""
_REFUSALS = ("failed: ValueError: the ", "the coder of its output cannot encode an element")
"""Of a sink, and of the coder of the step before it, which takes no lone surrogates."""
_SINKS = ("files", "dataframe", "function", "stream", "stream_function")

ROWS = {
    "cases": "schemas with rows",
    "rows": "rows that fit",
    "refused": "schemas with a value that does not fit",
    "columns": "of the others packed as columns, too",
    "spark": "written and read back through Spark",
}


def through_spark(made: Case, sink: str, spark: Any) -> str | None:
    """Return what differs if a sink writes the rows."""
    expected = made.expected()
    with tempfile.TemporaryDirectory() as folder:
        try:
            found = getattr(Sinks(spark, Path(folder)), sink)(made.rows, made.schema).collect()
        except Exception as error:
            if expected is not None or not any(text in str(error) for text in _REFUSALS):
                return f"{sink} fails: {error}"
            return None
    if expected is None:
        return f"{sink} writes what it does not take: {found}"
    rows, wanted = (
        sorted(repr(comparable(plain(row))) for row in each) for each in (found, expected)
    )
    return None if rows == wanted else f"{sink} writes {rows}\nand not {wanted}"


def trial(seed: int, number: int, figures: Figures, spark: Any) -> str | None:
    """One trial, through Spark too if it is one of many columns; what differs, if it does."""
    random = Random(f"{seed}-{number}")
    is_packed = number % _PACKED == 0
    made = case(random, columns=8 if is_packed else 3)
    found = try_case(made, figures)
    if found is None and spark is not None and is_packed and made.rows:
        figures.spark += 1
        found = through_spark(made, random.choice(_SINKS), spark)
    return found and f"{made.schema.simpleString()}\n{made.rows}\n{found}"


def main() -> None:
    """Tries schemas and rows."""
    parser = trials.options(__doc__)
    parser.add_argument("--spark_master", help="of Spark; none by default")
    given, figures, spark = parser.parse_args(), Figures(), None
    if given.spark_master:
        spark = sessions.obtain(SparkBeamOptions([f"--spark_master={given.spark_master}"]))
    trials.run(
        given,
        lambda number: trial(given.seed, number, figures, spark),
        lambda: {words: getattr(figures, name) for name, words in ROWS.items()},
    )


if __name__ == "__main__":
    main()
