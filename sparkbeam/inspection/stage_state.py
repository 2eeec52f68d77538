"""The state of the steps of a pipeline, read from its checkpoint."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

from sparkbeam.common.arguments import listed, shown
from sparkbeam.common.untrusted_json import loaded
from sparkbeam.errors import CheckpointFailed, ConfigurationError, SparkBeamError
from sparkbeam.inspection.key_records import Kept, kept
from sparkbeam.inspection.stage_coders import StepCoders, Undecoded, as_json, as_text, time_text
from sparkbeam.inspection.state_reader import ROOT, Entries, Store
from sparkbeam.plan.addresses import addresses
from sparkbeam.plan.fingerprint import Parts, differences, fingerprint, unreadable_format
from sparkbeam.plan.layers import topology
from sparkbeam.plan.model import Plan, Stage
from sparkbeam.streaming.checkpoint_files import absolute, damaged
from sparkbeam.streaming.execution import check_pipeline, known_pipeline
from sparkbeam.wire import plaindata
from sparkbeam.worker.state.pages import ShardState
from sparkbeam.worker.state.store import MemoryMap

_SAMPLE = 1000


@dataclass(frozen=True)
class Step:
    """A step that keeps state.

    Attributes:
        address: under which its state is stored.
        label: of its transform.
        parts: its description in the checkpoint; see :func:`.fingerprint`.
        stage: the same in the program; None where none is given.
    """

    address: str
    label: str
    parts: Parts
    stage: Stage | None = None

    @property
    def state_name(self) -> str:
        """The name under which the states and timers of its DoFn are stored."""
        return self.parts["state name"]

    def is_called(self, name: str) -> bool:
        """Return whether it has a name, such as a user may give."""
        reads = self.parts["reads"]
        return name in (self.label, self.address) or f"{reads}/".startswith(f"{name}/")


@dataclass(frozen=True)
class Found:
    """The state of one key of a step, or its state that belongs to no key.

    Attributes:
        step: the label of the step that keeps it.
        key: decoded; None for what belongs to no key.
        kept: windows, states, timers and the like.
        has_key: it belongs to a key, which may be None.
    """

    step: str
    key: Any
    kept: tuple[Kept, ...]
    has_key: bool = True

    def content(self) -> Iterator[dict[str, Any]]:
        """Each thing as what JSON can say."""
        head = {"step": shown(self.step)[1:-1]}
        if self.has_key:
            head["key"] = as_json(self.key)
        return ({**head, **each.content()} for each in self.kept)

    def lines(self) -> Iterator[str]:
        """The same in words."""
        yield as_text(self.key) if self.has_key else "without a key"
        for each in self.kept:
            yield f"  {each}"


@dataclass(frozen=True)
class KeptState:
    """The state of the steps of a checkpoint.

    Attributes:
        location: the checkpoint location.
        steps: those that keep any.
        store: where it is.
        trusted: nobody else can have put something there.
    """

    location: str
    steps: tuple[Step, ...]
    store: Store = field(repr=False)
    trusted: bool

    def of(self, name: str, key: str | None = None) -> Iterator[Found]:
        """Yield the state of a step.

        Args:
            name: its label, or the full name of its transform.
            key: as text, as it is shown; None for all.

        Raises:
            ConfigurationError: there is no such step, or it keeps nothing of the key.
            CheckpointFailed: the state cannot be read.
        """
        steps = [step for step in self.steps if step.is_called(name)]
        if not steps:
            raise ConfigurationError(
                f"--step={shown(name)} is no step that keeps state in {self.location}. "
                f"Those that do: {listed(step.label for step in self.steps) or 'none'}."
            )
        found = (found for step in steps for found in self._of_step(step))
        return found if key is None else self._of_key(found, name, key)

    def _of_key(self, found: Iterator[Found], name: str, key: str) -> Iterator[Found]:
        others: list[str] = []
        is_there = False
        for each in found:
            if each.has_key and _is_called(each.key, key):
                is_there = True
                yield each
            elif each.has_key and len(others) < _SAMPLE:
                others.append(as_text(each.key))
        if not is_there:
            raise ConfigurationError(
                f"--key={shown(key)} is no key of which step {shown(name)} keeps anything. "
                f"Keys that it has: {listed(others) or 'none'}."
            )

    def _of_step(self, step: Step) -> Iterator[Found]:
        try:
            yield from self._read(step)
        except SparkBeamError:
            raise
        except Exception as error:  # Somebody may have written anything.
            raise CheckpointFailed(
                f"The state of step {shown(step.label)} in {self.location} is damaged: "
                f"{type(error).__name__}."
            ) from error

    def _read(self, step: Step) -> Iterator[Found]:
        known = StepCoders.of(step.parts, step.stage, trusted=self.trusted)
        operators: dict[int, bytes] = {}
        for operator, _, root in self.store.roots():
            values, roots = plaindata.loads(root)
            loose = tuple(_loose(step, values, roots))
            if loose:
                yield Found(step.label, None, loose, has_key=False)
            if step.address in roots:
                operators[operator] = roots[step.address][0].to_bytes(2, "big")
        for operator, prefix in operators.items():
            of_roots = dict(self.store.entries(operator, ROOT))
            for shard, entries in self.store.entries(operator, prefix):
                yield from _keys({**of_roots[shard], **entries}, step, known)


def kept_state(location: str, store: Store, plan: Plan | None = None) -> KeptState:
    """Look at the state under a checkpoint.

    Args:
        location: the checkpoint location, which this process has to see.
        store: reads the state there.
        plan: of the program that has written it; it knows all coders.

    Raises:
        ConfigurationError: there is no checkpoint of a pipeline, or it is not that of the program.
        CheckpointFailed: a file of it is damaged.
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
            Step(at, str(parts["label"]), parts, stages.get(at))
            for at, parts in stored["stages"].items()
            if _keeps_state(parts)
        )
    except SparkBeamError:
        raise
    except (ValueError, TypeError, AttributeError, LookupError):
        raise damaged(known.path("pipeline.json")) from None
    return KeptState(checkpoint, steps, store, known.mistrusted() is None)


