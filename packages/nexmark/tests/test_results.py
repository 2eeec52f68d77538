"""How results are compared."""

import json

import pytest

from beam_nexmark.check import stored
from beam_nexmark.configuration import Configuration
from beam_nexmark.events import Bid
from beam_nexmark.queries import QUERIES
from beam_nexmark.reference import reference_results
from beam_nexmark.result_digest import SummarizeFn, canonical, difference, summary

RESULTS = [(1, "a"), (2, "b"), (2, "b"), (3, "c")]


def test_a_digest_does_not_depend_on_order():
    assert summary(RESULTS) == summary(reversed(RESULTS))


def test_a_digest_does_not_depend_on_bundles():
    combine = SummarizeFn()
    parts = [
        combine.add_input(combine.create_accumulator(), result) for result in reversed(RESULTS)
    ]
    whole = combine.merge_accumulators([*parts, combine.create_accumulator()])

    assert combine.extract_output(whole) == summary(RESULTS)


@pytest.mark.parametrize(
    "others",
    [RESULTS[1:], [*RESULTS, (3, "c")], [(1, "a"), (2, "b"), (3, "c"), (3, "c")], []],
    ids=["one less", "one twice", "another one twice", "none"],
)
def test_a_summary_differs_if_results_do(others):
    assert summary(others) != summary(RESULTS)


@pytest.mark.parametrize(
    "result",
    [1, 1.5, True, None, "plain", 'é"\n', (1, ("a", [2.0])), {"a": [1]}, [], float("inf")],
    ids=repr,
)
def test_the_text_of_a_result_is_json(result):
    assert canonical(result) == json.dumps(result, separators=(",", ":"))


def test_a_typed_result_is_its_fields():
    assert canonical(Bid(1, 2, 3, 4, "x")) == canonical((1, 2, 3, 4, "x")) == '[1,2,3,4,"x"]'


def test_a_difference_names_the_first_results_of_either_side():
    found = difference(RESULTS, [(2, "b"), (9, "z"), (3, "c"), (3, "c")], limit=2)

    assert found.missing == ['[1,"a"]', '[2,"b"]']
    assert found.unexpected == ['[3,"c"]', '[9,"z"]']
    assert not difference(RESULTS, reversed(RESULTS))


@pytest.mark.parametrize("events", [1_000, 10_000])
def test_stored_answers_are_those_of_the_reference(events):
    configuration = Configuration(events=events)

    for query in QUERIES.values():
        answer = summary(reference_results(query, configuration), query.weigh)
        assert stored(query, configuration) == answer


def test_answers_are_stored_for_common_sizes_and_for_nothing_else():
    for query in QUERIES.values():
        for events in (1_000, 10_000, 100_000, 1_000_000):
            assert stored(query, Configuration(events=events))
        assert stored(query, Configuration(events=1_001)) is None
        assert stored(query, Configuration(events=1_000, generators=2)) is None


def test_where_the_log_goes_makes_no_difference_to_answers():
    configuration = Configuration(events=1_000, log_folder="somewhere")

    assert stored(QUERIES[10], configuration)
