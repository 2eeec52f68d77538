"""Text form of a plan, for reading in a terminal.

:func:`stages` describes how the stages run and how rows travel between them, :func:`layers` the
chain that they form in a stream; :func:`outline` lists the user's transforms with the stages that
run them.
"""

import textwrap
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby

from apache_beam.portability.api import beam_runner_api_pb2

from sparkbeam.observe.figures.formats import counted
from sparkbeam.observe.figures.summary import StageSummary, column_text
from sparkbeam.plan.grouping import Grouping
from sparkbeam.plan.join_payload import AUTO, JOIN_URN, LEFT, NEVER, RIGHT
from sparkbeam.plan.layers import topology
from sparkbeam.plan.model import Exchange, Plan, Port, SideInput, Source, Stage
from sparkbeam.plan.parsed_stage import parsed
from sparkbeam.plan.row_formats import KeyedRows

WIDTH = 100
"""Column at which lines are wrapped, if the words allow it."""

OUTLINE_DEPTH = 3
"""Nesting depth beyond which composites are listed without their parts."""

_TRAVEL = {
    Exchange.IMPULSE: "an impulse",
    Exchange.FORWARD: "no shuffle: in the same Spark task",
    Exchange.REBALANCE: "rebalance: spread evenly over all partitions",
    Exchange.BY_KEY: "shuffle by key",
    Exchange.SORT: "no shuffle: by key in the same Spark task",
    Exchange.JOIN: "joined by Spark",
}

_JOINS = {
    "inner": "all pairs",
    "left": "all pairs, and unmatched elements of the left side",
    "right": "all pairs, and unmatched elements of the right side",
    "outer": "all pairs, and unmatched elements of both sides",
    "semi": "matched elements of the left side",
    "anti": "unmatched elements of the left side",
}

_BROADCASTS = {
    AUTO: "a side that turns out to be small is broadcast, and keys with many elements are divided",
    NEVER: "neither side is broadcast, and keys with many elements are divided",
    LEFT: "the left side is broadcast",
    RIGHT: "the right side is broadcast",
}


@dataclass(frozen=True)
class Edge:
    """Rows of a port that a stage reads.

    Attributes:
        side_inputs: the side inputs of the reader that they feed; none for its main input.
    """

    producer: Stage
    port: Port
    reader: Stage
    side_inputs: tuple[SideInput, ...] = ()


def edges(plan: Plan) -> list[Edge]:
    """Return the edges between stages, one per port and reader, in the order of the readers."""
    writer = {port.tag: (stage, port) for stage in plan.stages for port in stage.ports}
    found = []
    for reader in plan.stages:
        tags = [tag for tag in dict.fromkeys(reader.inputs) if tag in writer]
        found += [Edge(*writer[tag], reader) for tag in tags]
        asked: dict[int, list[SideInput]] = defaultdict(list)
        for side_input in reader.side_inputs:
            for tag in side_input.sources:
                asked[tag].append(side_input)
        found += [Edge(*writer[tag], reader, tuple(fed)) for tag, fed in asked.items()]
    return found


