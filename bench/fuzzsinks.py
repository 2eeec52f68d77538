"""Rows that nobody has thought of: do sinks write what they are given, or say what is wrong?

Run with ``python bench/fuzzsinks.py --minutes 10 --seed 1``. Random schemas, nested to three
levels, with random values for them, some of which the columns do not take, are packed in this
process, element by element and as columns, and compared with a plain reference
(``tests/random_sinks.py``). With ``--master "local[2]"`` each hundredth trial is also written and
read back through Spark, as Parquet, by ``as_dataframe`` and by ``ForeachBatch``, in batch and in a
stream. Each difference is printed, and ``--only NUMBER`` with the same seed runs that trial alone.
Ends with 1 if there is any.
"""

import argparse
import logging
import sys
import tempfile
from pathlib import Path
from random import Random
from typing import Any

from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "io"))

from all_sinks import Sinks, plain
from fuzz import numbers
from random_sinks import Case, Figures, case, comparable, try_case

from sparkbeam import SparkBeamOptions
from sparkbeam.spark import session as sessions

_PACKED = 100
"""Of so many trials one goes through Spark."""
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
            if expected is not None or "failed: ValueError: the " not in str(error):
                return f"{sink} fails: {error}"
            return None
    if expected is None:
        return f"{sink} writes what it does not take: {found}"
    rows, wanted = (
        sorted(repr(comparable(plain(row))) for row in each) for each in (found, expected)
    )
    return None if rows == wanted else f"{sink} writes {rows}\nand not {wanted}"


def main() -> None:
    """Tries schemas and rows, and prints differences and the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, help="the number of the one trial to run")
    parser.add_argument("--master", help="of Spark; none by default")
    args = parser.parse_args()
    logging.disable(logging.CRITICAL)
    spark = None
    if args.master:
        spark = sessions.obtain(SparkBeamOptions([f"--spark_master={args.master}"]))
    console, figures, differences = Console(), Figures(), 0
    for number in numbers(args.minutes, args.only):
        random = Random(f"{args.seed}-{number}")
        made = case(random, columns=8 if number % _PACKED == 0 else 3)
        found = try_case(made, figures)
        if found is None and spark is not None and number % _PACKED == 0 and made.rows:
            figures.spark += 1
            found = through_spark(made, random.choice(_SINKS), spark)
        if found is not None:
            differences += 1
            head = f"\nDifference {differences}: --seed {args.seed} --only {number}"
            text = f"{head}\n{made.schema.simpleString()}\n{made.rows}\n{found}"
            console.print(text, markup=False, highlight=False, soft_wrap=True)
    table = Table("", f"seed {args.seed}, {args.minutes:g} minutes")
    for name, words in ROWS.items():
        table.add_row(words, f"{getattr(figures, name):,}")
    table.add_row("differences", str(differences))
    console.print(table)
    sys.exit(bool(differences))


if __name__ == "__main__":
    main()
