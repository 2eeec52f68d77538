"""The command ``sparkbeam state``: what steps keep, decoded."""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import apache_beam as beam
import pytest
from apache_beam.coders import (
    BytesCoder,
    FastPrimitivesCoder,
    FloatCoder,
    IterableCoder,
    StrUtf8Coder,
    TupleCoder,
    VarIntCoder,
)
from apache_beam.testing.test_stream import TestStream
from apache_beam.transforms.userstate import (
    BagStateSpec,
    CombiningValueStateSpec,
    OrderedListStateSpec,
    ReadModifyWriteStateSpec,
    SetStateSpec,
    StateSpec,
)
from apache_beam.transforms.window import FixedWindows, Sessions, TimestampedValue, WindowFn
from apache_beam.utils.timestamp import Timestamp
from command import answer, command
from golden import STORED, unpack
from golden_files import Golden, sections
from in_process import Checkpoint, Crashes, Spark, rounds, streaming_pipeline

from sparkbeam.errors import CheckpointFailed, ConfigurationError, PipelineFailed
from sparkbeam.explain.explanation import plan_of
from sparkbeam.inspection import state_reader
from sparkbeam.inspection.stage_coders import parsed
from sparkbeam.inspection.stage_state import StoredState, read_state
from sparkbeam.inspection.state_reader import ROOT, Entries
from sparkbeam.state import MapStateSpec, MultimapStateSpec


class StandIn(state_reader.SparkStore):
    """The state that the stand-in for Spark keeps of a query."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self.state = checkpoint.state

    def roots(self) -> Iterator[tuple[int, int, bytes]]:
        for (operator, shard), entries in self.state.items():
            yield operator, shard, entries[ROOT]

    def entries(self, operator: int, prefix: bytes) -> Iterator[tuple[int, Entries]]:
        for (at, shard), entries in self.state.items():
            if at == operator:
                yield shard, {n: c for n, c in entries.items() if n.startswith(prefix)}


WORDS = ["to", "be", "or", "not", "to", "be", "that", "is", "the", "question", "to"] * 3
MARK = 14
HALFWAY = (0, "committed")


def counting(folder: Path, windows: WindowFn) -> StoredState:
    """Counts words by window until all are in, and some windows have ended."""
    spark = Spark(Crashes(HALFWAY))
    events = TestStream(coder=StrUtf8Coder()).add_elements(
        [TimestampedValue(word, at) for at, word in enumerate(WORDS)]
    )
    p = streaming_pipeline(spark, folder, "--shards=2")
    _ = (
        p
        | "Events" >> events.advance_watermark_to(MARK).advance_watermark_to_infinity()
        | "Windows" >> beam.WindowInto(windows)
        | "Count" >> beam.combiners.Count.PerElement()
    )
    with rounds(2), pytest.raises(PipelineFailed, match="committed"):
        p.run().wait_until_finish()
    return read_state(str(folder), StandIn(spark.checkpoints[str(folder)]))


@pytest.fixture
def counted(tmp_path: Path) -> StoredState:
    return counting(tmp_path, FixedWindows(10))


def contents(state: StoredState, step: str, key: str | None = None) -> list[dict[str, Any]]:
    return [content for found in state.states(step, key) for content in found.content()]


def test_the_state_of_a_windowed_count_equals_a_plain_evaluation(counted: StoredState) -> None:
    expected = Counter(
        (word, at // 10 * 10) for at, word in enumerate(WORDS) if at // 10 * 10 + 10 > MARK
    )
    found = {}
    for each in contents(counted, "Count"):
        assert each["what"] == "window"
        start = int(each["window"][17:19])
        (found[each["key"], start],) = each["values"]
        assert each["fires"] == f"1970-01-01T00:00:{start + 10}Z"
    assert found == expected


def test_the_sessions_of_a_count_equal_a_plain_evaluation(tmp_path: Path) -> None:
    sessions: list[tuple[str, int, int, int]] = []
    for word, at in sorted((word, at) for at, word in enumerate(WORDS)):
        if sessions and sessions[-1][0] == word and at < sessions[-1][2]:
            _, start, _, count = sessions.pop()
            sessions.append((word, start, at + 4, count + 1))
        else:
            sessions.append((word, at, at + 4, 1))
    found = [
        (each["key"], int(each["window"][17:19]), int(each["window"][-3:-1]), *each["values"])
        for each in contents(counting(tmp_path, Sessions(4)), "Count")
    ]
    assert sorted(found) == [each for each in sessions if each[2] > MARK]


def test_an_unknown_key_or_step_is_an_error_that_names_what_there_is(counted: StoredState) -> None:
    with pytest.raises(ConfigurationError, match=r"--key='hamlet' is not a key .*'question'"):
        contents(counted, "Count", "hamlet")
    with pytest.raises(ConfigurationError, match=r"--step='Windows' .* Steps with state: Count\."):
        contents(counted, "Windows")


def lines(state: StoredState, step: str, key: str | None = None) -> list[str]:
    return [line for found in state.states(step, key) for line in found.lines()]


def test_a_stored_checkpoint_is_shown(tmp_path: Path, golden: Golden) -> None:
    stored = unpack(STORED, tmp_path)
    state = read_state(str(tmp_path), StandIn(stored))
    texts = {step: lines(state, step) for step in ("Sum", "Groups", "Most", "Remember", "Ask")}
    texts["Count, one key"] = lines(state, "Count", "k0")
    texts["Remember, in JSON"] = [json.dumps(content) for content in contents(state, "Remember")]
    golden("state of a checkpoint.txt", sections(texts))


# Coders.


class Place:
    def __init__(self, x: int, y: int) -> None:
        self.x, self.y = x, y


class PointCoder(beam.coders.Coder):
    """A coder of the user's, which a checkpoint cannot tell in words."""

    def encode(self, value: Any) -> bytes:
        return f"{value.x},{value.y}".encode()

    def decode(self, encoded: bytes) -> Any:
        return tuple(map(int, encoded.split(b",")))


