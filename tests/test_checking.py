"""``sparkbeam check``: verdicts on programs of all kinds."""

import io
import json
import sys
from pathlib import Path
from textwrap import dedent

import pytest
from command import attempt, command, program, with_paths
from golden_files import Golden, sections

from sparkbeam.cli import checking, examining, main_program

BEAM = """
    import os, sys, time
    import apache_beam as beam
    from apache_beam.io.gcp import pubsub
    from apache_beam.options.pipeline_options import PipelineOptions

    def never(element):
        raise AssertionError("executed")

    def build(pipeline, label="Words"):
        pipeline | label >> beam.Create(["a"]) | beam.Map(never)
        return pipeline
"""
PUBSUB = "'Read it' >> beam.io.Read(pubsub._PubSubSource(topic='projects/abcdef/topics/b'))"
HOSTILE = r"a\x1b[31m\nb\u202e"
PROGRAMS = {
    "answers": """
        result = build(beam.Pipeline(runner="DirectRunner")).run()
        result.wait_until_finish()
        assert result.metrics().query()["counters"] == []
    """,
    "sql": """
        from apache_beam.transforms.sql import SqlTransform

        pipeline = beam.Pipeline()
        rows = pipeline | beam.Create([beam.Row(word="a", n=1)])
        counts = rows | SqlTransform("SELECT word, SUM(n) AS total FROM PCOLLECTION GROUP BY word")
        both = {"a": counts, "b": rows} | "Join" >> SqlTransform(
            "SELECT a.word, a.total + b.n AS more FROM a JOIN b ON a.word = b.word"
        )
        both | beam.Map(lambda row: never(row.more))
        pipeline.run()
    """,
    "sql_wrong": """
        from apache_beam.transforms.sql import SqlTransform

        rows = beam.Pipeline() | beam.Create([beam.Row(word="a")])
        rows | "Query" >> SqlTransform("SELECT nothing FROM PCOLLECTION")
    """,
    "of_spark": """
        from pyspark.sql import SparkSession

        frame = SparkSession.builder.master("local[1]").getOrCreate().range(3)
    """,
    "columns_of_files": """
        from sparkbeam.io import ReadFromSpark

        build(beam.Pipeline()).run()
        beam.Pipeline() | "Fetch" >> ReadFromSpark("csv", {"path": "/data"})
    """,
    "of_ddl": """
        from sparkbeam.io import ReadFromSpark, WriteToSpark

        schema = "day date, of struct<a: decimal(9, 2), b: array<string>> NOT NULL"
        with beam.Pipeline() as pipeline:
            rows = pipeline | ReadFromSpark("csv", {"path": "/data"}, schema)
            rows | WriteToSpark("parquet", {"path": "/days"}, "day date")
    """,
    "two": "build(beam.Pipeline()).run(); build(beam.Pipeline('DataflowRunner')).run()",
    "of_results": "build(beam.Pipeline()).run().metrics().query()['counters'][0]",
    "wrong_second": """
        with beam.Pipeline() as first:
            build(first)
        with beam.Pipeline() as second:
            build(second) | beam.Map(nobody)
    """,
    "misuse_of_third": """
        build(beam.Pipeline()).run()
        build(beam.Pipeline()).run()
        with beam.Pipeline() as third:
            third.create(1)
    """,
    "data_of_second": """
        build(beam.Pipeline()).run()
        with beam.Pipeline() as second:
            second | beam.Create(open("/nothing/here"))
    """,
    "interactive": """
        import apache_beam.runners.interactive.interactive_beam as ib
        from apache_beam.runners.interactive.interactive_runner import InteractiveRunner

        ib.collect(beam.Pipeline(InteractiveRunner()) | beam.Create([1]))
    """,
    "not_run": "build(beam.Pipeline())",
    "exits": "build(beam.Pipeline()).run(); sys.exit(3)",
    "ends": "build(beam.Pipeline()).run(); os._exit(4)",
    "of_many": f"""
        pipeline = beam.Pipeline(argv=["--streaming"])
        pipeline | {PUBSUB}
        pipeline | {PUBSUB.replace("Read it", "Read more")}
        pipeline.run()
        build(beam.Pipeline()).run()
    """,
    "of_java": """
        from apache_beam.io.debezium import DriverClassName, ReadFromDebezium
        login = "user", "password", "host", "3306"
        read = ReadFromDebezium(DriverClassName.MYSQL, *login, connection_properties=[])
        beam.Pipeline() | "Fetch" >> read
    """,
    "unpicklable": """
        each = (x for x in [])
        p = beam.Pipeline()
        p | beam.Create([1]) | "Locks" >> beam.Map(lambda _: next(each))
        p.run()
    """,
    "template": "build(beam.Pipeline(argv=['--template_location=gs://a/b'])).run()",
    "hostile": f"""
        pipeline = beam.Pipeline(argv=["--streaming"])
        pipeline | {PUBSUB.replace("Read it", HOSTILE)}
        pipeline.run()
    """,
    "arguments": "from argparse import *; p = ArgumentParser(); p.add_argument('x'); p.parse_args()"
    "",
    "asks": "build(beam.Pipeline(argv=[input('Which? ')])).run()",
    "fails": "open('/nothing/here')",
    "imports": "import nothing_here",
    "helper": "WORDS = 1",
}
OTHERS = {"plain": "print('Hello.')", "wrong": "this is is wrong"}
YAML = {
    "yaml": "{type: Create, config: {elements: [1]}}, {type: LogForTesting}",
    "yaml_of_java": "{type: ReadFromBigTable, config: {project: p, instance: i, table: t}}",
    "yaml_wrong": "{type: Creat, config: {elements: [1]}}",
}
APART = ("arguments", "columns_of_files", "ends", "of_ddl", "of_spark")
"""Programs that are examined in a process of their own."""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_each_kind_of_program_is_told_from_others(
    golden: Golden, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = {name: dedent(BEAM) + dedent(text) for name, text in PROGRAMS.items()} | OTHERS
    names = {name: program(text, f"{name}.py") for name, text in texts.items()}
    for name, steps in YAML.items():
        text = f"pipeline: {{type: chain, transforms: [{steps}]}}"
        names[name] = program(text, f"{name}.yaml")
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    verdicts = {}
    for name in names.keys() - {*APART}:
        file = folder / f"{name}.lines"
        with main_program.restored():
            examining.examine(file, names[name], [], is_module=False)
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        verdicts[name] = checking.judged(names[name], checking.Examined(lines, 0, ""), 60)
    programs = [names[name] for name in APART]
    apart = checking.verdicts(programs, [], is_module=False, seconds=120)
    verdicts |= dict(zip(APART, apart, strict=True))
    found = [row for name in sorted(verdicts) for row in verdicts[name]]
    lines = checking.table(found, 100)
    assert all(line.isprintable() for line in [*lines, *checking.table(found)])
    golden("checked programs.txt", "\n".join(lines))


def test_a_program_that_does_not_end_is_ended() -> None:
    name = program("import time; time.sleep(600)")
    ((row,),) = checking.verdicts([name], [], is_module=False, seconds=0.1)
    assert (row.verdict, row.reason) == ("not checked", "No pipeline ran within 0.1 seconds.")
    assert "--timeout" in row.remedy


def test_pipelines_of_a_program_that_does_not_end_count() -> None:
    found = checking.Examined([{"findings": []}], None, "")
    assert checking.judged("a.py", found, 60) == [
        checking.Verdict("a.py", "runs", reason="It did not end within 60 seconds.")
    ]


def test_a_table_has_a_line_for_each_verdict_and_fits_a_terminal(golden: Golden) -> None:
    rows = [
        checking.Verdict("a.py", checking.RUNS),
        checking.Verdict("longer.py", checking.CANNOT_RUN, "Read", "because", "do that"),
    ]
    golden(
        "tables of verdicts.txt", sections({f"{w}": checking.table(rows, w) for w in (None, 23)})
    )
    long = checking.Verdict("a/" * 200, checking.CANNOT_RUN, "b" * 300, "c " * 500, "d " * 500)
    for width in (10, 40, 80, 200):
        lines = checking.table([*rows, long], width)
        assert max(map(len, lines)) <= width


def test_a_folder_has_the_programs_that_mention_beam() -> None:
    for place in ("in/a.py", "in/deep/b.py", "in/.venv/c.py", "in/setup.py"):
        program("import sys" if "setup" in place else "import apache_beam", place)
    assert checking.programs_in(Path("in")) == ["in/a.py", "in/deep/b.py"]
    Path("none").mkdir()
    result = command("check", "none")
    assert result.exit_code == 2
    assert "No Python file in it mentions Beam" in result.stderr


@pytest.mark.parametrize(
    ("verdict", "code"),
    [("runs", 0), ("cannot run", 1), ("fails", 1), ("not checked", 0), ("no pipeline", 0)],
)
def test_the_exit_code_says_that_a_program_cannot_run(
    monkeypatch: pytest.MonkeyPatch, verdict: str, code: int
) -> None:
    name = program("")
    given: list[list[str]] = []

    def verdicts(programs: list[str], arguments: list[str], **_: object) -> object:
        given.append([*arguments])
        return [[checking.Verdict(each, verdict)] for each in programs]

    monkeypatch.setattr(checking, "verdicts", verdicts)
    result = command("check", name, "--", "--input", "x")
    assert result.exit_code == code
    assert command("check", "--json", name, "--input=x").stdout.startswith('{"program": "')
    assert given == [["--input", "x"], ["--input=x"]]


def test_a_notebook_has_another_command() -> None:
    result = command("check", program("", "a.ipynb"))
    assert result.exit_code == 2
    assert "convert it with 'jupyter nbconvert --to script'" in " ".join(result.stderr.split())


def test_the_command_starts_no_spark() -> None:
    name = program(dedent(BEAM) + "build(beam.Pipeline(argv=sys.argv)).run()")
    words = ["-m", "sparkbeam", "check", "--json", name, "--", "--streaming"]
    environment = {"PATH": "/nothing", "JAVA_HOME": "/nothing", **with_paths()}
    done = attempt(sys.executable, *words, environment=environment)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["verdict"] == "runs"
