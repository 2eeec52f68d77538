"""Addresses: the ids of stages and the tags of ports under which a checkpoint holds state.

A translation numbers stages and ports, so one more step shifts the numbers of others. A checkpoint
therefore keeps its original numbers, and a later plan takes them over. A stage takes the number of
the stored stage with the same shuffle, state or side inputs. A port takes the number of the stored
port with the same reader, and if there are several, or if the checkpoint names none, with the same
writer. New stages and ports get numbers that the checkpoint has never used.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from sparkbeam.plan.model import Plan, Stage

Parts = Mapping[str, str]
"""Dependencies of a stage's state: descriptions by kind."""

_NOT_STATE = frozenset(["label", "reads", "place", "state name", "steps"])


def keeps_state(parts: Parts) -> bool:
    """Return whether a stage has more to keep than watermarks, or starts only once."""
    return not parts.keys() <= _NOT_STATE or "impulse" in parts["place"]


def is_first(parts: Parts) -> bool:
    """Return whether a stage is in the first layer, and so comes before all shuffles."""
    return parts["place"].startswith("layer 0,")


def matching_stages(old: Mapping[str, Parts], new: Mapping[str, Parts]) -> dict[str, str]:
    """Pair the stages of a plan with those of a checkpoint.

    Two stages are the same if they are fed by the same shuffle or begin with the same step, in the
    same place if they keep nothing; or else if they stand in the same place with the same label,
    or, before all shuffles, have steps in common.

    Args:
        old: the stages of the checkpoint, by their address.
        new: those of the plan, by their id.

    Returns:
        The address of each stage that has one, by its id.
    """
    found: dict[str, str] = {}
    for is_same in (_reads_the_same_there, _reads_the_same, _has_the_label_there, _has_steps_of):
        for id, parts in new.items():
            if id not in found:
                free = (at for at in old if at not in found.values())
                match = next((at for at in free if is_same(old[at], parts)), None)
                if match is not None:
                    found[id] = match
    return found


def _reads_the_same_there(old: Parts, new: Parts) -> bool:
    return old["reads"] == new["reads"] and old["place"] == new["place"]


def _reads_the_same(old: Parts, new: Parts) -> bool:
    return old["reads"] == new["reads"] and keeps_state(old) and keeps_state(new)


def _has_the_label_there(old: Parts, new: Parts) -> bool:
    return old["label"] == new["label"] and old["place"] == new["place"]


def _has_steps_of(old: Parts, new: Parts) -> bool:
    ours, others = (set(parts.get("steps", "").splitlines()) for parts in (new, old))
    return old["place"] == new["place"] and not ours.isdisjoint(others)