class Run(NamedTuple):
    """A run that has ended halfway."""

    pipeline: beam.Pipeline
    store: StandIn

    def plan(self) -> Any:
        """As the command gets it of the program."""
        runner: Any = self.pipeline.runner
        return plan_of(runner.explain(self.pipeline))


def keeping(p: beam.Pipeline, spec: StateSpec, put: Callable[[Any], Any]) -> None:
    """Keeps something in a state for ever."""

    class Keep(beam.DoFn):
        def process(self, element: Any, kept: Any = beam.DoFn.StateParam(spec)) -> Iterator[Any]:
            put(kept)
            yield from ()

    events = TestStream(coder=StrUtf8Coder()).add_elements(["key"]).advance_watermark_to(1)
    _ = (
        p
        | "Events" >> events.advance_watermark_to_infinity()
        | "Pair" >> beam.Map(lambda key: (key, 1)).with_output_types(tuple[str, int])
        | "Keep" >> beam.ParDo(Keep())
    )


def remembering(folder: Path, coder: beam.coders.Coder, make: Callable[[], Any]) -> Run:
    """Keeps one value."""
    spec = ReadModifyWriteStateSpec("kept", coder)
    return kept_by(folder, spec, lambda state: state.write(make()))


def kept_by(folder: Path, spec: StateSpec, put: Callable[[Any], Any]) -> Run:
    spark = Spark(Crashes(HALFWAY))
    p = streaming_pipeline(spark, folder, "--shards=2")
    keeping(p, spec, put)
    with pytest.raises(PipelineFailed, match="committed"):
        p.run().wait_until_finish()
    return Run(p, StandIn(spark.checkpoints[str(folder)]))


def kept_value(run: Run, folder: Path, plan: Any = None) -> Any:
    (found,) = contents(read_state(str(folder), run.store, plan), "Keep")
    return found["values"][0]


def test_a_coder_that_only_the_program_knows_takes_the_program(tmp_path: Path) -> None:
    run = remembering(tmp_path, PointCoder(), lambda: Place(3, 4))
    assert kept_value(run, tmp_path) == {
        "bytes": b"3,4".hex(),
        "coder": "test_kept_state.PointCoder",
    }
    assert kept_value(run, tmp_path, run.plan()) == [3, 4]


def test_the_program_has_to_be_that_of_the_checkpoint(tmp_path: Path) -> None:
    run = remembering(tmp_path / "one", PointCoder(), lambda: Place(3, 4))
    other = remembering(tmp_path / "other", VarIntCoder(), lambda: 1)
    with pytest.raises(ConfigurationError, match=r"--program did not write .*state 'kept'"):
        read_state(str(tmp_path / "one"), run.store, other.plan())


@pytest.mark.parametrize(
    ("words", "coder"),
    [
        ("kv(string_utf8, varint)", TupleCoder([StrUtf8Coder(), VarIntCoder()])),
        ("iterable(kv(bytes, double))", IterableCoder(TupleCoder([BytesCoder(), FloatCoder()]))),
        ("FastPrimitivesCoder(fallback_coder=PickleCoder)", FastPrimitivesCoder()),
        ("kv(DeterministicFastPrimitivesCoderV2(step_label='x', un… (e3), varint)", None),
        ("row(a: int64)", None),
        ("kv(", None),
        ("iterable()", None),
        ("my.OwnCoder", None),
    ],
)
def test_coders_are_made_of_words_where_these_say_enough(words: str, coder: Any) -> None:
    assert repr(parsed(words)) == repr(coder)


