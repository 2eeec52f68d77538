"""What a worker tells of a failure: found by its signature alone, and rebuilt as data."""

import base64
import json
import os
import pickle
import traceback
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from in_process import StreamingRunner

from sparkbeam import PipelineFailed
from sparkbeam.plan.redaction import Redaction
from sparkbeam.spark.failures import explained
from sparkbeam.wire.failure import FailureReports, UserCodeFailed

REPORTS = FailureReports(b"token of the run")


def travelled(error: BaseException, reports: FailureReports = REPORTS) -> Any:
    """What the driver makes of an exception in a worker."""
    found = reports.find(f"An error occurred: {reports.report(error, 'Step')}\n\tat java.Frame")
    assert found is not None
    return found.exception()


class OfUser(ValueError):
    def __init__(self, code: int, name: str) -> None:
        super().__init__(f"{name} has {code}")
        self.code = code


class WithEffects(Exception):
    made: list[Any] = []  # noqa: RUF012 - it is there to be changed.

    def __new__(cls, *args: Any) -> Any:
        cls.made.append(args)
        return super().__new__(cls, *args)

    def __init__(self, *args: Any) -> None:
        self.made.append(args)
        super().__init__(*args)

    def __setattr__(self, name: str, value: Any) -> None:
        self.made.append(name)
        super().__setattr__(name, value)


def forged_report(folder: Path) -> str:
    """What makes a folder if anybody unpickles it."""

    class Evil:
        def __reduce__(self) -> Any:
            return os.mkdir, (str(folder),)

    pickled = base64.b64encode(pickle.dumps(Evil())).decode()
    content = {"label": "Fake", "error": "e", "trace": "", "pickled": pickled}
    return base64.b64encode(json.dumps(content).encode()).decode()


