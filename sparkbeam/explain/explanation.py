"""What would run, for people: the user's transforms, the stages, Spark's plan."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from sparkbeam.explain import saving

if TYPE_CHECKING:
    from sparkbeam.plan.model import Plan

SUFFIXES = (".svg", ".html", ".txt")
"""The kinds of file that an explanation can be saved as."""


@dataclass(frozen=True)
class Explanation:
    """How a pipeline runs on Spark; ``print`` it, or :meth:`save` it.

    Attributes:
        pipeline: the user's transforms as an indented tree, with the stages that run them.
        stages: the stages and how rows travel between them.
        spark: Spark's physical plan of each query, or why there is none.
        aggregations: what runs for each GroupByKey and each combine, from the first half of a
            combine to its outputs; empty where there is none. After a run with the elements in
            and out and the bytes of the shuffle.
        joins: after a run, which join Spark has chosen for each :class:`sparkbeam.Join`, and what
            has become of the partitions of its sides; empty where that is not known.
    """

    _plan: "Plan" = field(repr=False)
    pipeline: str
    stages: str
    spark: str
    aggregations: str = ""
    joins: str = ""

    @property
    def parts(self) -> dict[str, str]:
        """The texts by their headings, from what the user wrote to what Spark runs."""
        parts = {
            "Pipeline": self.pipeline,
            "Stages": self.stages,
            "Aggregations": self.aggregations,
            "Joins": self.joins,
            "Spark plan": self.spark,
        }
        return {heading: text for heading, text in parts.items() if text}

    def __str__(self) -> str:
        return "\n\n".join(
            f"{heading}\n{'=' * len(heading)}\n{text}" for heading, text in self.parts.items()
        )

    def _repr_html_(self) -> str:
        from sparkbeam.explain import picture

        texts = "".join(
            f"<details><summary>{escape(heading)}</summary><pre>{escape(text)}</pre></details>"
            for heading, text in self.parts.items()
        )
        return f'<div style="overflow-x:auto">{picture.svg(self._plan)}</div>{texts}'

    def save(self, path: str | Path) -> None:
        """Writes the picture (.svg), picture and texts (.html) or the texts (.txt).

        Raises:
            ConfigurationError: the path ends in something else, or cannot be written.
        """
        check_suffix(path)
        from sparkbeam.explain import picture

        path = Path(path)
        match path.suffix.lower():
            case ".svg":
                content = picture.svg(self._plan)
            case ".html":
                content = picture.page(self._plan, "How the pipeline runs on Spark", self.parts)
            case _:
                content = f"{self}\n"
        saving.write(path, content)


def plan_of(explanation: Explanation) -> "Plan":
    """The plan that is explained, with labels that may be shown."""
    return explanation._plan


def check_suffix(path: str | Path) -> None:
    """Raises :class:`ConfigurationError` for a file that an explanation cannot be saved as."""
    saving.check_suffix(path, "An explanation", SUFFIXES)


_collections: list[list[Explanation]] = []


@contextmanager
def collected() -> Iterator[list[Explanation]]:
    """Meanwhile no pipeline on our runner is executed, in any thread: each is explained.

    Yields:
        The explanations, in their order.
    """
    explanations: list[Explanation] = []
    _collections.append(explanations)
    try:
        yield explanations
    finally:
        _collections.remove(explanations)


def is_collecting() -> bool:
    """Whether pipelines are to be explained rather than executed, as :func:`collected` says."""
    return bool(_collections)


def show(explanation: Explanation) -> None:
    """Prints an explanation, as ``--spark_explain`` asks for."""
    print(explanation)
    for explanations in _collections:
        explanations.append(explanation)
