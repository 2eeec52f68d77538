"""Plans to describe and to draw: some made of Beam pipelines, some by hand."""

from collections.abc import Callable
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability.api import beam_fn_api_pb2, beam_runner_api_pb2
from apache_beam.transforms import environments
from apache_beam.transforms.userstate import ReadModifyWriteStateSpec

from sparkbeam import SparkRunner
from sparkbeam.operators.registry import operators_of
from sparkbeam.options.spark_options import SparkBeamOptions
from sparkbeam.plan.grouping import Grouping, GroupStrategy
from sparkbeam.plan.model import Exchange, Plan, Port, SideInput, Stage
from sparkbeam.plan.row_formats import (
    AggregateRows,
    ElementRows,
    GroupRows,
    JoinRows,
    KeyedRows,
    RowFormat,
    SideInputRows,
)
from sparkbeam.plan.translate import translate


def translated(
    build: Callable[[beam.Pipeline], Any], *, streaming: bool = False, local: bool = False
) -> tuple[beam_runner_api_pb2.Pipeline, Plan]:
    """What becomes of the pipeline that ``build`` makes."""
    pipeline = beam.Pipeline(options=PipelineOptions([]))
    build(pipeline)
    proto = pipeline.to_runner_api(
        default_environment=environments.EmbeddedPythonEnvironment.default()
    )
    return proto, translate(proto, operators_of, streaming=streaming, local=local)


def planned(build: Callable[[beam.Pipeline], Any], *options: str) -> Plan:
    """What the runner makes of the pipeline that ``build`` makes."""
    runner = SparkRunner()
    pipeline = beam.Pipeline(runner, argv=["--runner=sparkbeam.SparkRunner", *options])
    build(pipeline)
    return runner._plan(pipeline, pipeline.options.view_as(SparkBeamOptions))


def keyed(pipeline: beam.Pipeline) -> Any:
    """A pair of a key and a number."""
    return pipeline | "Numbers" >> beam.Create([("a", 1)], reshuffle=False)


class Stateful(beam.DoFn):
    """Keeps a number for each key."""

    def process(
        self,
        element: Any,
        seen: Any = beam.DoFn.StateParam(
            ReadModifyWriteStateSpec("seen", beam.coders.VarIntCoder())
        ),
    ) -> Any:
        seen.write(1)
        yield element


FORMATS: list[RowFormat] = [
    ElementRows(),
    GroupRows(),
    GroupRows(packed=True),
    AggregateRows(),
    AggregateRows(sessions=True),
    AggregateRows(sessions=True, packed=False),
    KeyedRows(),
    KeyedRows(by_time=True),
    KeyedRows(stored=True),
    SideInputRows(),
    SideInputRows(multimap=True),
    JoinRows(),
    JoinRows(keys_only=True),
]
"""All formats of rows, with all parameters that occur."""


def stage(
    number: int,
    *labels: str,
    exchange: Exchange = Exchange.FORWARD,
    format: RowFormat = ElementRows(),
    strategy: GroupStrategy | None = None,
    inputs: tuple[int, ...] = (),
    side: tuple[int, ...] = (),
    ports: int = 1,
) -> Stage:
    """A stage whose first port has the stage's number as its tag; the others add hundreds."""
    return Stage(
        id=f"s{number}",
        labels=labels or (f"Step {number}",),
        descriptor=beam_fn_api_pb2.ProcessBundleDescriptor(
            transforms={
                f"source_{number}": beam_runner_api_pb2.PTransform(outputs={"out": f"in_{number}"})
            }
        ).SerializeToString(),
        source_id=f"source_{number}",
        exchange=exchange if inputs else Exchange.IMPULSE,
        format=format,
        inputs=inputs,
        grouped=None,
        ports=tuple(
            Port(number + 100 * i, f"pcollection_{number}_{i}", ElementRows(), f"sink_{number}_{i}")
            for i in range(ports)
        ),
        side_inputs=tuple(
            SideInput("Ask", f"side_{tag}", "Ask", SideInputRows(), (tag,)) for tag in side
        ),
        grouping=Grouping(strategy, format, "it is so", combines=False) if strategy else None,
    )


def chain(length: int) -> Plan:
    """Stages that each group what the one before wrote."""
    return Plan(
        tuple(
            stage(
                n,
                f"Group {n}",
                f"Summarise the values of step {n}",
                exchange=Exchange.BY_KEY,
                format=GroupRows(),
                inputs=(n - 1,) if n else (),
            )
            for n in range(length)
        )
    )


def fan_out(width: int) -> Plan:
    """One stage that many read, which all flow together again, some of them with side inputs."""
    middle = [
        stage(n, exchange=Exchange.BY_KEY, inputs=(0,), side=(1,) if n % 3 == 0 else ())
        for n in range(2, width + 2)
    ]
    last = stage(width + 2, exchange=Exchange.REBALANCE, inputs=tuple(range(2, width + 2)), ports=0)
    return Plan((stage(0), stage(1, inputs=(0,)), *middle, last))


def tangle(length: int) -> Plan:
    """Stages that read their predecessors at several distances."""
    exchanges = (Exchange.FORWARD, Exchange.BY_KEY, Exchange.REBALANCE)
    return Plan(
        tuple(
            stage(
                n,
                exchange=exchanges[n % 3],
                inputs=tuple({n - distance for distance in (1, 3, n % 7 + 1) if distance <= n}),
                side=(n // 2,) if n > 1 and n % 4 == 0 else (),
            )
            for n in range(length)
        )
    )