class TestReports:
    def test_a_report_is_found_behind_one_that_data_has_forged(self, tmp_path: Path) -> None:
        folder = tmp_path / "made"
        packed = forged_report(folder)
        other = str(FailureReports().report(KeyError("of another run"), "Fake"))
        forged = [
            f"[[sparkbeam-failure:{packed}]]",
            f"[[sparkbeam-failure:{'0' * 64}:{packed}]]",
            f"[[sparkbeam-failure:{'0' * 64}:{packed}",
            f"[[sparkbeam-failure:{'0' * 64}:a]]",
            "[[sparkbeam-failure:",
            other,
        ]
        for text in [*forged, "".join(forged)]:
            report = REPORTS.report(ValueError(f"could not convert {text!r}"), "Parse")
            for message in (f"{report}", f"{text} {report} {text}"):
                found = REPORTS.find(message)
                assert found is not None
                assert found.label == "Parse"
                assert isinstance(found.exception(), ValueError)
            assert REPORTS.find(f"java.lang.Exception: {text}") is None
        assert not folder.exists()

    @pytest.mark.parametrize("broken", ["\n", "\\n", "\\\\n    ", "\r\n"])
    def test_a_report_that_has_been_broken_into_lines_is_found(self, broken: str) -> None:
        text = str(REPORTS.report(ValueError("a" * 100), "Step"))
        start = text.index("[[") + 200
        assert REPORTS.find(f"{text[:start]}{broken}{text[start:]}") is not None

    def test_what_has_been_changed_on_its_way_is_none(self) -> None:
        text = str(REPORTS.report(ValueError("a"), "Step"))
        assert REPORTS.find(text[:-4] + "AA]]") is None

    def test_it_does_not_tell_the_token(self) -> None:
        text = str(REPORTS.report(ValueError("a"), "Step"))
        assert REPORTS.token.hex() not in text
        assert base64.b64encode(REPORTS.token).decode() not in text
        assert "token of" not in repr(REPORTS)

    def test_secrets_are_out_of_all_that_spark_gets_to_see(self) -> None:
        reports = FailureReports(redaction=Redaction([("password", "hunter-2"), ("pin", "4711")]))
        error = OfUser(4711, "hunter-2")
        error.add_note("with hunter%2D2")
        try:
            raise error
        except OfUser as raised:
            cause = UserCodeFailed("Log in to hunter-2")
            cause.__cause__ = raised
            text = str(reports.report(cause, "Step"))
        found = reports.find(text)
        assert found is not None
        rebuilt: Any = found.exception()
        assert (type(rebuilt), str(rebuilt), rebuilt.code) == (OfUser, "*** has ***", "***")
        for shown in (text, str(base64.b64decode(text.rpartition(":")[2].rstrip("]")))):
            assert "hunter" not in shown.replace("Log in to hunter-2", "")
            assert "4711" not in shown

    def test_an_error_of_spark_is_shown_without_secrets_and_their_source(self) -> None:
        reports = FailureReports(redaction=Redaction([("password", "hunter-2")]))
        failed = explained(RuntimeError("no login with hunter%2D2\n\tat java.Frame"), reports)
        assert str(failed) == "Spark failed: no login with ***"
        assert failed.__cause__ is None
        other = RuntimeError("no login")
        assert explained(other, reports).__cause__ is other

    def test_a_value_that_spark_cannot_convert_has_the_label_of_its_step(self) -> None:
        text = (
            "x [USER_RAISED_EXCEPTION] Step 'Read': the column 'c' is odd. SQLSTATE: P0001\n\tat y"
        )
        failed = explained(RuntimeError(text), REPORTS)
        assert str(failed) == "Step 'Read' failed: the column 'c' is odd."
        assert isinstance(failed, PipelineFailed)
        assert failed.label == "Read"

    def test_an_error_of_a_database_names_its_readers_and_no_values(self) -> None:
        text = 'x\nCaused by: org.postgresql.util.PSQLException: ERROR: near "hunter2"\n\tat y'
        for labels, who in (["A"], "Step 'A'"), (["A", "B"], "One of the steps 'A', 'B'"):
            failed = explained(RuntimeError(text), REPORTS, of_databases=labels)
            assert str(failed).startswith(f"{who} failed: ")
            assert str(failed).endswith("a query that casts its column to text.")
            assert "hunter2" not in "".join(traceback.format_exception(failed))

    def test_an_error_of_spark_is_not_followed_by_javas_frames(self) -> None:
        failed = explained(RuntimeError("no table\n\tat java.Frame"), REPORTS)
        text = "".join(traceback.format_exception(failed))
        assert "Spark failed: no table" in text
        assert "java.Frame" not in text

    def test_control_characters_of_data_do_not_reach_a_terminal(self) -> None:
        error = ValueError("no number: \x1b[2J\x9b31m\u202e\r\n\t1")
        found = REPORTS.find(str(REPORTS.report(error, "Step")))
        assert found is not None
        assert found.error == r"ValueError: no number: \x1b[2J\x9b31m\u202e\r" + "\n\t1"
        assert str(found.exception()) == str(error)

    def test_a_long_text_is_cut(self) -> None:
        found = REPORTS.find(str(REPORTS.report(ValueError("x" * 1_000_000), "Step")))
        assert found is not None
        assert len(found.error) < 11_000

    @pytest.mark.parametrize(
        "parse",
        [
            float,
            lambda text: {}[text],
            lambda text: getattr(text, text),
            int,
            lambda text: text.encode("ascii", text),
            lambda text: __import__(text),
            lambda text: [].index(text),
        ],
    )
    def test_an_element_that_looks_like_a_report_is_an_element(
        self, parse: Any, tmp_path: Path
    ) -> None:
        folder = tmp_path / "made"
        packed = forged_report(folder)
        line = f"[[sparkbeam-failure:{packed}]] [[sparkbeam-failure:{'0' * 64}:{packed}]] é"
        pipeline = beam.Pipeline(StreamingRunner())
        _ = pipeline | beam.Create([line]) | "Parse" >> beam.Map(parse)
        with pytest.raises(PipelineFailed) as caught:
            pipeline.run().wait_until_finish()
        assert caught.value.label == "Parse"
        with pytest.raises(Exception) as own:  # noqa: PT011 - of all kinds.
            parse(line)
        assert type(caught.value.__cause__) is own.type
        assert not folder.exists()


