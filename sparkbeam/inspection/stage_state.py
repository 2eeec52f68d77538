"""State of the steps of a pipeline, read from its checkpoint."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from operator import attrgetter
from typing import Any

from sparkbeam.common.arguments import listed, shown
from sparkbeam.common.untrusted_json import loaded
from sparkbeam.errors import CheckpointFailed, ConfigurationError, SparkBeamError
from sparkbeam.inspection.key_records import StateItem, record_items, session_item
from sparkbeam.inspection.stage_coders import StepCoders, Undecoded, as_json, as_text, time_text
from sparkbeam.inspection.state_reader import ROOT, Entries, SparkStore
from sparkbeam.plan.addresses import addresses
from sparkbeam.plan.fingerprint import Parts, differences, fingerprint, unreadable_format
from sparkbeam.plan.layers import topology
from sparkbeam.plan.model import Plan, Stage
from sparkbeam.streaming.checkpoint_files import absolute, damaged
from sparkbeam.streaming.execution import check_pipeline, known_pipeline
from sparkbeam.wire import plaindata
from sparkbeam.worker.grouping.session_state import StoredSession
from sparkbeam.worker.grouping.session_store import sessions_of
from sparkbeam.worker.grouping.stripe_store import windows_to_records
from sparkbeam.worker.state.page import Page
from sparkbeam.worker.state.pages import ShardState
from sparkbeam.worker.state.store import MemoryMap
from sparkbeam.worker.state.stripes import Numbers, SessionStripe, Stripe

_SAMPLE = 1000
_STATEFUL = ("key coder", "restrictions", "side input ")


@dataclass(frozen=True)
class StatefulStep:
    """A step with state.

    Attributes:
        parts: its description in the checkpoint; see :func:`.fingerprint`.
    """

    address: str
    label: str
    parts: Parts
    stage: Stage | None = None

    def is_called(self, name: str) -> bool:
        """Return whether it has a name, such as a user may give."""
        reads = self.parts["reads"]
        return name in (self.label, self.address) or f"{reads}/".startswith(f"{name}/")


@dataclass(frozen=True)
class KeyState:
    """State of one key of a step, or its state without a key.

    Attributes:
        key: decoded; None without a key.
        has_key: it belongs to a key, which may be None.
    """

    step: str
    key: Any
    kept: tuple[StateItem, ...]
    has_key: bool = True

    def content(self) -> Iterator[dict[str, Any]]:
        """Yield each item as JSON values."""
        head = {"step": shown(self.step)[1:-1]}
        if self.has_key:
            head["key"] = as_json(self.key)
        return ({**head, **each.content()} for each in self.kept)

    def lines(self) -> Iterator[str]:
        """Yield the state as lines of text."""
        yield as_text(self.key) if self.has_key else "without a key"
        for each in self.kept:
            yield f"  {each}"


@dataclass(frozen=True)
class StoredState:
    """State of the steps of a checkpoint.

    Attributes:
        trusted: no other user can have written to the checkpoint.
    """

    location: str
    steps: tuple[StatefulStep, ...]
    store: SparkStore = field(repr=False)
    trusted: bool

    def states(self, name: str, key: str | None = None) -> Iterator[KeyState]:
        """Yield the state of a step.

        Args:
            name: its label, or the full name of its transform.
            key: as text, in the form in which it is shown; None for all.

        Raises:
            ConfigurationError: there is no such step, or it has no state of the key.
            CheckpointFailed: the state cannot be read.
        """
        steps = [step for step in self.steps if step.is_called(name)]
        if not steps:
            raise ConfigurationError(
                f"--step={shown(name)} is not a step with state in {self.location}. "
                f"Steps with state: {listed(step.label for step in self.steps) or 'none'}."
            )
        found = (found for step in steps for found in self._of_step(step))
        return found if key is None else self._of_key(found, name, key)

    def _of_key(self, found: Iterator[KeyState], name: str, key: str) -> Iterator[KeyState]:
        others: list[str] = []
        is_there = False
        for each in found:
            # A text denotes a key: itself, its repr, or its bytes in hex.
            names = (str(each.key), repr(each.key))
            if isinstance(each.key, Undecoded):
                names = (each.key.data.hex(), repr(each.key.data))
            if each.has_key and key in names:
                is_there = True
                yield each
            elif each.has_key and len(others) < _SAMPLE:
                others.append(as_text(each.key))
        if not is_there:
            raise ConfigurationError(
                f"--key={shown(key)} is not a key with state in step {shown(name)}. "
                f"Its keys: {listed(others) or 'none'}."
            )

    def _of_step(self, step: StatefulStep) -> Iterator[KeyState]:
        try:
            yield from self._read(step)
        except SparkBeamError:
            raise
        except Exception as error:  # The content is untrusted.
            raise CheckpointFailed(
                f"The state of step {shown(step.label)} in {self.location} is damaged: "
                f"{type(error).__name__}."
            ) from error

    def _read(self, step: StatefulStep) -> Iterator[KeyState]:
        known = StepCoders.from_description(step.parts, step.stage, trusted=self.trusted)
        operators: dict[int, bytes] = {}
        for operator, _, root in self.store.roots():
            values, roots = plaindata.loads(root)
            loose = tuple(_loose(step, values, roots))
            if loose:
                yield KeyState(step.label, None, loose, has_key=False)
            if step.address in roots:
                operators[operator] = roots[step.address][0].to_bytes(2, "big")
        for operator, prefix in operators.items():
            of_roots = dict(self.store.entries(operator, ROOT))
            for shard, entries in self.store.entries(operator, prefix):
                yield from _keys({**of_roots[shard], **entries}, step, known)


def read_state(location: str, store: SparkStore, plan: Plan | None = None) -> StoredState:
    """Return the state under a checkpoint.

    Args:
        location: the checkpoint location, visible to this process.
        plan: of the program that has written it, with all coders.

    Raises:
        ConfigurationError: there is no checkpoint of a pipeline, or the program is another one.
        CheckpointFailed: one of its files is damaged.
    """
    checkpoint = absolute(location)
    known, content = known_pipeline(checkpoint)
    check_pipeline(known, content)
    stored = loaded(content)
    try:
        problem = unreadable_format(stored)
        if problem is not None:
            raise ConfigurationError(f"The state under {checkpoint} cannot be read: {problem}.")
        stages = {} if plan is None else _stages(stored, plan, checkpoint)
        steps = tuple(
            StatefulStep(at, str(parts["label"]), parts, stages.get(at))
            for at, parts in stored["stages"].items()
            if any(part.startswith(_STATEFUL) for part in parts)
        )
    except SparkBeamError:
        raise
    except (ValueError, TypeError, AttributeError, LookupError):
        raise damaged(known.path("pipeline.json")) from None
    return StoredState(checkpoint, steps, store, known.untrusted_reason() is None)


def _stages(stored: dict[str, Any], plan: Plan, checkpoint: str) -> dict[str, Stage]:
    """Return the stages of a program by their addresses in a checkpoint."""
    if not plan.streaming:
        raise ConfigurationError(
            "--program: its pipeline runs in batch. Give it the arguments that make it stream."
        )
    now = fingerprint(topology(plan), stored["shards"])
    found = differences(stored, now)
    if found:
        raise ConfigurationError(
            f"--program did not write the state under {checkpoint}: {'; '.join(found[:3])}."
        )
    return {stage.address: stage for stage in addresses(stored, now).applied(plan).stages}


def _loose(
    step: StatefulStep, values: Mapping[str, Any], roots: Mapping[str, Any]
) -> Iterator[StateItem]:
    """Yield a step's state in a shard that belongs to no key."""
    for at, hold, _ in values.get(f"{step.address}/deferred") or ():
        yield StateItem("restriction", facts={"due": time_text(at), "watermark": time_text(hold)})
    waiting = values.get(f"{step.address}/waiting") or ()
    if waiting:
        first = time_text(min(stamp for stamp, _, _ in waiting))
        facts = {"what_for": "side inputs", "bytes": sum(len(run) for *_, run in waiting)}
        yield StateItem("waiting", count=len(waiting), facts={"first": first, **facts})
    _, rows = values.get(f"{step.address}/read") or (None, ())
    if rows:
        yield StateItem("read", count=sum(len(some) for _, some in rows))
    _, side = roots.get(f"{step.address}/side", (None, None))
    if side is not None:
        _, records, size, _ = side[0]
        if records:
            yield StateItem("side inputs", count=records, facts={"bytes": size + side[2]})


