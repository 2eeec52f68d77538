"""A worker that died is told of with the step that it was at, and with the reason."""

from pathlib import Path

from sparkbeam.deaths import Deaths, oom_kills

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