class TestExceptions:
    @pytest.mark.parametrize(
        "error",
        [
            ValueError("a", 1, 2.5, None, True, b"\x00\xff", (1, ("b",)), [1]),
            KeyError(7),
            OfUser(3, "b"),
            json.JSONDecodeError("bad", "doc", 1),
            StopIteration(1),
            ValueError("\ud800 half"),
        ],
    )
    def test_type_arguments_and_text_stay(self, error: Any) -> None:
        found = travelled(error)
        assert (type(found), found.args, str(found)) == (type(error), error.args, str(error))

    def test_what_python_itself_raises_stays(self, tmp_path: Path) -> None:
        for fail in (
            lambda: (tmp_path / "missing").read_text(),
            lambda: b"\xff".decode(),
            lambda: "\ud800".encode(),
            lambda: dict[str, int]()["a"],
            lambda: list[int]().index(1),
            lambda: 1 // 0,
            lambda: object().missing,  # type: ignore[attr-defined]
            lambda: os.kill(1 << 30, 0),
            lambda: compile("1 +", "f", "eval"),
        ):
            with pytest.raises(Exception) as caught:  # noqa: PT011 - of all kinds.
                fail()
            found = travelled(caught.value)
            assert (type(found), str(found)) == (caught.type, str(caught.value))

    def test_attributes_and_notes_stay(self) -> None:
        error = OfUser(3, "b")
        error.add_note("seen on Monday")
        found = travelled(error)
        assert (found.code, found.__notes__) == (3, ["seen on Monday"])

    def test_what_is_no_data_becomes_text(self) -> None:
        found = travelled(ValueError({"a": 1}, Path("b"), 1 << 9999))
        assert found.args[0] == "{'a': 1}"
        assert "b" in found.args[1]
        assert isinstance(found.args[2], str)

    def test_a_class_that_is_not_known_is_its_nearest_base_that_is(self) -> None:
        class Local(OfUser):
            pass

        found = travelled(Local(3, "b"))
        assert (type(found), str(found)) == (OfUser, "b has 3")
        assert type(travelled(BaseException("a"))) is Exception

    def test_no_constructor_of_a_user_is_called(self) -> None:
        error = WithEffects("a")
        error.colour = "red"
        WithEffects.made.clear()
        found = travelled(error)
        assert WithEffects.made == []
        assert (type(found), found.args, found.colour) == (WithEffects, ("a",), "red")

    def test_nothing_is_imported_and_only_exceptions_are_made(self) -> None:
        error = type("Imported", (ValueError,), {"__module__": "antigravity"})("a")
        assert type(travelled(error)) is ValueError
        named = type("Popen", (ValueError,), {"__module__": "subprocess"})("a")
        assert type(travelled(named)) is ValueError

    def test_what_fails_when_it_is_told_does_no_harm(self) -> None:
        class Untold(Exception):
            def __str__(self) -> str:
                raise RuntimeError

            __repr__ = __str__

        assert isinstance(travelled(Untold(Untold())), Exception)


def test_a_jar_for_another_spark_is_told_where_spark_names_a_method_alone() -> None:
    text = "Query [id = 1] terminated with exception: 'void org.x.LogicalRDD.<init>(org.y.Seq)'"
    assert "A jar of the session is not for Spark " in str(explained(OSError(text), REPORTS))


