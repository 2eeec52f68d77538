"""Programs that spark-submit starts, with files, archives and packages of their own."""

import json
import sys
import zipfile
from pathlib import Path
from textwrap import dedent
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
import pytest
from command import execute
from package_files import wheel
from standalone import Cluster

SUBMIT = Path(pyspark.__file__).parent / "bin" / "spark-submit"
PROGRAM = """
    import json, os, sys
    import apache_beam as beam
    from pyspark import SparkFiles
    from pyspark.sql import SparkSession
    import prog_helper
    from sparkbeam.io import ReadFromSpark

    MARK = "!"

    def of_archive(word):
        with open(os.path.join(SparkFiles.get("tables"), "table.txt")) as file:
            return word + file.read()

    def of_package(word):
        import prog_packed
        return word + prog_packed.WORD

    def noted(words):
        with open(TARGET, "w") as file:
            json.dump(sorted(words), file)

    if __name__ == "__main__":
        TARGET = sys.argv[1]
        with beam.Pipeline(argv=sys.argv[2:]) as pipeline:
            words = pipeline | beam.Create(["a", "b"]) | "Help" >> beam.Map(prog_helper.shout)
            words |= "Read" >> beam.Map(of_archive)
            words |= "Import" >> beam.Map(of_package)
            words |= "Mark" >> beam.Map(lambda word: word + MARK)
            numbers = pipeline | ReadFromSpark("parquet", {"path": TARGET + ".parquet"})
            total = numbers | "Total" >> beam.Map(lambda row: 2 * row.x) | beam.CombineGlobally(sum)
            words = (words, total | beam.Map(str)) | beam.Flatten()
            words | beam.combiners.ToList() | "Note" >> beam.Map(noted)
        context = SparkSession.getActiveSession().sparkContext
        print(json.dumps([context.master, context.appName,
                          context.getConf().get("spark.sql.shuffle.partitions")]))
"""


def submitted(folder: Path, master: str, *settings: str) -> tuple[Any, Any]:
    """Submits the program; returns what its pipeline has found, and what it has printed."""
    (folder / "prog_helper.py").write_text("def shout(word):\n    return word.upper()\n")
    for name, file, text in (
        ("helpers.zip", "prog_helper.py", (folder / "prog_helper.py").read_text()),
        ("tables.zip", "table.txt", "-table"),
    ):
        with zipfile.ZipFile(folder / name, "w") as archive:
            archive.writestr(file, text)
    (folder / "prog_helper.py").unlink()
    packed = wheel(folder, "prog_packed", "WORD = '-packed'\n")
    (folder / "program.py").write_text(dedent(PROGRAM))
    pq.write_table(pa.table({"x": range(1000)}), folder / "found.parquet")
    command = [
        SUBMIT,
        f"--master={master}",
        "--name=mine",
        f"--py-files={folder / 'helpers.zip'}",
        f"--archives={folder / 'tables.zip'}#tables",
        "--conf=spark.sql.shuffle.partitions=3",
        *settings,
        folder / "program.py",
        folder / "found",
        "--runner=sparkbeam.SparkRunner",
        f"--extra_package={packed}",
    ]
    done = execute(*command, PYSPARK_PYTHON=sys.executable, PIP_NO_INDEX="1")
    return json.loads((folder / "found").read_text()), json.loads(done.stdout.splitlines()[-1])


FOUND = ["999000", "A-table-packed!", "B-table-packed!"]


def test_a_program_runs_on_a_local_master(tmp_path: Path) -> None:
    assert submitted(tmp_path, "local[2]") == (FOUND, ["local[2]", "mine", "3"])


@pytest.mark.long("50 s; the same program runs on a local master")
def test_a_program_runs_on_a_cluster(tmp_path: Path, cluster: Cluster) -> None:
    options = [option for option in cluster.options() if option.startswith("--spark_conf")]
    settings = [f"--conf={option.partition('=')[2]}" for option in options]
    settings = [setting for setting in settings if "shuffle.partitions" not in setting]
    try:
        found = submitted(tmp_path, cluster.url, *settings)
    except AssertionError as error:
        pytest.fail(f"{error}\n{cluster.logs()}")
    assert found == (FOUND, [cluster.url, "mine", "3"])
