"""A worker that died is told of with the step that it was at, and with the reason."""

import subprocess
from pathlib import Path

import pytest

from sparkbeam.spark.worker_deaths import Deaths, exit_code, oom_kills
from sparkbeam.wire.heap import Heap

CRASHED = "Job aborted: SparkException: Python worker exited unexpectedly (crashed)"
FAULT = f"""{CRASHED}: Fatal Python error: Segmentation fault

Current thread 0x00007f (most recent call first):
  File "/usr/lib/python3/ctypes/__init__.py", line 519 in string_at
  File "/home/me/parse.py", line 7 in parse
  File "/venv/site-packages/apache_beam/transforms/core.py", line 2128 in <lambda>

\tat org.apache.spark.api.python.BasePythonRunner
"""


def deaths(*steps: str, kills: tuple[int, int] = (0, 0)) -> Deaths:
    counts = iter(kills)
    return Deaths(lambda: list(steps), lambda: next(counts))


def test_the_step_is_named() -> None:
    failed = deaths("Parse", "Other").explained(CRASHED)
    assert failed is not None
    assert failed.label == "Parse"
    assert str(failed).startswith("Step 'Parse' failed: the worker that ran it ended without")


def test_a_kill_for_memory_is_named_with_the_remedy() -> None:
    for found in (
        deaths("Parse", kills=(3, 4)).explained(CRASHED),
        deaths("Parse").explained("ExecutorLostFailure (executor 1): Command exited with code 137"),
        deaths("Parse").explained(
            "ExecutorLostFailure: Container killed for exceeding memory limits"
        ),
    ):
        assert found is not None
        assert "'Parse' failed: the worker that ran it was killed for lack of memory" in str(found)
        assert "spark.executor.memoryOverhead" in str(found)


def test_a_crash_of_python_tells_the_line_of_the_user() -> None:
    failed = deaths("Parse").explained(FAULT)
    assert failed is not None
    assert "Segmentation fault" in str(failed)
    assert 'File "/home/me/parse.py", line 7 in parse' in str(failed)
    assert "apache_beam" not in str(failed)
    assert "org.apache" not in str(failed)


def of_jvm(code: int | None, *at: str) -> Deaths:
    return Deaths(
        kills=lambda: 0,
        at=lambda: list(at),
        jvm=lambda _: code,
        heap=Heap(500 << 20, "spark.x.memory"),
    )


@pytest.mark.parametrize(
    "text", ["[Errno 111] Connection refused", "Answer from Java side is empty"]
)
def test_the_end_of_the_jvm_for_its_memory_is_told_with_the_remedy(text: str) -> None:
    failed = of_jvm(52, "Make").explained(text)
    assert failed is not None
    assert failed.label == "Make"
    assert str(failed).startswith("Step 'Make' failed: Spark's JVM has ended because it had no")
    assert "500 MiB (spark.x.memory)" in str(failed)
    assert "--spark_conf=spark.x.memory=" in str(failed)


def test_another_end_of_the_jvm_is_told_with_its_code() -> None:
    failed = of_jvm(-9).explained("[Errno 104] Connection reset by peer")
    assert failed is not None
    assert str(failed).startswith("A step failed: Spark's JVM has ended (exit code -9).")


def test_a_connection_that_is_not_to_the_jvm_is_left_to_others() -> None:
    assert of_jvm(None).explained("[Errno 111] Connection refused") is None


@pytest.mark.parametrize(
    "text", ["java.lang.OutOfMemoryError: Java heap space", "Command exited with code 52"]
)
def test_an_executor_without_memory_is_told_with_the_remedy(text: str) -> None:
    failed = of_jvm(None, "Make").explained(f"ExecutorLostFailure (executor 1): {text}")
    assert failed is not None
    assert "Spark's JVM has no memory left" in str(failed)
    assert "spark.x.memory" in str(failed)


def test_a_jvm_that_runs_has_no_exit_code() -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        assert exit_code(process) is None
        assert exit_code(process, 0.01) is None
        process.kill()
        assert exit_code(process, 60) == -9
        assert exit_code(process) == -9
    assert exit_code(None) is None


@pytest.mark.parametrize(
    ("text", "is_of_gateway"),
    [
        ("[Errno 111] Connection refused", True),
        ("[Errno 104] Connection reset by peer", True),
        ("Answer from Java side is empty", True),
        ("Error while sending or receiving", True),
        ("An error occurred while trying to connect to the Java server (127.0.0.1:37)", True),
        ("An error occurred while calling o112.getResult", True),
        ("PSQLException: Connection refused. Check that the hostname is right", False),
        (
            "An error occurred while calling o1.load.\n: java.net.ConnectException: Connection "
            "refused",
            False,
        ),
        ("KafkaException: Error while sending a record: Broken pipe", False),
        ("Step says: [Errno 111] Connection refused", False),
    ],
)
def test_only_where_the_gateway_is_silent_the_jvm_gets_time_to_exit(
    text: str, is_of_gateway: bool
) -> None:
    asked: list[float] = []
    assert Deaths(jvm=asked.append).explained(text) is None
    assert [seconds > 0 for seconds in asked] == [is_of_gateway]


def test_another_failure_is_left_to_others() -> None:
    assert deaths("Parse").explained("AnalysisException: no such column") is None


def test_a_step_that_is_not_known_is_not_made_up() -> None:
    failed = deaths().explained(CRASHED)
    assert failed is not None
    assert failed.label is None
    assert str(failed).startswith("A step failed: the worker")


def test_linux_counts_kills_for_memory(tmp_path: Path) -> None:
    vmstat = tmp_path / "vmstat"
    vmstat.write_text("pgfault 12\noom_kill 3\noom_kill_other 9\n")
    assert oom_kills(vmstat) == 3
    assert oom_kills(tmp_path / "missing") == 0
