"""Plans in words."""

from typing import Any

import apache_beam as beam
import pytest
from apache_beam.transforms import trigger, window
from plans import FORMATS, Stateful, fan_out, keyed, stage, translated

from sparkbeam.explain import describe
from sparkbeam.plan.grouping import GroupStrategy
from sparkbeam.plan.model import Exchange, Plan
from sparkbeam.plan.row_formats import RowFormat


def facts(text: str, id: str) -> list[str]:
    """The lines of a stage, without the space around them."""
    (block,) = [b for b in text.split("\n\n") if b.startswith(f"{id} ")]
    return [line.strip() for line in block.splitlines()]


def described(build: Any) -> str:
    _, plan = translated(build)
    return describe.stages(plan)


class TestStages:
    def test_a_stage_is_named_by_its_id_and_the_users_labels(self) -> None:
        text = described(lambda p: keyed(p) | "Double" >> beam.Map(lambda x: x))
        assert "s0  Numbers, Double" in text

    def test_a_label_with_slashes_is_kept_whole(self) -> None:
        text = described(lambda p: p | "Read a/b" >> beam.Create([1]) | "x/y" >> beam.Map(str))
        assert "s0  Read a/b, x/y" in text

    def test_a_create_needs_no_shuffle_to_spread_its_values(self) -> None:
        text = described(lambda p: p | beam.Create([1, 2, 3]) | beam.Map(str))
        assert text.startswith("1 stage, 0 shuffles")

    def test_a_grouping_is_a_shuffle_by_key_from_the_stage_that_wrote_the_values(self) -> None:
        text = described(
            lambda p: keyed(p) | "Group" >> beam.GroupByKey() | "Sum" >> beam.Map(print)
        )
        assert text.startswith("2 stages, 1 shuffle, none persisted")
        assert facts(text, "s0")[1:] == [
            "in    an impulse",
            "step  Numbers: elements, because it makes them",
            "out   to s1",
        ]
        assert facts(text, "s1")[1:] == [
            "in    from s0, shuffle by key, sorted",
            "group by key and window, in one pass over the rows, because GlobalWindows fire once",
            "step  Sum: elements, because the GroupByKey before it makes them",
        ]

    @pytest.mark.parametrize(
        ("build", "words"),
        [
            (
                lambda p: keyed(p) | beam.WindowInto(window.Sessions(10)) | beam.GroupByKey(),
                "sorted by session start",
            ),
            (
                lambda p: (
                    keyed(p)
                    | beam.WindowInto(
                        window.FixedWindows(10),
                        trigger=trigger.Repeatedly(trigger.AfterCount(1)),
                        accumulation_mode=trigger.AccumulationMode.DISCARDING,
                    )
                    | beam.GroupByKey()
                ),
                "by Beam's trigger driver",
            ),
            (lambda p: keyed(p) | beam.ParDo(Stateful()), "state and timers of one key at a time"),
            (lambda p: keyed(p) | beam.Reshuffle(), "rebalance: spread evenly"),
        ],
        ids=["sessions", "triggers", "state", "reshuffle"],
    )
    def test_words_tell_how_rows_arrive(self, build: Any, words: str) -> None:
        assert words in described(lambda p: build(p) | "Read it" >> beam.Map(print))

    def test_words_tell_what_combines_sessions_and_why(self) -> None:
        text = described(
            lambda p: (
                keyed(p)
                | beam.WindowInto(window.Sessions(10))
                | "Sum" >> beam.CombinePerKey(sum)
                | "Show" >> beam.Map(print)
            )
        )
        assert (
            "group by key and session, many at once, because Sessions fire once; "
            "before the shuffle by the columnar aggregator of sessions, because sum has a "
            "vectorized form"
        ) in " ".join(facts(text, "s1"))

    def test_in_streaming_words_tell_what_a_grouping_keeps_and_why(self) -> None:
        early = beam.WindowInto(
            window.FixedWindows(10),
            trigger=trigger.AfterWatermark(early=trigger.AfterCount(3)),
            accumulation_mode=trigger.AccumulationMode.DISCARDING,
        )
        _, plan = translated(
            lambda p: keyed(p) | early | "Sum" >> beam.CombinePerKey(sum), streaming=True
        )
        assert (
            "group by Beam's trigger driver, over accumulators in state, because the trigger is "
            "AfterWatermark(early=AfterCount(3))"
        ) in " ".join(facts(describe.stages(plan), "s1"))

    def test_a_side_input_names_where_it_comes_from_and_who_asks(self) -> None:
        def build(p: beam.Pipeline) -> None:
            side = p | "Rates" >> beam.Create([("x", 1)], reshuffle=False)
            keyed(p) | "Convert" >> beam.Map(lambda x, rates: x, beam.pvalue.AsDict(side))

        _, plan = translated(build)
        text = describe.stages(plan)
        writer, reader = plan.stages
        assert f"out   side input of {reader.id}" in facts(text, writer.id)
        (line,) = [line for line in facts(text, reader.id) if line.startswith("side")]
        assert line == f"side  from {writer.id} for 'Convert', read whole, window by window"

    def test_an_output_may_be_read_in_both_ways(self) -> None:
        plan = Plan((stage(0), stage(1, inputs=(0,)), stage(2, inputs=(1,), side=(0,), ports=0)))
        assert "out   to s1; side input of s2" in facts(describe.stages(plan), "s0")

    def test_a_stage_that_is_read_more_than_once_is_persisted(self) -> None:
        text = describe.stages(fan_out(5))
        assert "kept  persisted, since it is read 6 times" in facts(text, "s0")
        assert "persisted" not in "".join(facts(text, "s2"))

    def test_outputs_are_told_apart_by_their_tags(self) -> None:
        def build(p: beam.Pipeline) -> None:
            few, many = keyed(p) | "Split" >> beam.Partition(lambda x, n: 0, 2)  # type: ignore[arg-type]
            few | beam.GroupByKey() | "Few" >> beam.Map(print)
            many | "GroupMany" >> beam.GroupByKey() | "Many" >> beam.Map(print)

        lines = [line.removeprefix("out").strip() for line in facts(described(build), "s0")]
        assert {line.split(" to ")[0] for line in lines if " to " in line} == {
            "Split [0]",
            "Split [1]",
        }

    def test_a_flatten_lists_all_that_flows_together(self) -> None:
        plan = Plan((stage(0), stage(1), stage(2), stage(3, inputs=(0, 1, 2))))
        assert facts(describe.stages(plan), "s3")[1] == (
            "in    from s0, s1 and s2, flattened, no shuffle: in the same Spark task"
        )

    def test_a_collection_flattened_with_itself_is_read_twice(self) -> None:
        plan = Plan((stage(0), stage(1, inputs=(0, 0))))
        assert "from s0 (2 times), flattened" in describe.stages(plan)

    def test_long_lists_of_labels_wrap_in_line_with_the_first(self) -> None:
        plan = Plan((stage(0, *(f"A step of the pipeline with number {n}" for n in range(20))),))
        _, *more, _ = facts(describe.stages(plan), "s0")
        assert len(more) > 3
        assert all(len(line) <= describe.WIDTH for line in describe.stages(plan).splitlines())

    def test_labels_cannot_break_lines_or_steer_the_terminal(self) -> None:
        text = describe.stages(Plan((stage(0, "red\x1b[31m\nnext"),)))
        assert "\x1b" not in text
        assert "red\ufffd[31m\ufffdnext" in text

    def test_an_empty_plan_has_a_summary_only(self) -> None:
        assert describe.stages(Plan(())) == "0 stages, 0 shuffles, none persisted"

    @pytest.mark.parametrize("strategy", list(GroupStrategy))
    def test_every_strategy_has_words(self, strategy: GroupStrategy) -> None:
        plan = Plan((stage(0, strategy=strategy),))
        assert "because it is so" in describe.stages(plan)

    @pytest.mark.parametrize("rows", FORMATS, ids=repr)
    def test_every_format_has_words(self, rows: RowFormat) -> None:
        plan = Plan((stage(0), stage(1, exchange=Exchange.BY_KEY, format=rows, inputs=(0,))))
        assert describe.stages(plan)


