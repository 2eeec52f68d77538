"""Puts the figures of docs/benchmarks.md into README.md; a test compares the two.

Run with ``python bench/figures.py`` after a change of docs/benchmarks.md.
"""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
_BEGIN, _END = "<!-- figures -->\n", "<!-- end of figures -->\n"

_BATCH = {
    "sum per key, 1,000 keys": "Map, CombinePerKey(sum), 1,000 keys",
    "group by 100,000 keys": "Map, GroupByKey, 100,000 keys, sum of lengths",
}


def figures(benchmarks: str) -> str:
    """What README says of speed.

    Args:
        benchmarks: the text of docs/benchmarks.md.

    Raises:
        KeyError: a figure is not there any more.
    """
    batch, streaming = _rows(benchmarks, "Batch"), _rows(benchmarks, "Streaming")
    lines = ["| | sparkbeam | FnApiRunner | hand-written RDD program |", "|---|---|---|---|"]
    for name, task in _BATCH.items():
        programs = batch[task]
        rdd = next(value for program, value in programs.items() if program.startswith("RDD"))
        times = (programs["sparkbeam"], programs["FnApiRunner"], rdd)
        lines.append(f"| {name} | " + " | ".join(f"{float(time):.1f} s" for time in times) + " |")
    counts = streaming["running count per key"]
    ours = float(counts["sparkbeam, a stateful DoFn"])
    small = re.search(r"A micro-batch of 10 elements with 2 layers takes ([\d.]+) s", benchmarks)
    assert small is not None
    with_state = float(counts["`transformWithState`"])
    in_pandas = float(counts["`applyInPandasWithState`"])
    sessions = re.search(
        r"\| sessions, [\d,]+ results, `ReadFromSpark` \| ([\d.]+) \| ([\d.]+) ", benchmarks
    )
    assert sessions is not None
    lines += [
        "",
        "To count the sessions of each bidder of ten million Nexmark events in Parquet, with plain",
        f"lambdas, takes {float(sessions[1]):.1f} s, and Spark's own `session_window` "
        f"{float(sessions[2]):.1f} s.",
        "",
        "In streaming, a stateful DoFn counts micro-batches of 200,000 elements with 50,000 keys",
        f"in {ours:.1f} s, where a program over `transformWithState` takes {with_state:.1f} s",
        f"and one over `applyInPandasWithState` {in_pandas:.1f} s.",
        f"A micro-batch with little to do takes {float(small[1]):.1f} s.",
    ]
    return "\n".join(lines) + "\n"


def _rows(benchmarks: str, heading: str) -> dict[str, dict[str, str]]:
    """The seconds in the first table below a heading, by task and program."""
    section = re.split(r"^## ", benchmarks, flags=re.MULTILINE)
    (text,) = (part for part in section if part.startswith(f"{heading}: "))
    found: dict[str, dict[str, str]] = {}
    task = ""
    for line in re.findall(r"^\|(.*)\|$", text, flags=re.MULTILINE):
        first, program, seconds, *_ = (cell.strip() for cell in line.split("|"))
        task = first or task
        found.setdefault(task, {})[program] = seconds
    return found


def with_figures(readme: str, benchmarks: str) -> str:
    """README with what it is to say."""
    before, _, rest = readme.partition(_BEGIN)
    _, _, after = rest.partition(_END)
    return f"{before}{_BEGIN}{figures(benchmarks)}{_END}{after}"


def main() -> None:
    """Writes README.md anew."""
    readme = ROOT / "README.md"
    benchmarks = (ROOT / "docs" / "benchmarks.md").read_text()
    readme.write_text(with_figures(readme.read_text(), benchmarks))


if __name__ == "__main__":
    main()