def stages(
    plan: Plan,
    files: Collection[str] = (),
    summary: Iterable[StageSummary] | None = None,
    shuffles: Mapping[str, str] | None = None,
    hot: Mapping[str, str] | None = None,
) -> str:
    """Describe the stages in topological order.

    Args:
        files: the labels of Spark sources whose files the workers read directly.
        summary: the figures of a run by stage; None before one.
        shuffles: descriptions of the shuffles before stages, by stage id; None before a run.
        hot: descriptions of skewed partitions, by stage id; None before a run.
    """
    done = () if summary is None else zip(plan.stages, summary, strict=True)
    refused = {
        stage.id: {step.label: step.refused for step in found.steps if step.refused}
        for stage, found in done
    }
    reads, written = defaultdict(list), defaultdict(list)
    for edge in edges(plan):
        reads[edge.reader.id].append(edge)
        written[edge.producer.id].append(edge)
    indent = max((len(stage.id) for stage in plan.stages), default=0) + 2
    roots = {tag: source for source in plan.sources for _, tag in source.outputs}
    blocks = [_summary(plan)]
    for stage in plan.stages:
        found = [_root(roots[tag], files) for tag in dict.fromkeys(stage.inputs) if tag in roots]
        head = wrapped(stage.id.ljust(indent), ", ".join(map(printable, stage.labels)))
        facts = [
            ("in", _arrival(stage, reads[stage.id], found)),
            *([("parts", shuffles[stage.id])] if shuffles and stage.id in shuffles else []),
            *([("hot", hot[stage.id])] if hot and stage.id in hot else []),
            *([("group", grouping(stage.grouping))] if stage.grouping is not None else []),
            *(
                ("step", f"{printable(one.reading)}: {len(one.names)} of {one.count} columns")
                for one in stage.needed_columns
            ),
            *(("step", line) for line in _steps(stage, refused.get(stage.id, {}))),
            *(("side", line) for line in _side_inputs(reads[stage.id])),
            *(("out", line) for line in _outputs(plan, stage, written[stage.id])),
        ]
        times = plan.persisted_reads(stage)
        if times:
            facts.append(("kept", f"persisted, since it is read {times} times"))
        kept = [e.reader.id for e in written[stage.id] if e.port.tag in plan.kept]
        if kept:
            facts.append(("kept", f"in files by the workers, until {_listed(kept)} may start"))
        blocks.append("\n".join([head, *_table(facts, " " * indent)]))
    return "\n\n".join(blocks)


def _summary(plan: Plan) -> str:
    shuffles = sum(s.exchange in (Exchange.BY_KEY, Exchange.REBALANCE) for s in plan.stages)
    joins = sum(s.join is not None for s in plan.stages)
    persisted = sum(plan.persisted_reads(s) > 0 for s in plan.stages)
    return ", ".join(
        [
            counted(len(plan.stages), "stage"),
            counted(shuffles, "shuffle"),
            *([counted(joins, "join")] if joins else []),
            f"{persisted or 'none'} persisted",
        ]
    )


def _root(source: Source, files: Collection[str]) -> str:
    """Return the quoted label of a root that a stage reads, with what is read of it."""
    label = f"'{printable(source.label)}'"
    if source.read is None:
        return label
    spec = source.read.of_files() if source.label in files else source.read
    facts = [] if spec.needed is None else [f"{len(spec.needed)} of {len(spec.columns)} columns"]
    facts += ["its files read by the workers"] if source.label in files else []
    return f"{label} ({', '.join(facts)})" if facts else label


def _arrival(stage: Stage, read: list[Edge], roots: list[str]) -> str:
    """Describe how and from where the rows of the main input reach ``stage``."""
    travel = _TRAVEL[stage.exchange]
    if stage.join is not None:
        travel += f": {_JOINS[stage.join.spec.how]}; {_BROADCASTS[stage.join.spec.broadcast]}"
    if stage.exchange in (Exchange.BY_KEY, Exchange.SORT):
        travel += stage.format.arrival
        if stage.grouping is None and isinstance(stage.format, KeyedRows):
            travel += ": state and timers of one key at a time"
    sources = [edge for edge in read if not edge.side_inputs]
    if not sources and not roots:
        return travel
    times = Counter(stage.inputs)
    each = [
        edge.producer.id + (f" ({times[edge.port.tag]} times)" if times[edge.port.tag] > 1 else "")
        for edge in sources
    ]
    names = list(dict.fromkeys(each)) + roots
    flattened = " flattened," if len(stage.inputs) > 1 and stage.join is None else ""
    return f"from {_listed(names)},{flattened} {travel}"


def grouping(how: Grouping) -> str:
    """Describe how the groups of a GroupByKey are made, with the reason."""
    kept = "accumulators" if how.combines else "values"
    where = f", over {kept} in state" if how.format.stored else ""
    words = f"{how.strategy.value}{how.format.reading}{where}, because {printable(how.reason)}"
    if how.aggregator is None:
        return words
    return (
        f"{words}; before the shuffle by the {how.aggregator.value} aggregator of sessions, "
        f"because {printable(how.aggregator_reason)}"
    )


