"""What reads a Flatten runs in the stages that make its inputs."""

from collections.abc import Callable
from typing import Any

import apache_beam as beam
from apache_beam.metrics import Metrics, MetricsFilter
from apache_beam.pvalue import AsDict, AsList
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.transforms.userstate import ReadModifyWriteStateSpec
from hypothesis import given, reject
from hypothesis import strategies as st
from in_process_batch import BatchRunner
from noting import noted, values
from plans import translated
from whole import examples

from sparkbeam.plan.model import Plan

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


def plan(build: Build) -> Plan:
    return translated(build)[1]


def same(build: Build) -> None:
    assert noted(build) == noted(build, runner=FnApiRunner())


def test_what_reads_a_flatten_is_part_of_what_makes_its_inputs() -> None:
    def build(p: beam.Pipeline) -> Any:
        return two(p) | beam.Flatten() | "Ten" >> beam.Map(lambda n: n * 10)

    assert [stage.labels for stage in plan(build).stages] == [("One", "Ten"), ("Two", "Ten")]
    same(build)


def test_a_shuffle_reads_all_copies() -> None:
    def build(p: beam.Pipeline) -> Any:
        pairs = two(p) | beam.Flatten() | beam.Map(lambda n: (n % 2, n))
        return pairs | beam.GroupByKey() | "Sort" >> beam.MapTuple(lambda k, v: (k, sorted(v)))

    *makers, reader = plan(build).stages
    assert len(makers) == 2
    assert reader.inputs == tuple(port.tag for maker in makers for port in maker.ports)
    same(build)


def test_inputs_of_one_stage_are_flattened_within_it() -> None:
    def build(p: beam.Pipeline) -> Any:
        return odd_and_even(p) | beam.Flatten() | "Ten" >> beam.Map(lambda n: n * 10)

    assert len(plan(build).stages) == 1
    same(build)


def test_inputs_of_one_stage_and_of_another() -> None:
    def build(p: beam.Pipeline) -> Any:
        return [*odd_and_even(p), *two(p)] | beam.Flatten() | "Ten" >> beam.Map(lambda n: n * 10)

    assert len(plan(build).stages) == 3
    same(build)


def test_groups_are_flattened_where_they_are_made() -> None:
    def build(p: beam.Pipeline) -> Any:
        grouped = [
            each | f"Group {at}" >> beam.GroupBy(lambda n: n % 2) for at, each in enumerate(two(p))
        ]
        flat = grouped | beam.Flatten()
        return flat | "Sort" >> beam.MapTuple(lambda k, v: (k, sorted(v)))

    assert len(plan(build).stages) == 4
    same(build)


def test_a_side_input_of_the_inputs_themselves_leaves_the_flatten() -> None:
    def build(p: beam.Pipeline) -> Any:
        one, other = two(p)
        return (one, other) | beam.Flatten() | "All" >> beam.Map(lambda n, a: (n, a), AsList(one))

    def sorted_sides(p: beam.Pipeline) -> Any:
        return build(p) | "Sides" >> beam.MapTuple(lambda n, side: (n, sorted(side)))

    same(sorted_sides)


def test_a_side_input_of_something_else_is_asked_by_all_copies() -> None:
    def build(p: beam.Pipeline) -> Any:
        names = p | "Names" >> beam.Create([(n, f"number {n}") for n in range(9)])
        flat = two(p) | beam.Flatten()
        return flat | "Name" >> beam.Map(lambda n, names: names[n], AsDict(names))

    assert len(plan(build).stages) == 3
    same(build)


def test_copies_are_a_side_input_together() -> None:
    def build(p: beam.Pipeline) -> Any:
        tens = two(p) | beam.Flatten() | "Ten" >> beam.Map(lambda n: n * 10)
        start = p | "Start" >> beam.Create([0])
        return start | beam.Map(lambda _, tens: sorted(tens), AsList(tens))

    same(build)


def test_an_input_that_comes_twice_is_there_twice() -> None:
    def build(p: beam.Pipeline) -> Any:
        one, other = two(p)
        return (one, other, one) | beam.Flatten() | "Ten" >> beam.Map(lambda n: n * 10)

    same(build)


def test_an_input_of_two_flattens_of_which_one_reads_the_other() -> None:
    def build(p: beam.Pipeline) -> Any:
        one, other = two(p)
        inner = (one, other) | "Inner" >> beam.Flatten()
        return (inner, one) | "Outer" >> beam.Flatten() | "Ten" >> beam.Map(lambda n: n * 10)

    same(build)


def test_a_stateful_step_has_a_stage_of_its_own() -> None:
    class Last(beam.DoFn):
        LAST = ReadModifyWriteStateSpec("last", beam.coders.VarIntCoder())

        def process(self, element: tuple[int, int], last: Any = beam.DoFn.StateParam(LAST)) -> Any:
            sofar = (last.read() or 0) + 1
            last.write(sofar)
            yield element[0], sofar

    def build(p: beam.Pipeline) -> Any:
        pairs = two(p) | beam.Flatten() | beam.Map(lambda n: (n % 2, n))
        return pairs | "Last" >> beam.ParDo(Last())

    assert len(plan(build).stages) == 3
    same(build)


def test_counts_of_all_copies_are_added_up() -> None:
    p = beam.Pipeline(BatchRunner())
    _ = two(p) | beam.Flatten() | "Count" >> beam.Map(counted)
    result = p.run()
    result.wait_until_finish()
    (counter,) = result.metrics().query(MetricsFilter().with_step("Count"))["counters"]
    assert counter.committed == 5


def test_a_flatten_of_very_many_stays_one_stage_behind_them() -> None:
    def build(p: beam.Pipeline) -> Any:
        many = [p | f"Source {at}" >> beam.Create([at]) for at in range(20)]
        return many | beam.Flatten() | "Ten" >> beam.Map(lambda n: n * 10)

    assert len(plan(build).stages) == 21
    same(build)


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
