"""Ports whose rows the workers keep in files, in place of Spark, which would persist the stage.

A stage that is read twice would run twice. If one of its readers waits for side inputs that come
from the same stage, the run that collects them writes the rows for this reader to files. None of
these rows goes through Spark, and the stage still runs once.
"""

from collections.abc import Iterator
from dataclasses import replace

from sparkbeam.plan.model import Exchange, Plan, Port, Stage


def with_spilled_ports(plan: Plan) -> Plan:
    """Return the plan with the ports whose rows are kept in files.

    Args:
        plan: in batch, of a session whose workers share a file system with the driver.
    """
    # Whether reports of a stage are collected depends on later stages, so these come first.
    for stage in reversed(plan.stages):
        found = {port.tag for port in stage.ports if _may_be_kept(plan, stage, port)}
        if not found:
            continue
        kept = replace(plan, kept=plan.kept | found)
        if kept.reads(stage) == 1 and all(
            _waits_for(kept, reader, stage) for tag in found for reader in _readers(plan, tag)
        ):
            plan = kept
    return plan


def _may_be_kept(plan: Plan, stage: Stage, port: Port) -> bool:
    """Return whether all readers of a port read only this port, in the order of its writing."""
    if any(port.tag in sink.inputs for sink in plan.sinks):
        return False
    readers = _readers(plan, port.tag)
    return bool(readers) and all(
        reader.inputs == (port.tag,)
        and reader.exchange is Exchange.FORWARD
        and all(port.tag not in side_input.sources for side_input in reader.side_inputs)
        and stage is not reader
        for reader in readers
    )


def _readers(plan: Plan, tag: int) -> list[Stage]:
    return [
        stage
        for stage in plan.stages
        if tag in stage.inputs or any(tag in side.sources for side in stage.side_inputs)
    ]


def _waits_for(plan: Plan, reader: Stage, stage: Stage) -> bool:
    """Return whether the reports of a stage are collected before a reader is composed."""
    seen: set[str] = set()
    waiting = [*_side_input_producers(plan, reader)]
    while waiting:
        found = waiting.pop()
        if found.id in seen:
            continue
        seen.add(found.id)
        waiting += _side_input_producers(plan, found)
        # The reports of what is persisted come at the end of the run.
        if plan.reads(found) == 1:
            if found is stage:
                return True
            waiting += _runs_with(plan, found)
    return False


def _side_input_producers(plan: Plan, stage: Stage) -> Iterator[Stage]:
    """Yield the stages whose rows are collected for the side inputs of a stage."""
    for side_input in stage.side_inputs:
        yield from map(plan.producer, side_input.sources)


def _runs_with(plan: Plan, stage: Stage) -> Iterator[Stage]:
    """Yield the stages whose reports come with the rows of one that reads them."""
    if stage.join is None:
        for tag in stage.inputs:
            if tag not in plan.kept and plan.source(tag) is None:
                yield plan.producer(tag)