def _steps(stage: Stage, refused: Mapping[str, Mapping[str, int]]) -> Iterator[str]:
    """Describe how steps handle columns, and the blocks that they have refused.

    There is a line per step, or one for parts of a transform with the same description.
    """
    how = {step.label: step.words for step in stage.column_steps}
    said = [
        (label, column_text(how.get(label, ""), refused.get(label, {})))
        for label in dict.fromkeys([*how, *refused])
    ]
    for (whole, words), some in groupby(said, lambda one: (stage.applied(one[0]), one[1])):
        labels = [label for label, _ in some]
        yield printable(f"{labels[0] if len(labels) == 1 else whole}: {words}")


def _side_inputs(read: list[Edge]) -> Iterator[str]:
    """Yield a line per side input of a stage."""
    sources: dict[SideInput, list[str]] = defaultdict(list)
    for edge in read:
        for side_input in edge.side_inputs:
            sources[side_input].append(edge.producer.id)
    for side_input, ids in sources.items():
        label = printable(side_input.label)
        yield f"from {_listed(ids)} for '{label}', {side_input.format.arrival}"


def _outputs(plan: Plan, stage: Stage, written: list[Edge]) -> Iterator[str]:
    """Yield a line per port of a stage, with its name if there are several."""
    names = _port_names(stage) if len(stage.ports) > 1 else {}
    for port in stage.ports:
        readers = [edge for edge in written if edge.port is port]
        main = [edge.reader.id for edge in readers if not edge.side_inputs]
        side = [edge.reader.id for edge in readers if edge.side_inputs]
        to = ([f"to {_listed(main)}"] if main else []) + (
            [f"side input of {_listed(side)}"] if side else []
        )
        to += [f"to '{printable(s.label)}'" for s in plan.sinks if port.tag in s.inputs]
        name = f"{printable(names[port.tag])} " if names else ""
        yield name + "; ".join(to or ["to nowhere"])


def _port_names(stage: Stage) -> dict[int, str]:
    """Return user-facing names of a stage's outputs: the transform, with the tag of tagged ones."""
    writers = {
        pcollection: (transform.unique_name, f" [{tag}]" if len(transform.outputs) > 1 else "")
        for id, transform in parsed(stage).transforms.items()
        if id != stage.source_id
        for tag, pcollection in transform.outputs.items()
    }
    full = {port.tag: writers.get(port.pcollection, (stage.labels[-1], "")) for port in stage.ports}
    short = {tag: name.split("/", 1)[0] + output for tag, (name, output) in full.items()}
    unique = Counter(short.values())
    return {
        tag: short[tag] if unique[short[tag]] == 1 else name + output
        for tag, (name, output) in full.items()
    }


def layers(plan: Plan) -> str:
    """Describe the chain of a stream's layers, from the sources to the sinks, a line each."""
    sources = ["ticks", *(f"'{source.label}'" for source in plan.sources)]
    lines = [
        "One Structured Streaming query, a chain of layers:",
        f"sources: {', '.join(sources)}",
    ]
    for number, found in enumerate(topology(plan).layers):
        how = "transformWithState by shard" if number else "mapInArrow"
        names = ", ".join(stage.id for stage in found) or "none"
        lines.append(f"layer {number} ({how}): stages {names}")
    sinks = ", ".join(f"'{sink.label}'" for sink in plan.sinks)
    return "\n".join([*lines, f"sinks: {sinks or 'none'}"])


# The user's transforms.


def outline(pipeline: beam_runner_api_pb2.Pipeline, plan: Plan) -> str:
    """Describe the user's transforms as an indented tree, with the stages that run them.

    Composites of the user are listed with their parts; those of Beam are one line, as the user did
    not write their parts.

    Args:
        pipeline: the proto from which ``plan`` was made.
    """
    lines = list(_Outline(pipeline.components, plan).lines(pipeline.root_transform_ids))
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)