def _keys(entries: Entries, step: StatefulStep, known: StepCoders) -> Iterator[KeyState]:
    """Yield the state of a step for the keys of a shard."""
    copied = MemoryMap()
    copied.entries.update(entries)
    shard = ShardState(copied)
    keyed = shard.stage(step.address)
    sessions: dict[bytes, list[StoredSession]] = {}

    def thaw(page: Page, stripe: Stripe, found: list[tuple[bytes, list[int]]]) -> None:
        # Columnar numbers are shown directly: accumulators would need the CombineFn.
        if not isinstance(stripe, SessionStripe):
            windows_to_records(_listed_numbers, page, stripe, found)
            return
        for key, rows in found:
            sessions[key] = list(sessions_of(stripe, _listed_numbers, rows))

    keyed.thaw = thaw
    try:
        for encoded in list(keyed.keys()):
            items = record_items(keyed.record(encoded), known, step.parts["state name"])
            in_columns = (
                session_item(each, (each.accumulator,), 1) for each in sessions.pop(encoded, ())
            )
            found = sorted(chain(items, in_columns), key=attrgetter("window"))
            yield KeyState(step.label, known.key.decoded(encoded, nested=True), tuple(found))
    finally:
        shard.close()


def _listed_numbers(numbers: Numbers) -> list[Any]:
    return numbers.tolist()
