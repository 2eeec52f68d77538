"""Changes of Iceberg tables over managed transforms, in batch and in a stream.

It prints its findings as JSON.

Usage: iceberg_changes_program.py FOLDER
"""

import json
import sys
from pathlib import Path
from typing import Any

import apache_beam as beam
import streams
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms import managed
from iceberg_program import pipeline
from table_programs import NO_JAR

from sparkbeam.errors import ConfigurationError
from sparkbeam.io import ForeachBatch
from sparkbeam.upstream.spark import active_session

CDC = managed._ICEBERG_CDC
KIND = "_change_type"


def main(folder: Path) -> None:
    catalog = {
        "catalog_name": "lake",
        "catalog_properties": {"type": "hadoop", "warehouse": str(folder / "warehouse")},
    }
    table = {**catalog, "table": "shop.rows"}

    def append(p: beam.Pipeline, *ids: int) -> None:
        rows = p | beam.Create([beam.Row(id=id, n=10 * id) for id in ids])
        _ = rows | managed.Write(managed.ICEBERG, config=table)

    def collect(name: str) -> Any:
        def note(frame: Any, _: int) -> None:
            with (folder / f"{name}.jsonl").open("a") as file:
                rows = sorted([*row] for row in frame.collect())
                file.write("".join(f"{json.dumps(row)}\n" for row in rows))

        return note

    def rows(name: str) -> list[Any]:
        path = folder / f"{name}.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] * path.exists()

    def read(name: str, schema: str, **config: Any) -> list[Any]:
        (folder / f"{name}.jsonl").touch()

        def build(p: beam.Pipeline) -> None:
            changes = p | managed.Read(CDC, config={**table, **config})
            _ = changes | ForeachBatch(collect(name), schema)

        pipeline(build)
        return rows(name)

    def timed(p: beam.Pipeline) -> None:
        changes = p | managed.Read(CDC, config={**table, "keep": ["id"]})
        pairs = changes | beam.Map(
            lambda row, time=beam.DoFn.TimestampParam: beam.Row(id=row.id, at=time.micros // 1000)
        )
        _ = pairs | ForeachBatch(collect("timed"), "id bigint, at bigint")

    def follow(name: str, **config: Any) -> None:
        def build(p: beam.Pipeline) -> None:
            changes = p | managed.Read(CDC, config={**table, "streaming": True, **config})
            _ = changes | ForeachBatch(collect(name), "id bigint, n bigint")

        streams.run_available(spark, folder / f"checkpoint_{name}", build)

    def in_yaml(p: beam.Pipeline) -> None:
        from apache_beam.yaml.yaml_transform import YamlTransform

        some = {**table, "from_snapshot": second.snapshot_id, "drop": ["n"]}
        transforms = [
            {"type": "ReadFromIcebergCDC", "config": some},
            {"type": "WriteToJson", "config": {"path": str(folder / "yaml.json")}},
        ]
        _ = p | YamlTransform(json.dumps({"type": "chain", "transforms": transforms}))

    try:
        pipeline(lambda p: append(p, 1, 2))
    except ConfigurationError as error:
        print(error, file=sys.stderr)
        sys.exit(NO_JAR)
    spark = active_session()
    pipeline(lambda p: append(p, 3))
    catalogs = spark.sql("SHOW CATALOGS").where("catalog LIKE 'lake%'").collect()
    name = f"{catalogs[0][0]}.shop.rows"
    order = "SELECT snapshot_id, unix_millis(committed_at) AS at FROM {}.snapshots ORDER BY 2"
    first, second = spark.sql(order.format(name)).collect()

    schema = "id bigint, n bigint"
    found: dict[str, Any] = {
        "all": read("all", schema),
        "second": read("second", schema, from_snapshot=second.snapshot_id),
        "until": read("until", schema, to_timestamp=second.at - 1, filter="n > 10"),
        "latest": read("latest", "id bigint", starting_strategy="latest", keep=["id"]),
        "future": read("future", schema, from_timestamp=second.at + 1),
    }
    pipeline(timed)
    ats = {1: first.at, 2: first.at, 3: second.at}
    found["timed"] = [[id, at - ats[id]] for id, at in rows("timed")]
    pipeline(in_yaml)
    lines = "".join(file.read_text() for file in folder.glob("yaml.json*")).splitlines()
    found["yaml"] = [json.loads(line) for line in lines]

    follow("old", starting_strategy="earliest", filter="id <> 2")
    follow("new", poll_interval_seconds=1)
    follow("since", from_timestamp=second.at + 1)
    pipeline(lambda p: append(p, 4))
    follow("old", starting_strategy="earliest", filter="id <> 2")
    follow("new")
    follow("since", from_timestamp=second.at + 1)
    found |= {f"stream_{name}": rows(name) for name in ("old", "new", "since")}

    spark.sql(f"UPDATE {name} SET n = 31 WHERE id = 3")
    spark.sql(f"DELETE FROM {name} WHERE id = 4")
    kinds = "id bigint, n bigint, change_type string"
    found["kinds"] = read("kinds", kinds, keep=["id", "n", KIND], filter="id > 2")
    idle = beam.Pipeline("sparkbeam.SparkRunner", PipelineOptions(["--spark_master=local[2]"]))
    unbounded = idle | managed.Read(CDC, config={**table, "streaming": True})
    found["bounded"] = unbounded.is_bounded
    print(f"\n{json.dumps(found)}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
