"""Pipelines give the same over Kafka, over AMQP over AMQP."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import happenings
import pytest

pytestmark = [
    pytest.mark.timeout(400),
    pytest.mark.long("a minute; test_hub_on_spark.py has AMQP alone, test_kafka_broker.py Kafka"),
]

PROGRAM = Path(__file__).with_name("endpoints_program.py")
READERS = ("kafka", "amqp")


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with what all pipelines have given."""
    folder = tmp_path_factory.mktemp("endpoints")
    run = subprocess.run(
        [sys.executable, str(PROGRAM), str(folder), *READERS],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
    )
    if "no broker: " in run.stderr:
        pytest.skip(f"There is no Kafka here: {run.stderr[run.stderr.index('no broker: ') :]}")
    assert run.returncode == 0, run.stdout + run.stderr
    return folder


def panes(folder: Path) -> tuple[Counter[Any], Counter[Any]]:
    """How many events and how much is in the panes of a window, by user, start and timing."""
    events: Counter[Any] = Counter()
    amounts: Counter[Any] = Counter()
    for path in folder.glob("*.json"):
        for row in map(json.loads, path.read_text().splitlines()):
            pane = row["user"], row["start"], row["timing"]
            events[pane] += row["events"]
            amounts[pane] += row["amount"]
    return events, amounts


def test_windows_with_late_events_of_user_times_are_the_same(found: Path) -> None:
    kafka, *others = (panes(found / name) for name in READERS)
    assert kafka[0] == happenings.expected()
    assert others == [kafka] * len(others)


def test_events_are_the_same(found: Path) -> None:
    kafka, *others = (sorted((found / f"{n}.read").open()) for n in READERS)
    assert len(kafka) == len(happenings.BEFORE) + len(happenings.AFTER)
    assert others == [kafka] * len(others)


def test_what_is_written_is_the_same(found: Path) -> None:
    kafka, *others = (
        sorted(
            [row[0], *row[2:4], *sorted(row[5].items())]
            for row in map(json.loads, (found / f"{name}.written").open())
        )
        for name in READERS
    )
    assert len(kafka) == 50
    assert others == [kafka] * len(others)
