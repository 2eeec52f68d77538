"""Explanation of a pipeline's execution: the user's transforms, the stages, Spark's plan."""

from dataclasses import dataclass, field
from functools import partial
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from sparkbeam.explain import saving
from sparkbeam.explain.collecting import Collector

if TYPE_CHECKING:
    from sparkbeam.plan.model import Plan

check_suffix = partial(
    saving.check_suffix, what="An explanation", suffixes=(".mmd", ".html", ".txt")
)
"""Raise :class:`ConfigurationError` unless a file of this suffix can hold an explanation."""


@dataclass(frozen=True)
class Explanation:
    """The execution of a pipeline on Spark; ``print`` it, or :meth:`save` it.

    Attributes:
        pipeline: the user's transforms as an indented tree, with the stages that run them.
        stages: the stages and how rows travel between them.
        spark: Spark's physical plan of each query, or the reason why there is none.
        aggregations: the operations of each GroupByKey and each combine, from partial aggregation
            to output; empty if there are none. After a run with the elements in and out and the
            bytes of the shuffle.
        joins: after a run, the join algorithm that Spark chose for each :class:`sparkbeam.Join`,
            and the partitions of its sides; empty if unknown.
    """

    _plan: "Plan" = field(repr=False)
    pipeline: str
    stages: str
    spark: str
    aggregations: str = ""
    joins: str = ""

    @property
    def parts(self) -> dict[str, str]:
        """The texts by heading, from the user's transforms to Spark's plan."""
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
        from sparkbeam.explain.stage_graph import html, sketch

        texts = "".join(
            f"<details><summary>{escape(heading)}</summary><pre>{escape(text)}</pre></details>"
            for heading, text in self.parts.items()
        )
        return f"{html(sketch(self._plan))}{texts}"

    def save(self, path: str | Path) -> None:
        """Write the stages as a Mermaid flowchart (.mmd), stages and texts (.html) or texts (.txt).

        Raises:
            ConfigurationError: the path has another suffix, or cannot be written.
        """
        check_suffix(path)
        title = "How the pipeline runs on Spark"
        saving.save(Path(path), self._plan, title, self.parts, f"{self}\n")


def plan_of(explanation: Explanation) -> "Plan":
    """Return the explained plan, with printable labels."""
    return explanation._plan


explanations = Collector[Explanation]()
"""Explanations of pipelines, which are not executed while somebody collects them."""