def matching_tags(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[int, int]:
    """Pair the ports of a plan with those of a checkpoint.

    Args:
        old: the contents of the checkpoint; see :func:`.fingerprint`.

    Returns:
        The stored tag of each port that has one, by its tag in the plan.
    """
    found = dict(_sources(old["sources"], new["sources"]))
    stages = matching_stages(old["stages"], new["stages"])
    for same_writer in (True, False):
        for tag, port in new["ports"].items():
            if int(tag) in found:
                continue
            readers, taken = renamed(port["to"], stages), {*found.values()}
            match = next(
                (
                    int(at)
                    for at, other in old["ports"].items()
                    if int(at) not in taken
                    and not {*other["to"]}.isdisjoint(readers)
                    and (other["from"] == port["from"] or not same_writer)
                ),
                None,
            )
            if match is not None:
                found[int(tag)] = match
    return found


def renamed(readers: Iterable[str], addresses: Mapping[str, str]) -> list[str]:
    """Return the readers of a port by the addresses of their stages, of those that have one."""
    parts = (reader.partition(" ") for reader in readers)
    known = ((addresses.get(id, id if id == "sink" else None), which) for id, _, which in parts)
    return [f"{at} {which}".rstrip() for at, which in known if at is not None]


def _sources(old: list[Parts], new: list[Parts]) -> Iterator[tuple[int, int]]:
    stored = {source["label"]: source for source in old}
    for source in new:
        before = stored.get(source["label"])
        if before is None:
            continue
        tags, stored_tags = _tags(source), _tags(before)
        names = source["outputs"].split(", ")
        stored_names = before["outputs"].split(", ")
        known = dict(zip(stored_names, stored_tags, strict=False))
        yield from (
            (tag, known[name]) for name, tag in zip(names, tags, strict=True) if name in known
        )


def _tags(source: Parts) -> list[int]:
    return [int(tag) for tag in source["port"].split(", ")]


def is_output(part: str) -> bool:
    """Return whether a part of a stage is a port that rows wait for."""
    return re.fullmatch(r"output \d+", part) is not None


@dataclass(frozen=True)
class Addresses:
    """The addresses of a plan in a checkpoint.

    Attributes:
        state_names: the names of states and timers of those that have any, by the same.
        next_stage: the first number that no stage of the checkpoint has had.
        next_tag: the first one that no port has had.
    """

    stages: Mapping[str, str]
    state_names: Mapping[str, str]
    tags: Mapping[int, int]
    next_stage: int
    next_tag: int

    def applied(self, plan: Plan) -> Plan:
        """Return the plan with these addresses."""
        return replace(
            plan,
            stages=tuple(map(self._stage, plan.stages)),
            sources=tuple(
                replace(s, outputs=tuple((name, self.tags[tag]) for name, tag in s.outputs))
                for s in plan.sources
            ),
            sinks=tuple(replace(sink, inputs=self._all(sink.inputs)) for sink in plan.sinks),
        )

    def _stage(self, stage: Stage) -> Stage:
        return replace(
            stage,
            address=self.stages.get(stage.id, stage.address),
            state_name=self.state_names.get(stage.id, stage.state_name),
            inputs=self._all(stage.inputs),
            ports=tuple(replace(port, tag=self.tags[port.tag]) for port in stage.ports),
            side_inputs=tuple(
                replace(side, sources=self._all(side.sources)) for side in stage.side_inputs
            ),
        )

    def _all(self, tags: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(self.tags[tag] for tag in tags)


def addresses(old: Mapping[str, Any] | None, new: Mapping[str, Any]) -> Addresses:
    """Find the addresses of a plan in a checkpoint.

    Args:
        old: the contents of the checkpoint; None for one that has yet to be written.
        new: the same of the plan; see :func:`.fingerprint`.
    """
    ids, tags = list(new["stages"]), _all_tags(new)
    if old is None:
        names = dict[str, str]()
        stages, stored_tags = dict(zip(ids, ids, strict=True)), dict(zip(tags, tags, strict=True))
        next_stage = next_tag = 0
    else:
        stages = matching_stages(old["stages"], new["stages"])
        stored = {id: old["stages"][at] for id, at in stages.items()}
        names = {id: parts["state name"] for id, parts in stored.items()}
        stored_tags = matching_tags(old, new)
        next_stage, next_tag = old["next"]
    for id in ids:
        if id not in stages:
            stages[id] = f"s{next_stage}"
            next_stage += 1
    for tag in tags:
        if tag not in stored_tags:
            stored_tags[tag] = next_tag
            next_tag += 1
    return Addresses(
        stages,
        names,
        stored_tags,
        max(next_stage, _after(int(id.removeprefix("s")) for id in stages.values())),
        max(next_tag, _after(stored_tags.values())),
    )


def _all_tags(fingerprint: Mapping[str, Any]) -> list[int]:
    return [
        *(int(tag) for tag in fingerprint["ports"]),
        *(tag for source in fingerprint["sources"] for tag in _tags(source)),
        *(
            tag
            for parts in fingerprint["stages"].values()
            for tag in sorted(int(name.split()[1]) for name in parts if is_output(name))
        ),
    ]


def _after(numbers: Iterable[int]) -> int:
    return 1 + max(numbers, default=-1)
