"""What reads a Flatten runs in the stages that make its inputs."""

from collections.abc import Callable
from typing import Any

import apache_beam as beam
from apache_beam.metrics import Metrics, MetricsFilter
from apache_beam.pvalue import AsDict, AsList
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.transforms.userstate import ReadModifyWriteStateSpec
from golden_files import Golden, sections
from hypothesis import given, reject
from hypothesis import strategies as st
from in_process_batch import BatchRunner
from noting import noted, values
from plans import translated
from whole import examples

Build = Callable[[beam.Pipeline], Any]


def two(p: beam.Pipeline) -> list[Any]:
    return [p | "One" >> beam.Create([1, 2, 3]), p | "Two" >> beam.Create([4, 5])]


def by_parity(n: int, _: int) -> int:
    return n % 2


def odd_and_even(p: beam.Pipeline) -> Any:
    return parities(p | beam.Create(range(9)), "Parity")


def parities(of: Any, label: str) -> Any:
    return of | label >> beam.Partition(by_parity, 2)  # type: ignore[arg-type]


def counted(n: int) -> int:
    Metrics.counter("test", "seen").inc()
    return n * 10


def tens(of: Any) -> Any:
    return of | beam.Flatten() | "Ten" >> beam.Map(lambda n: n * 10)


def groups(p: beam.Pipeline) -> Any:
    grouped = [
        each | f"Group {at}" >> beam.GroupBy(lambda n: n % 2) for at, each in enumerate(two(p))
    ]
    return grouped | beam.Flatten() | "Sort" >> beam.MapTuple(lambda k, v: (k, sorted(v)))


def shuffled(p: beam.Pipeline) -> Any:
    pairs = two(p) | beam.Flatten() | beam.Map(lambda n: (n % 2, n))
    return pairs | beam.GroupByKey() | "Sort" >> beam.MapTuple(lambda k, v: (k, sorted(v)))


def own_side_input(p: beam.Pipeline) -> Any:
    one, other = two(p)
    return (one, other) | beam.Flatten() | "All" >> beam.Map(with_side, AsList(one))


def other_side_input(p: beam.Pipeline) -> Any:
    names = p | "Names" >> beam.Create([(n, f"number {n}") for n in range(9)])
    return two(p) | beam.Flatten() | "Name" >> beam.Map(lambda n, names: names[n], AsDict(names))


def as_side_input(p: beam.Pipeline) -> Any:
    start = p | "Start" >> beam.Create([0])
    return start | "Ask" >> beam.Map(with_side, AsList(tens(two(p))))


class Last(beam.DoFn):
    LAST = ReadModifyWriteStateSpec("last", beam.coders.VarIntCoder())

    def process(self, element: tuple[int, int], last: Any = beam.DoFn.StateParam(LAST)) -> Any:
        sofar = (last.read() or 0) + 1
        last.write(sofar)
        yield element[0], sofar


def stateful(p: beam.Pipeline) -> Any:
    pairs = two(p) | beam.Flatten() | beam.Map(lambda n: (n % 2, n))
    return pairs | "Last" >> beam.ParDo(Last())


BUILDS: dict[str, Build] = {
    "inputs of two stages": lambda p: tens(two(p)),
    "inputs of one stage": lambda p: tens(odd_and_even(p)),
    "inputs of one stage and of others": lambda p: tens([*odd_and_even(p), *two(p)]),
    "a shuffle": shuffled,
    "groups": groups,
    "a side input of an input": own_side_input,
    "a side input of something else": other_side_input,
    "as a side input": as_side_input,
    "a stateful step": stateful,
    "very many": lambda p: tens([p | f"Source {at}" >> beam.Create([at]) for at in range(20)]),
}


def test_what_reads_a_flatten_is_in_the_stages_that_make_its_inputs(golden: Golden) -> None:
    texts = {}
    for name, build in BUILDS.items():
        stages = translated(build)[1].stages
        texts[name] = [
            f"{stage.id} of {list(stage.inputs)}, {stage.exchange.name}: {', '.join(stage.labels)}"
            for stage in stages
        ]
        if len(stages) < 20:  # Beam's own runner takes long for many.
            assert noted(build) == noted(build, runner=FnApiRunner()), name
    golden("flattens.txt", sections(texts))


def test_counts_of_all_copies_are_added_up() -> None:
    p = beam.Pipeline(BatchRunner())
    _ = two(p) | beam.Flatten() | "Count" >> beam.Map(counted)
    result = p.run()
    result.wait_until_finish()
    (counter,) = result.metrics().query(MetricsFilter().with_step("Count"))["counters"]
    assert counter.committed == 5


MAKERS = 3
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["map", "flatten", "partition", "group", "side", "sum"]),
        st.lists(st.integers(0, 30), min_size=2, max_size=4),
    ),
    max_size=6,
)


def graph(steps: list[tuple[str, list[int]]]) -> Build:
    """A pipeline of such steps, each of which reads some of what is there."""

    def build(p: beam.Pipeline) -> Any:
        there = [
            p | f"Source {at}" >> beam.Create([3 * at + n for n in range(3)])
            for at in range(MAKERS)
        ]
        for number, (kind, places) in enumerate(steps):
            label = f"{kind} {number}"
            read = [there[place % len(there)] for place in places]
            match kind:
                case "map":
                    made = [read[0] | label >> beam.Map(lambda n, m=number: (n * 7 + m) % 1009)]
                case "flatten":
                    made = [read | label >> beam.Flatten()]
                case "partition":
                    made = [*parities(read[0], label)]
                case "group":
                    pairs = read[0] | f"Pairs {label}" >> beam.Map(lambda n: (n % 3, n))
                    made = [pairs | label >> beam.GroupByKey() | f"Sums {label}" >> beam.Map(total)]
                case "side":
                    made = [read[0] | label >> beam.Map(with_side, AsList(read[1]))]
                case _:
                    made = [read[0] | label >> beam.CombineGlobally(sum)]
            there += made
        tagged = [
            each | f"Tag {at}" >> beam.Map(lambda n, at=at: (at, n))
            for at, each in enumerate(there)
        ]
        return tagged | "Everything" >> beam.Flatten()

    return build


def total(group: tuple[int, Any]) -> int:
    return group[0] + sum(group[1])


def with_side(n: int, side: list[int]) -> int:
    return n + sum(side)


@examples(8)
@given(STEPS)
def test_any_graph_gives_what_beams_own_runner_gives(steps: list[tuple[str, list[int]]]) -> None:
    found = noted(graph(steps))
    try:
        expected = noted(graph(steps), runner=FnApiRunner())
    except AssertionError:
        # Two of its stages wait for each other's side inputs.
        reject()
    assert found == expected


def test_two_steps_with_the_inputs_of_each_other_as_sides_run_apart() -> None:
    def build(p: beam.Pipeline) -> Any:
        one, other = two(p)
        first = one | "First" >> beam.Map(with_side, AsList(other))
        second = other | "Second" >> beam.Map(with_side, AsList(one))
        return (first, second) | beam.Flatten()

    assert sorted(values(build)) == [10, 10, 11, 11, 12]
