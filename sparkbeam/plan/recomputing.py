"""Stages that may run again for each reader, where a session cannot keep their rows."""

from collections.abc import Iterator

from sparkbeam.plan.model import Exchange, Plan, Stage
from sparkbeam.plan.pardo_functions import is_decoding_for_create
from sparkbeam.plan.parsed_stage import parsed

_FILES = frozenset(["avro", "csv", "json", "orc", "parquet", "text"])
"""Sources that give the same rows again, as long as nobody changes the files."""


def uncertain_step(plan: Plan, stage: Stage) -> str | None:
    """Return the label of a step that may give other elements, or act again, if it ran twice.

    None if all steps of the stage, and of those that it reads, are known: they create values, read
    files, hand elements on, or run over columns, where no code of the user is called.
    """
    seen: set[str] = set()
    waiting = [stage]
    while waiting:
        found = waiting.pop()
        if found.id not in seen:
            seen.add(found.id)
            uncertain = next(_uncertain(plan, found), None)
            if uncertain is not None:
                return uncertain
            waiting += [plan.producer(tag) for tag in found.inputs if plan.source(tag) is None]
    return None


def _uncertain(plan: Plan, stage: Stage) -> Iterator[str]:
    """Yield the uncertain steps of a stage: sources, joins, and functions that are called."""
    for tag in stage.inputs:
        source = plan.source(tag)
        if source is not None and (source.read is None or source.read.format.lower() not in _FILES):
            yield source.label
    if stage.exchange is Exchange.JOIN:
        yield stage.name
    over_columns = {
        step.label for step in stage.column_steps if step.reason is None and step.is_certain
    }
    transforms = parsed(stage).transforms
    for operator in stage.operators:
        is_known = operator.creates or operator.hands_on or operator.label in over_columns
        if not (is_known or is_decoding_for_create(transforms[operator.label])):
            yield stage.applied(operator.label)