class Exploding:
    """Makes a file when somebody unpickles it."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self._path,)


@pytest.mark.parametrize("with_program", [False, True])
def test_nothing_is_unpickled_where_others_may_have_written(
    tmp_path: Path, with_program: bool
) -> None:
    folder, mark = tmp_path / "checkpoint", tmp_path / "executed"
    run = remembering(folder, FastPrimitivesCoder(), lambda: Exploding(mark))
    plan = run.plan() if with_program else None
    (folder / "sparkbeam").chmod(0o777)
    mark.unlink(missing_ok=True)
    found = kept_value(run, folder, plan)
    assert found["coder"] == "FastPrimitivesCoder(fallback_coder=PickleCoder)"
    assert not mark.exists()
    (folder / "sparkbeam").chmod(0o755)
    kept_value(run, folder, plan)
    assert mark.exists()


def test_plain_values_are_decoded_wherever_they_come_from(tmp_path: Path) -> None:
    run = remembering(tmp_path, StrUtf8Coder(), lambda: "plain")
    (tmp_path / "sparkbeam").chmod(0o777)
    assert kept_value(run, tmp_path) == "plain"


def test_what_is_shown_has_no_secret_and_nothing_that_a_terminal_obeys(tmp_path: Path) -> None:
    run = remembering(tmp_path, StrUtf8Coder(), lambda: "\x1b[31m password=Tr0ub4dor")
    state = read_state(str(tmp_path), run.store)
    for text in [*lines(state, "Keep"), json.dumps(contents(state, "Keep"))]:
        assert "\x1b" not in text
        assert "Tr0ub4dor" not in text


NUMBERS, WORDS_CODER = VarIntCoder(), StrUtf8Coder()


def put_all(state: Any) -> None:
    for key, value in enumerate(["zero", "one", "one more"]):
        state.put(min(key, 1), value)


def add_all(state: Any) -> None:
    for value in ["zero", "one"]:
        state.add(value)


def test_each_kind_of_state_is_decoded(tmp_path: Path, golden: Golden) -> None:
    kinds: list[tuple[StateSpec, Callable[[Any], Any]]] = [
        (BagStateSpec("bag", WORDS_CODER), add_all),
        (SetStateSpec("set", WORDS_CODER), lambda state: state.add("one")),
        (CombiningValueStateSpec("combining", combine_fn=sum), lambda state: state.add(7)),
        (
            OrderedListStateSpec("ordered", WORDS_CODER),
            lambda state: state.add((Timestamp(5), "five")),
        ),
        (MapStateSpec("map", NUMBERS, WORDS_CODER), put_all),
        (MultimapStateSpec("multimap", NUMBERS, WORDS_CODER), put_all),
        (BagStateSpec("large", NUMBERS), lambda state: [state.add(n) for n in range(5000)]),
    ]
    found = []
    for spec, put in kinds:
        run = kept_by(tmp_path / spec.name, spec, put)
        found += lines(read_state(str(tmp_path / spec.name), run.store), "Keep")
    golden("kinds of state.txt", "\n".join(found))


def test_state_that_is_damaged_is_an_error(tmp_path: Path) -> None:
    run = remembering(tmp_path, WORDS_CODER, lambda: "plain")
    for entries in run.store.state.values():
        for name in entries:
            entries[name] = entries[name][: len(entries[name]) // 2]
    with pytest.raises(CheckpointFailed, match=r"The state of step 'Keep' in .* is damaged"):
        contents(read_state(str(tmp_path), run.store), "Keep")


# The command.


def test_the_command_takes_coders_of_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = remembering(tmp_path / "checkpoint", PointCoder(), lambda: Place(3, 4))
    monkeypatch.setattr(state_reader, "SparkStore", lambda *_: run.store)
    program = tmp_path / "program.py"
    program.write_text(
        """
import sys
import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.userstate import ReadModifyWriteStateSpec
from test_kept_state import PointCoder, keeping
print("a word of the program")
with beam.Pipeline(options=PipelineOptions(sys.argv[1:])) as p:
    keeping(p, ReadModifyWriteStateSpec("kept", PointCoder()), print)
"""
    )
    asked = ["state", str(tmp_path / "checkpoint"), "--step", "Keep", "--json"]
    result = command(*asked, "--program", program, "--", "--streaming")
    assert result.exit_code == 0, result.output
    assert json.loads(result.output)["values"] == [[3, 4]]


def test_the_command_prints_lines_and_json(
    counted: StoredState, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_reader, "SparkStore", lambda *_: counted.store)
    asked = ["state", counted.location, "--step", "Count", "--key", "question"]
    result = command(*asked)
    assert result.exit_code == 0
    first, *windows = result.output.splitlines()
    assert first == "'question'"
    assert windows[0].startswith("  window 1970-01-01T00:00:20Z to 1970-01-01T00:00:30Z: 1; ")
    result = command(*asked, "--json")
    parsed = [json.loads(line) for line in result.output.splitlines()]
    assert parsed == contents(counted, "Count", "question")


def test_before_the_first_commit_there_is_no_state(counted: StoredState) -> None:
    result = command("state", counted.location, "--step", "Count")
    assert result.exit_code == 1
    assert "yet: no micro-batch is committed." in " ".join(result.output.split())


def test_errors_of_the_command(
    tmp_path: Path, golden: Golden, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    refused = [[], ["--step", "Count"], ["--step", "Count", "more"]]
    refused += [["--step", "Count", "--program", "none.py"]]
    texts = {" ".join(given): answer(command("state", "x", *given)) for given in refused}
    golden("errors of state.txt", sections(texts), {str(tmp_path): "FOLDER"})
