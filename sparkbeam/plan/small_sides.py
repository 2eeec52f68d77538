"""Sides of joins that may turn out to be small, and are measured before the others run.

If the size of a side is known, it need not be shuffled to find it, and neither need the other side.
The cost: the side is kept, read again, and runs alone. So its input must probably be far smaller
than the input of the other side.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from sparkbeam.plan.input_sizes import ReadBytes
from sparkbeam.plan.join_payload import AUTO, LEFT, RIGHT, may_be_broadcast, needs_partners
from sparkbeam.plan.model import Plan, Source, Stage

_TIMES_AS_MUCH = 4
"""Factor by which the other side must have more to read."""

_LEAST = 16 << 20
"""Size in bytes below which data is shuffled before the other side has been measured."""

_MOST = 1 << 30
"""A side for which more bytes than these are read is not kept for a look."""

_UNKNOWN = 256 << 20
"""Size in bytes that is assumed for the other side if nothing is known of it."""


@dataclass(frozen=True)
class SmallSide:
    """A side of a join at which it is worth looking first.

    Attributes:
        reader: the id of the stage that reads the join.
        label: the label of the join, for people.
        tags: the tags of the ports that feed it.
        others: of those that feed the other side.
        is_for_tasks: if it is small, all of it goes to all tasks of the other side.
        is_for_writers: what writes the other side may leave out what has no partner on this one.
    """

    reader: str
    label: str
    side: str
    tags: tuple[int, ...]
    others: tuple[int, ...]
    is_for_tasks: bool
    is_for_writers: bool


def small_sides(plan: Plan, of_source: Callable[[Source], float | None]) -> list[SmallSide]:
    """Return at most one side of each join that may be executed in any way.

    Args:
        of_source: the bytes of a root that is not a stage; None if they are not known.
    """
    sizes = ReadBytes(plan, of_source)
    found = []
    for stage in plan.stages:
        if stage.join is None or stage.join.spec.broadcast != AUTO:
            continue
        side = _smaller(plan, stage, sizes)
        if side is not None:
            found.append(side)
    return found


def _smaller(plan: Plan, stage: Stage, sizes: ReadBytes) -> SmallSide | None:
    assert stage.join is not None
    how, left, right = stage.join.spec.how, stage.join.left, stage.join.right
    for side, tags, other, others in ((LEFT, left, RIGHT, right), (RIGHT, right, LEFT, left)):
        for_tasks, for_writers = may_be_broadcast(how, side), needs_partners(how, other)
        size = sizes.of(tags) if for_tasks or for_writers else None
        if size is None or size > _MOST:
            continue
        large = sizes.of(others)
        if max(_TIMES_AS_MUCH * size, _LEAST) > (_UNKNOWN if large is None else large):
            continue
        times = Counter(tag for one in plan.stages for tag in one.inputs)
        for_writers &= all(times[tag] == 1 for tag in others)
        return SmallSide(stage.id, stage.labels[0], side, tags, others, for_tasks, for_writers)
    return None


def small_sides_first(plan: Plan, sides: list[SmallSide]) -> list[Stage]:
    """Return the stages in an order with small sides before the writers of the other sides.

    Where that cannot be, because a small side is made of the other one, it comes later.
    """
    needs = {stage.id: _needed(plan, stage) for stage in plan.stages}
    for side in sides:
        if not side.is_for_writers:
            continue
        small = [plan.producer(tag).id for tag in side.tags]
        before_it = {*_in_order(small, needs)}
        for tag in side.others:
            writer = plan.producer(tag).id
            if writer not in before_it:
                needs[writer] += small
    by_id = {stage.id: stage for stage in plan.stages}
    return [by_id[id] for id in _in_order(list(by_id), needs)]


def _needed(plan: Plan, stage: Stage) -> list[str]:
    """Return the ids of the stages that a stage reads."""
    tags = [*stage.inputs, *(tag for one in stage.side_inputs for tag in one.sources)]
    return [plan.producer(tag).id for tag in tags if plan.source(tag) is None]


def _in_order(wanted: list[str], needs: dict[str, list[str]]) -> list[str]:
    """Return the ids of stages and of all that they need, each after its needs."""
    found: dict[str, None] = {}
    pending = [*reversed(wanted)]
    while pending:
        missing = [id for id in needs[pending[-1]] if id not in found]
        if missing:
            pending += reversed(missing)
        else:
            found[pending.pop()] = None
    return list(found)
