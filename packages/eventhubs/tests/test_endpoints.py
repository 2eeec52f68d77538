"""Events are the same over the Kafka endpoint of a namespace as over AMQP."""

import json
import sys
from pathlib import Path

import pytest
from command import attempt, with_paths

PROGRAM = Path(__file__).with_name("endpoints_program.py")
ENDPOINTS = ("kafka", "amqp")


@pytest.mark.timeout(400)
@pytest.mark.long("test_hub_on_spark.py has AMQP alone, test_kafka_broker.py Kafka")
def test_what_is_written_and_read_is_the_same(tmp_path: Path) -> None:
    run = attempt(sys.executable, PROGRAM, tmp_path, *ENDPOINTS, more=with_paths())
    if "no broker: " in run.stderr:
        pytest.skip(f"There is no Kafka here: {run.stderr[run.stderr.index('no broker: ') :]}")
    assert run.returncode == 0, run.stdout + run.stderr
    kafka, amqp = (sorted((tmp_path / name).read_text().splitlines()) for name in ENDPOINTS)
    assert kafka == amqp
    assert sorted(int(json.loads(line)[1]) for line in kafka) == list(range(50))
