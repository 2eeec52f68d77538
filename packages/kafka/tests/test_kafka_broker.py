"""Beam's Kafka transforms on Spark's source and sink, against a broker that asks for a login."""

import importlib
import json
import os
import signal
import subprocess
import sys
from typing import Any

import pytest
from whole import is_whole

pytest.importorskip("confluent_kafka")
kafka_program = importlib.import_module("kafka_program")
pytestmark = pytest.mark.timeout(900)

Found = dict[str, Any]
SCENARIOS = ("batch", "killed")
MORE = [name for name in kafka_program.SCENARIOS if is_whole() and name not in SCENARIOS]

long = pytest.mark.long(reason="one scenario takes a minute; others have them without a broker")


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Found:
    """Findings by scenario, and all that the program has said."""
    folder = tmp_path_factory.mktemp("kafka")
    run = subprocess.run(
        [sys.executable, str(kafka_program.__file__), str(folder), *SCENARIOS, *MORE],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        check=False,
    )
    if kafka_program.NO_BROKER in run.stderr:
        pytest.skip(run.stderr[run.stderr.index(kafka_program.NO_BROKER) :])
    assert run.returncode == 0, run.stdout + run.stderr
    findings: Found = {"output": run.stdout + run.stderr}
    for line in run.stdout.splitlines():
        findings |= json.loads(line) if line.startswith("{") else {}
    return findings


def test_records_that_are_written_are_read(found: Found) -> None:
    assert found["batch"]["pairs"] == [
        "['k', 'v']",
        "['r', 'x']",
        "['ä', -5]",
        "[None, 'w']",
        f"[None, {2**62}]",
    ]


def test_rows_have_beams_fields(found: Found) -> None:
    assert found["batch"]["rows"] == [["batch", 1, 0, 0, "CreateTime", [["h", "1"]], "r"]]


def test_rows_of_a_schema_are_written_and_read_beside_what_cannot_be_parsed(found: Found) -> None:
    assert found["batch"]["people"] == ["[1, 'ä']", "[2, 'b']", "str"]


@long
def test_a_group_starts_where_it_has_ended_and_a_checkpoint_goes_on(found: Found) -> None:
    read = [0, 0, 1, 10, 10, 11, 20, 20, 21]
    assert found["groups"] == [[read[: 3 * n], [2 * n, n]] for n in (1, 2, 3)]


@long
def test_the_program_of_the_page_runs(found: Found) -> None:
    ((key, count),) = found["page"]
    assert int(count) >= 1, key


def test_a_password_is_shown_nowhere(found: Found) -> None:
    assert kafka_program.PASSWORD not in found["output"]


@long
def test_bounded_reads_end_and_commit(found: Found) -> None:
    some = {"batch": [14, 6], "stream": [14, 6]}
    assert found["bounded"] == {**some, "aborted": [[150, 120, 60, 1]] * 2}


@long
def test_records_of_transactions_that_are_open_for_seconds_are_all_counted(found: Found) -> None:
    counted, sent = found["opened"]
    assert counted == sent


@long
def test_a_topic_that_is_not_what_it_was_is_an_error_that_names_step_and_partition(
    found: Found,
) -> None:
    told = found["recreated"]
    for name in ("fewer", "more"):
        read, error = told[name]
        assert read == 10
        assert f"Step 'Read it/Records' failed: topic '{name}' was deleted and recreated" in error
        assert "--checkpoint_location" in error
    read, error = told["expired"]
    assert read == [*range(5), 8, 9]
    assert "Step 'Read it/Records' failed: the records of partition 0 of topic 'exp" in error
    assert "from offset 5, where the checkpoint continues, to 7 have expired" in error


@long
def test_a_stream_with_dead_letters_goes_on(found: Found) -> None:
    assert found["poison"] == ["", "", "", "", "7", "8"]


@long
def test_values_are_protocol_buffers_records_of_a_registry_and_json_in_columns(
    found: Found,
) -> None:
    sums = [f"['u{user}', {sum(range(user, 100, 2)) + 25.0}]" for user in range(2)]
    assert found["encoded"] == {
        "values": [*sums, "[7, 'LARGE', 'hat']"],
        "people": ["[1, 'nobody', []]", "[2, 'ada', [0.5]]", "[3, 'eve', [1.5]]"],
        "refused": [],
    }


@long
def test_a_micro_batch_is_written_once_in_a_transaction(found: Found) -> None:
    told = found["transactions"]
    assert told["begun"] == [True, False]
    assert told["fenced"]
    assert sorted(told["values"]) == ["a", "b", "c"]


def test_readers_see_each_record_once_over_drivers_that_are_killed_in_a_transaction(
    found: Found,
) -> None:
    codes, seen, _ = found["killed"]
    assert codes == [-signal.SIGKILL] * (20 if is_whole() else 1)
    # Of a micro-batch readers see nothing, or all.
    assert {sum(value >= 0 for value in values) % 10 for values in seen} == {0}
    assert [value for value in seen[-1] if value >= 0] == [*range(50)]


def test_counts_of_windows_are_there_once_over_drivers_that_are_killed(found: Found) -> None:
    counts, right = found["killed"][2]
    assert counts == right


@long
def test_a_transaction_that_is_left_open_holds_readers_back_for_its_timeout(found: Found) -> None:
    assert found["killed"][1][-1][:2] == [-1, -1]


@long
def test_what_cannot_be_read_is_told_with_the_remedy(found: Found) -> None:
    told = found["refusals"]
    assert "LongDeserializer takes 8 bytes, but a Kafka record has 1" in told["size"]
    assert "message.timestamp.type=LogAppendTime" in told["type"]
    assert "Step 'Read it/Records' failed" in told["topic"]
    assert "Topic 'missing'" in told["topic"]
    for name in ("large", "large once"):
        assert "Step 'Write it" in told[name]
        assert "raise max.request.size in producer_config" in told[name]


@long
def test_no_record_is_late_for_an_idle_partition_and_one_an_hour_behind(found: Found) -> None:
    assert found["partitions"] == [500, 500]


@long
def test_windows_of_append_times_end_without_more_records(found: Found) -> None:
    assert found["appended"] == 5


@long
def test_new_partitions_are_read(found: Found) -> None:
    assert found["growth"] == [*range(7)]


@long
def test_a_broker_that_is_away_for_a_minute_costs_nothing(found: Found) -> None:
    assert found["outage"] == [*range(6)]