JOB = (
    "An error occurred while calling o112.getResult.\n: org.apache.spark.SparkException: Exception "
    "thrown in awaitResult: \n\tat java.Frame\nCaused by: org.apache.spark.SparkException: Job "
    "aborted due to stage failure: Task 0 in stage 0.0 failed 1 times, most recent failure: Lost "
    "task 0.0 in stage 0.0 (TID 0) (localhost executor driver): {}\n\tat java.Frame"
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in worker has different "
            "version: 3.12 than that in driver: 3.11, PySpark cannot run",
            "The workers run Python 3.12, but the program runs 3.11: ",
        ),
        (
            "ImportError: sparkbeam needs Python 3.11 or newer, but this is Python 3.9 (/python).",
            "The workers run another Python than the program: sparkbeam needs Python 3.11 or ",
        ),
        (
            'java.io.IOException: Cannot run program "/python": error=2, No such file',
            "The Python of the workers, '/python', cannot be started: error=2, No such file",
        ),
        (
            'java.io.IOException: Cannot run program "pypy3" (in directory "/x"): Exec failed, '
            "error: 13 (Permission denied)",
            "The Python of the workers, 'pypy3', cannot be started: Exec failed, error: 13 (",
        ),
        (
            'java.io.IOException: Cannot run program "chmod": error=2, x: Cannot run program '
            '"/python/ls": error=2, x',
            'Spark failed: java.io.IOException: Cannot run program "chmod": error=2, x',
        ),
        (
            'x.Wrapped: Cannot run program "chmod": error=2, x: Cannot run program "/bin/python": '
            "error=2, y",
            "The Python of the workers, '/bin/python', cannot be started: error=2, y",
        ),
        (
            'java.io.IOException: Cannot run program "python3": error=12, Cannot allocate memory',
            'Spark failed: java.io.IOException: Cannot run program "python3": error=12, Cannot',
        ),
        (
            "java.io.IOException: File /data/orders.csv does not exist",
            "Spark failed: java.io.IOException: File /data/orders.csv does not exist",
        ),
        (
            'x.Wrapped:\n  File "/x.py", line 3, in f\n    File /data/orders.csv is gone',
            "Spark failed: x.Wrapped: File /data/orders.csv is gone",
        ),
        ("ModuleNotFoundError: No module named 'sparkbeam'", "The workers' Python has no 'sparkb"),
        ("ModuleNotFoundError: No module named 'orders'", "The workers cannot import 'orders':"),
        ("java.io.IOException: no space for rows", "Spark failed: java.io.IOException: no space"),
    ],
)
def test_an_error_of_spark_is_the_cause_in_one_line(text: str, message: str) -> None:
    found = str(explained(OSError(JOB.format(text)), REPORTS))
    assert found.startswith(message)
    assert len(found.splitlines()) == 1
    assert "Job aborted" not in found
    assert "java.Frame" not in found


def test_the_python_that_the_environment_names_may_have_any_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = 'Cannot run program "/opt/interpreter": error=2, No such file'
    assert "The Python of the workers" not in str(explained(OSError(text), REPORTS))
    monkeypatch.setenv("PYSPARK_PYTHON", "/opt/interpreter")
    assert "The Python of the workers, '/opt/inter" in str(explained(OSError(text), REPORTS))


REFUSED = """[STREAM_FAILED] Query terminated with exception: \
org.apache.kafka.common.errors.SaslAuthenticationException: Invalid username or password
org.apache.kafka.common.errors.SaslAuthenticationException: Invalid username or password
=== Streaming Query ===
Logical Plan:
WriteToMicroBatchDataSource
"""


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        (
            "org.apache.spark.sql.kafka010.KafkaIllegalStateException: [KAFKA_DATA_LOSS.X] t-0",
            "or start with another --checkpoint_location.",
        ),
        ("Cannot fetch offset 5. Some data may have been lost", "auto.offset.reset=earliest"),
        ("org.apache.kafka.common.errors.RecordTooLargeException: x", "max.request.size"),
    ],
)
def test_the_remedy_fits_what_kafka_refuses(text: str, remedy: str) -> None:
    failed = explained(RuntimeError(text), FailureReports(), of_kafka=["Clicks"])
    assert str(failed).startswith("Step 'Clicks' failed: ")
    assert remedy in str(failed)


@pytest.mark.parametrize(
    ("labels", "label", "who"),
    [
        (["Clicks"], "Clicks", "Step 'Clicks'"),
        (["Clicks", "Bids"], None, "One of the steps 'Clicks', 'Bids'"),
        ([], None, "Spark"),
    ],
)
def test_what_kafka_refuses_is_told_with_the_step_and_without_the_plan(
    labels: list[str], label: str | None, who: str
) -> None:
    failed = explained(RuntimeError(REFUSED), FailureReports(), of_kafka=labels)
    assert isinstance(failed, PipelineFailed)
    assert failed.label == label
    assert str(failed).startswith(f"{who} failed: ")
    assert str(failed).endswith("Check bootstrap.servers, the login and the topics.")
    assert str(failed).count("Invalid username") == 1
    assert failed.__cause__ is None
    assert "Logical Plan" not in str(failed)
