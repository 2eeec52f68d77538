"""Placement of the stages of a streaming plan in a linear chain of layers.

A Structured Streaming query has one sink and no shared sub-plans, so a graph of
stages cannot become a graph of operators. It becomes a chain: the layer of a stage
is the number of shuffles before it, and one operator hosts all stages of a layer.
Rows for a later layer pass through those between.
"""

from dataclasses import dataclass
from enum import Enum

from apache_beam.runners.portability.fn_api_runner import translations

from sparkbeam.plan.model import Exchange, Plan, Stage
from sparkbeam.plan.pardo_functions import par_do_payload
from sparkbeam.plan.parsed_stage import parsed


class Route(Enum):
    """Route of the rows of a port to one of its readers."""

    LOCAL = "local"
    """The reader is in the same layer, and runs in the same shard."""

    FORWARD = "forward"
    """The reader is in a later layer; any shard will do."""

    SPREAD = "spread"
    """Evenly over all shards."""

    BY_KEY = "by_key"
    """Route to the shard of the key."""

    BROADCAST = "broadcast"
    """Route to all shards: the reader takes it as a side input."""


@dataclass(frozen=True)
class Hop:
    """One way out of a port: ``way`` to the layer ``layer``."""

    way: Route
    layer: int


@dataclass(frozen=True)
class Topology:
    """A plan in layers.

    Attributes:
        layers: the stages of each layer, in an order in which they can run.
    """

    plan: Plan
    layers: tuple[tuple[Stage, ...], ...]

    @property
    def depth(self) -> int:
        """The number of layers; also the number of the layer that the sink counts as."""
        return len(self.layers)

    def layer(self, stage: Stage) -> int:
        """Return the layer of a stage."""
        return next(number for number, stages in enumerate(self.layers) if stage in stages)

    def hops(self, stage: Stage) -> dict[int, tuple[Hop, ...]]:
        """Return the ways out of each port of a stage, by its tag."""
        own = self.layer(stage)
        return {port.tag: self._hops(port.tag, own) for port in stage.ports}

    def source_hops(self, tag: int) -> tuple[Hop, ...]:
        """Return the ways of the rows of a source, which counts as a part of layer 0."""
        return self._hops(tag, 0)

    def _hops(self, tag: int, own: int) -> tuple[Hop, ...]:
        found = {}
        for reader in self.plan.stages:
            layer = self.layer(reader)
            if tag in reader.inputs:
                found[Hop(_way(reader.exchange, layer == own), layer)] = True
            if any(tag in side_input.sources for side_input in reader.side_inputs):
                found[Hop(Route.BROADCAST, layer)] = True
        if any(tag in sink.inputs for sink in self.plan.sinks):
            found[Hop(Route.FORWARD, self.depth)] = True
        # All readers in a layer get what comes there: it must come once.
        spread = {hop.layer for hop in found if hop.way is Route.SPREAD}
        return tuple(
            hop for hop in found if hop.way is not Route.FORWARD or hop.layer not in spread
        )

    def roots(self, tag: int) -> frozenset[int]:
        """Return the tags of the sources from which the rows of a port of layer 0 come."""
        if self.plan.source(tag) is not None:
            return frozenset([tag])
        inputs = self.plan.producer(tag).inputs
        return frozenset(root for source in inputs for root in self.roots(source))


def _way(exchange: Exchange, same_layer: bool) -> Route:
    match exchange:
        case Exchange.BY_KEY:
            return Route.BY_KEY
        case Exchange.REBALANCE:
            return Route.SPREAD
        case _:
            return Route.LOCAL if same_layer else Route.FORWARD


def topology(plan: Plan) -> Topology:
    """Assign the stages of a plan to layers."""
    of_tag = {tag: 0 for source in plan.sources for _, tag in source.outputs}
    layers: list[list[Stage]] = [[]]
    for stage in plan.stages:
        shuffled = stage.exchange in (Exchange.BY_KEY, Exchange.REBALANCE)
        before = [of_tag[tag] + shuffled for tag in stage.inputs]
        before += [of_tag[tag] + 1 for side in stage.side_inputs for tag in side.sources]
        number = max(before, default=0)
        layers += [[] for _ in range(len(layers), number + 1)]
        layers[number].append(stage)
        for port in stage.ports:
            of_tag[port.tag] = number
    return Topology(plan, tuple(map(tuple, layers)))


def start_steps(topology: Topology) -> bool:
    """Return whether steps of layer 0 run when Spark's sources have no rows.

    They do if elements come with the tick, those of an Impulse or a TestStream, and if a bundle
    finalizer may wait for it.
    """
    return any(source.read is None for source in topology.plan.sources) or any(
        stage.exchange is Exchange.IMPULSE or _finalizes(stage) for stage in topology.layers[0]
    )


def _finalizes(stage: Stage) -> bool:
    return any(
        transform.spec.urn in translations.PAR_DO_URNS
        and par_do_payload(transform.spec.payload).requests_finalization
        for transform in parsed(stage).transforms.values()
    )