class Counting(beam.PTransform):
    """A composite of the user."""

    def expand(self, words: Any) -> Any:
        return words | "Pair" >> beam.Map(lambda w: (w, 1)) | "Sum" >> beam.CombinePerKey(sum)


class Nested(beam.PTransform):
    """A composite that holds itself some times."""

    def __init__(self, depth: int) -> None:
        super().__init__(label=f"Depth {depth}")
        self._depth = depth

    def expand(self, pcoll: Any) -> Any:
        inner = Nested(self._depth - 1) if self._depth else beam.Map(lambda x: x)
        return pcoll | inner | "And more" >> beam.Map(lambda x: x)


@beam.ptransform_fn
def Cleaning(pcoll: Any) -> Any:
    return pcoll | "Strip" >> beam.Map(str) | "Drop" >> beam.Filter(bool)


class TestOutline:
    def outlined(self, build: Any) -> list[str]:
        return describe.outline(*translated(build)).splitlines()

    def test_a_composite_of_the_user_is_listed_with_its_parts(self) -> None:
        lines = self.outlined(lambda p: p | "Words" >> beam.Create(["a"]) | "Count" >> Counting())
        assert [line.split("  ")[0] for line in lines if not line.startswith(" ")] == [
            "Words",
            "Count",
        ]
        assert [line.split()[0] for line in lines if line.startswith("  ")] == ["Pair", "Sum"]

    def test_the_parts_of_beams_own_composites_are_hidden(self) -> None:
        lines = self.outlined(lambda p: p | "Words" >> beam.Create(["a"]) | beam.Values())
        assert [line.split()[0] for line in lines] == ["Words", "Values"]

    def test_a_composite_made_of_a_function_is_the_users(self) -> None:
        lines = self.outlined(lambda p: p | "Words" >> beam.Create(["a"]) | "Clean" >> Cleaning())
        assert [line.split()[0] for line in lines] == ["Words", "Clean", "Strip", "Drop"]

    def test_a_transform_names_the_stages_that_run_it(self) -> None:
        lines = self.outlined(
            lambda p: p | "Words" >> beam.Create(["a"], reshuffle=False) | "Count" >> Counting()
        )
        assert lines[2].split() == ["Pair", "ParDo", "s0"]
        assert lines[3].split() == ["Sum", "CombinePerKey", "s0,", "s1"]

    def test_what_spark_executes_belongs_to_the_stage_that_receives_it(self) -> None:
        lines = self.outlined(
            lambda p: keyed(p) | "Group" >> beam.GroupByKey() | "Print" >> beam.Map(print)
        )
        assert lines[1].split() == ["Group", "GroupByKey", "s1"]

    def test_deep_nesting_ends_with_the_number_of_parts(self) -> None:
        lines = self.outlined(lambda p: p | beam.Create(["a"]) | Nested(5))
        (deepest,) = [line for line in lines if line.startswith("    Depth")]
        assert "Depth 3 (2 parts)" in deepest
        assert not any(line.startswith("      ") for line in lines)

    def test_columns_are_aligned(self) -> None:
        lines = self.outlined(
            lambda p: p | "Words" >> beam.Create(["a"]) | "A much longer label" >> beam.Map(print)
        )
        assert lines[0].index("Create") == lines[1].index("ParDo")