class _Outline:
    def __init__(self, components: beam_runner_api_pb2.Components, plan: Plan) -> None:
        self._components = components
        self._is_streaming = plan.streaming
        self._order = [stage.id for stage in plan.stages]
        self._runs: dict[str, set[str]] = defaultdict(set)
        self._receives: dict[str, set[str]] = defaultdict(set)
        for stage in plan.stages:
            described = parsed(stage)
            self._receives[described.main_input].add(stage.id)
            for part in described.transforms:
                # A part that Beam's optimizer made belongs to the transform it is named after.
                names = part.split("/")
                for end in range(1, len(names) + 1):
                    self._runs["/".join(names[:end])].add(stage.id)

    def lines(
        self, ids: Iterable[str], parent: str = "", depth: int = 0
    ) -> Iterator[tuple[str, str, str]]:
        """Yield the label, the class and the stages of each transform."""
        for id in ids:
            transform = self._components.transforms[id]
            name = transform.unique_name
            if name in ("", id):
                # The root, which has no name of its own.
                yield from self.lines(transform.subtransforms)
                continue
            label = name.removeprefix(f"{parent}/") if parent else name
            kind = _kind(transform)
            kind = "" if label.startswith(kind) else kind
            shown = f"{'  ' * depth}{printable(label)}"
            if not self._is_users_composite(transform):
                yield shown, kind, self._stages(transform)
            elif depth + 1 < OUTLINE_DEPTH:
                yield shown, kind, ""
                yield from self.lines(transform.subtransforms, name, depth + 1)
            else:
                parts = f"({counted(len(transform.subtransforms), 'part')})"
                yield f"{shown} {parts}", kind, self._stages(transform)

    def _is_users_composite(self, transform: beam_runner_api_pb2.PTransform) -> bool:
        if transform.spec.urn == JOIN_URN and not self._is_streaming:
            return False  # Spark does what its parts would.
        parts = [self._components.transforms[id] for id in transform.subtransforms]
        written_in = transform.annotations.get("python_type", b"").decode()
        if written_in == _FUNCTION_COMPOSITE:
            # Beam's own are functions around one transform of the same name.
            label = transform.unique_name.rpartition("/")[2]
            return [p.unique_name for p in parts] != [f"{transform.unique_name}/{label}"]
        beams = written_in.startswith("apache_beam.") and not written_in.startswith(_EXAMPLES)
        return bool(parts) and not beams

    def _stages(self, transform: beam_runner_api_pb2.PTransform) -> str:
        found = set(self._runs[transform.unique_name])
        pending = [transform]
        while pending:
            part = pending.pop()
            # Transforms executed by Spark show only in a stage's input.
            for pcollection in part.outputs.values():
                found |= self._receives[pcollection]
            pending.extend(self._components.transforms[id] for id in part.subtransforms)
        return ", ".join(sorted(found, key=self._order.index))


_FUNCTION_COMPOSITE = "apache_beam.transforms.ptransform._PTransformFnPTransform"
_EXAMPLES = "apache_beam.examples."


def _kind(transform: beam_runner_api_pb2.PTransform) -> str:
    """Return the class of a transform without its module; empty if unknown."""
    written_in = transform.annotations.get("python_type", b"").decode()
    if written_in == _FUNCTION_COMPOSITE:
        return ""
    names = written_in.rpartition("<locals>.")[2].split(".")
    first = next((i for i, name in enumerate(names) if not name.islower()), -1)
    return ".".join(names[first:]).lstrip("_")


# Words.


def _table(facts: list[tuple[str, str]], indent: str) -> Iterator[str]:
    """Yield lines ``name  fact``, without repeating a name."""
    last = None
    for name, fact in facts:
        yield wrapped(f"{indent}{'' if name == last else name:6}", fact)
        last = name


def wrapped(head: str, text: str) -> str:
    """Wrap a line that begins with ``head``, with continuation lines below its text."""
    return textwrap.fill(
        text,
        WIDTH,
        initial_indent=head,
        subsequent_indent=" " * len(head),
        break_long_words=False,
        break_on_hyphens=False,
    )


def _listed(names: list[str]) -> str:
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last


def printable(label: str) -> str:
    """Return a label without characters that would break a line or control a terminal."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in label)
