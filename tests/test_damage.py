"""Errors of Spark that are about full disks and files of a checkpoint end with file and remedy."""

import pytest

from sparkbeam.errors import CheckpointFailed
from sparkbeam.spark.checkpoint_damage import damage
from sparkbeam.spark.failures import explained
from sparkbeam.wire.failure import FailureReports

FRAMES = "\n".join(
    f"\tat org.apache.spark.sql.execution.Some.method{n}(Some.scala)" for n in range(99)
)
STATE = "/mnt/shared/checkpoint/state/1/0/default"


@pytest.mark.parametrize(
    ("text", "file"),
    [
        (
            "java.lang.IllegalStateException: Failed to read log file "
            "file:/mnt/shared/checkpoint/offsets/17. Incomplete log file",
            "file:/mnt/shared/checkpoint/offsets/17",
        ),
        (
            "Failed to read log file s3a://bucket/checkpoint/commits/3. Incomplete log file in the "
            "offset commit log",
            "s3a://bucket/checkpoint/commits/3",
        ),
        (
            "Failed to read log file /checkpoint/offsets/2. [MALFORMED_LOG_FILE] Log file was "
            "malformed: failed to read correct log version from x. SQLSTATE: KD002",
            "/checkpoint/offsets/2",
        ),
        (
            "org.apache.hadoop.fs.ChecksumException: Checksum error: "
            "file:/mnt/checkpoint/commits/2 at 0 exp: -41 got: 99",
            "file:/mnt/checkpoint/commits/2",
        ),
        (
            "[CANNOT_LOAD_STATE_STORE.CANNOT_READ_STREAMING_STATE_FILE] An error occurred during "
            f"loading state. Error reading streaming state file of {STATE}/3.changelog does not "
            "exist. If the stream job is restarted with a new or updated state operation, please "
            "create a new checkpoint location or clear the existing checkpoint location.",
            f"{STATE}/3.changelog",
        ),
        (
            "[CANNOT_LOAD_STATE_STORE.UNEXPECTED_FILE_SIZE] An error occurred during loading "
            f"state. Copied {STATE}/4.zip to /tmp/local/4.zip, expected 9 bytes, found 4 bytes.",
            f"{STATE}/4.zip",
        ),
    ],
)
def test_a_damaged_file_of_spark_is_named(text: str, file: str) -> None:
    error = explained(RuntimeError(f"{text}\n{FRAMES}"), FailureReports())
    assert isinstance(error, CheckpointFailed)
    assert f"The checkpoint file {file} cannot be read: " in str(error)
    assert "another --checkpoint_location" in str(error)
    assert len(str(error)) < 700


def test_a_gap_in_spark_s_log_is_told() -> None:
    told = damage("java.lang.IllegalStateException: batch 16 doesn't exist\n" + FRAMES)
    assert told is not None
    assert "batch 16 doesn't exist" in told


def test_our_own_word_for_it_comes_through_spark() -> None:
    told = "The checkpoint file /c/sparkbeam/feedback/3.json is damaged. Remove it."
    text = f"""[FOREACH_BATCH_USER_FUNCTION_ERROR] An error occurred in the user provided function
Traceback (most recent call last):
  File "sink.py", line 3, in __call__
sparkbeam.errors.CheckpointFailed: {told}
{FRAMES}"""
    assert str(explained(RuntimeError(text), FailureReports())) == told


def test_an_error_of_our_own_data_source_is_told_without_its_traceback() -> None:
    told = "max_rate_per_partition: the event hub 'clicks' has no partition 7, only 0, 1."
    text = f"""[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: \
[PYTHON_STREAMING_DATA_SOURCE_RUNTIME_ERROR] Failed when Python streaming data source perform \
latestOffset: Traceback (most recent call last):
  File "data_source.py", line 229, in latestOffset
    end = self._planner.up_to(begin, most, factors)
          ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
sparkbeam.errors.ConfigurationError: {told}
 SQLSTATE: 38000
{FRAMES}"""
    assert str(explained(RuntimeError(text), FailureReports())) == f"Spark failed: {told}"


@pytest.mark.parametrize(
    "text",
    [
        "OSError: [Errno 28] No space left on device: '/data/spark/blockmgr-1/0c'",
        "java.io.IOException: No space left on device",
        "java.io.IOException: Disk quota exceeded",
    ],
)
def test_a_full_disk_says_where_to_make_room(text: str) -> None:
    told = damage(f"Job aborted due to stage failure\n{text}\n{FRAMES}")
    assert told is not None
    assert "spark.local.dir" in told
    assert ("/data/spark/blockmgr-1/0c" in told) == ("Errno" in text)


@pytest.mark.parametrize(
    "text",
    [
        "ValueError: could not convert string to float: 'x'",
        "[CANNOT_LOAD_STATE_STORE.ROCKSDB_STORE_PROVIDER_OUT_OF_MEMORY] Could not load RocksDB",
    ],
)
def test_other_errors_are_left_alone(text: str) -> None:
    assert damage(text) is None