def _stages(stored: dict[str, Any], plan: Plan, checkpoint: str) -> dict[str, Stage]:
    """The stages of a program by their addresses in a checkpoint."""
    if not plan.streaming:
        raise ConfigurationError(
            "--program: its pipeline runs in batch. Give it the arguments with which it streams."
        )
    now = fingerprint(topology(plan), stored["shards"])
    found = differences(stored, now)
    if found:
        raise ConfigurationError(
            f"--program is not the one whose state is under {checkpoint}: {'; '.join(found[:3])}."
        )
    return {stage.address: stage for stage in addresses(stored, now).applied(plan).stages}


def _keeps_state(parts: Parts) -> bool:
    kinds = ("key coder", "restrictions", "side input ")
    return any(part.startswith(kinds) for part in parts)


def _loose(step: Step, values: Mapping[str, Any], roots: Mapping[str, Any]) -> Iterator[Kept]:
    """State of a step in a shard that belongs to no key."""
    for at, hold, _ in values.get(f"{step.address}/deferred") or ():
        yield Kept("restriction", facts={"due": time_text(at), "watermark": time_text(hold)})
    waiting = values.get(f"{step.address}/waiting") or ()
    if waiting:
        first = time_text(min(stamp for stamp, _, _ in waiting))
        facts = {"what_for": "side inputs", "bytes": sum(len(run) for *_, run in waiting)}
        yield Kept("waiting", count=len(waiting), facts={"first": first, **facts})
    _, rows = values.get(f"{step.address}/read") or (None, ())
    if rows:
        yield Kept("read", count=sum(len(some) for _, some in rows))
    _, side = roots.get(f"{step.address}/side", (None, None))
    if side is not None:
        _, records, size, _ = side[0]
        if records:
            yield Kept("side inputs", count=records, facts={"bytes": size + side[2]})


def _keys(entries: Entries, step: Step, known: StepCoders) -> Iterator[Found]:
    """The state of a step for the keys of a shard."""
    copied = MemoryMap()
    copied.entries.update(entries)
    shard = ShardState(copied)
    keyed = shard.stage(step.address)
    # Numbers in columns are shown as they are: to make accumulators of them takes the CombineFn.
    keyed.accumulators = _as_they_are
    try:
        for encoded in list(keyed.keys()):
            found = sorted(
                kept(keyed.record(encoded), known, step.state_name), key=attrgetter("window")
            )
            yield Found(step.label, known.key.decoded(encoded, nested=True), tuple(found))
    finally:
        shard.close()


def _is_called(key: Any, text: str) -> bool:
    """Return whether a key is the one of a text: itself, its ``repr``, or its bytes in hex."""
    if isinstance(key, Undecoded):
        return text in (key.data.hex(), repr(key.data))
    return text in (str(key), repr(key))


def _as_they_are(numbers: Any) -> list[Any]:
    found: list[Any] = numbers.tolist()
    return found
