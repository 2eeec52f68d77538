"""Text form of a streaming query: its layers, from the sources to the sink."""

from sparkbeam.plan.layers import topology
from sparkbeam.plan.model import Plan


def layers(plan: Plan) -> str:
    """Describe the chain of Structured Streaming operators, a line each."""
    found = topology(plan)
    sources = ["ticks", *(f"'{source.label}'" for source in plan.sources)]
    lines = [f"sources: {', '.join(sources)}"]
    for number, stages in enumerate(found.layers):
        how = "transformWithState by shard" if number else "mapInArrow"
        names = ", ".join(stage.id for stage in stages) or "none"
        lines.append(f"layer {number} ({how}): stages {names}")
    sinks = ", ".join(f"'{sink.label}'" for sink in plan.sinks)
    lines.append(f"sinks: {sinks or 'none'}")
    return "\n".join(["One Structured Streaming query, a chain of layers:", *lines])
