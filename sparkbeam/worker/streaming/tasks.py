"""Tasks of the layers of a streaming query."""

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from sparkbeam.plan.layers import Hop, Topology
from sparkbeam.plan.model import Stage
from sparkbeam.wire.environment import Environment
from sparkbeam.wire.failure import FailureReports
from sparkbeam.wire.output_lines import OutputSpec
from sparkbeam.wire.reports import Reporter
from sparkbeam.worker.streaming.unbounded_reads import READ_ELEMENTS


@dataclass(frozen=True)
class LayerTask:
    """Task of a layer, pickled into the query.

    Attributes:
        run_id: unique for each start of the query.
        depth: the number of layers; rows for the layer of this number go to the sink.
        shards: the numbers of all shards.
        stages: the stages in execution order.
        hops: the ways out of each port of the layer, by its tag.
        source_hops: for the first layer, the ways of each source's rows past it.
        roots: for each port of the first layer, the sources on which its watermark depends.
        max_elements: the approximate number of elements of unbounded sources that a shard reads in
            a micro-batch.
        readers: for each later layer, the tags of this layer whose watermarks it needs.
        output: the destination of printed and logged output of steps.
        checkpoint_id: identifies the checkpoint of the query among all others.
        reporter: the destination of live metrics; None if there is none.
        check: called before state is committed; raises an error if there is a newer driver.
    """

    run_id: str
    number: int
    depth: int
    shards: tuple[int, ...]
    stages: tuple[Stage, ...]
    hops: Mapping[int, tuple[Hop, ...]]
    source_hops: Mapping[int, tuple[Hop, ...]]
    roots: Mapping[int, frozenset[int]]
    readers: Mapping[int, frozenset[int]]
    max_elements: int = READ_ELEMENTS
    output: OutputSpec = field(default_factory=OutputSpec)
    environment: Environment = field(default_factory=Environment)
    checkpoint_id: str = ""
    reports: FailureReports = field(default_factory=FailureReports)
    reporter: Reporter | None = None
    check: Callable[[], None] | None = None

    @property
    def ways_of_ticks(self) -> tuple[tuple[int, int], ...]:
        """The shard and layer of each recipient of the first layer's tick."""
        shards = self.shards if self.depth > 1 else ()
        return ((self.shards[0], self.depth), *((shard, 0) for shard in shards))


def layer_tasks(
    run_id: str,
    topology: Topology,
    shards: tuple[int, ...],
    max_batch_elements: int | None = None,
    *,
    output: OutputSpec | None = None,
    environment: Environment | None = None,
    checkpoint_id: str = "",
    reports: FailureReports | None = None,
    reporter: Reporter | None = None,
    check: Callable[[], None] | None = None,
) -> list[LayerTask]:
    """Return the tasks of all layers."""
    max_elements = READ_ELEMENTS
    if max_batch_elements is not None:
        max_elements = max(1, max_batch_elements // len(shards))
    first = [port.tag for stage in topology.layers[0] for port in stage.ports]
    sources = [tag for source in topology.plan.sources for _, tag in source.outputs]
    roots = {tag: topology.roots(tag) for tag in (*first, *sources)}
    tasks = []
    for number, stages in enumerate(topology.layers):
        hops = {tag: ways for stage in stages for tag, ways in topology.hops(stage).items()}
        readers: dict[int, set[int]] = defaultdict(set)
        for tag, ways in hops.items():
            for hop in ways:
                if hop.layer not in (number, topology.depth):
                    readers[hop.layer].add(tag)
        tasks.append(
            LayerTask(
                run_id=run_id,
                number=number,
                depth=topology.depth,
                shards=shards,
                stages=stages,
                hops=hops,
                source_hops={
                    tag: tuple(hop for hop in topology.source_hops(tag) if hop.layer > 0)
                    for tag in (sources if number == 0 else ())
                },
                roots=roots,
                max_elements=max_elements,
                readers={layer: frozenset(tags) for layer, tags in readers.items()},
                output=output or OutputSpec(),
                environment=environment or Environment(),
                checkpoint_id=checkpoint_id,
                reports=reports or FailureReports(),
                reporter=reporter,
                check=check,
            )
        )
    return tasks
