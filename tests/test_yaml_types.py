"""The types of Beam YAML's catalogue that need no Java: the rows that each of them makes."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.utils.timestamp import Timestamp

from sparkbeam import SparkRunner
from sparkbeam.replaced.yaml.providers import native

pytest.importorskip("sqlglot")
yaml = pytest.importorskip("yaml")
yaml_provider = pytest.importorskip("apache_beam.yaml.yaml_provider")
yaml_transform = pytest.importorskip("apache_beam.yaml.yaml_transform")
yaml_utils = pytest.importorskip("apache_beam.yaml.yaml_utils")

Rows = list[dict[str, Any]]

SALES = """
type: chain
transforms:
  - {type: Create, config: {elements: [{item: cup, n: 2}, {item: cup, n: 3}, {item: pen, n: 7}]}}
"""
"""The head of each chain: its transforms follow."""

CHAINS: dict[str, tuple[str, Rows]] = {
    "Create makes rows of mappings, and rows with an element of the rest": (
        "",
        [{"item": "cup", "n": 2}, {"item": "cup", "n": 3}, {"item": "pen", "n": 7}],
    ),
    "MapToFields renames without a language": (
        "- {type: MapToFields, config: {fields: {what: item, m: n, one: 1}}}",
        [
            {"what": "cup", "m": 2, "one": 1},
            {"what": "cup", "m": 3, "one": 1},
            {"what": "pen", "m": 7, "one": 1},
        ],
    ),
    "MapToFields appends and drops": (
        """
  - type: MapToFields
    config: {language: python, append: true, drop: n, fields: {m: n % 3}}
        """,
        [{"item": "cup", "m": 2}, {"item": "cup", "m": 0}, {"item": "pen", "m": 1}],
    ),
    "MapToFields calls a function of Python": (
        """
  - type: MapToFields
    config:
      language: python
      fields:
        m:
          output_type: integer
          callable: |
            import math
            def root(row):
              return math.isqrt(row.n)
        """,
        [{"m": 1}, {"m": 1}, {"m": 2}],
    ),
    "MapToFields in SQL": (
        "- {type: MapToFields, config: {language: sql, fields: {m: n * 10, u: UPPER(item)}}}",
        [{"m": 20, "u": "CUP"}, {"m": 30, "u": "CUP"}, {"m": 70, "u": "PEN"}],
    ),
    "MapToFields in Calcite's dialect": (
        "- {type: MapToFields, config: {language: calcite, append: true, fields: {h: n / 2}}}",
        [
            {"item": "cup", "n": 2, "h": 1},
            {"item": "cup", "n": 3, "h": 1},
            {"item": "pen", "n": 7, "h": 3},
        ],
    ),
    "Filter compares without a language": (
        "- {type: Filter, config: {keep: n > 2}}",
        [{"item": "cup", "n": 3}, {"item": "pen", "n": 7}],
    ),
    "Filter in Python": (
        "- {type: Filter, config: {language: python, keep: 'n > 2 and item != \"pen\"'}}",
        [{"item": "cup", "n": 3}],
    ),
    "Filter in SQL": (
        "- {type: Filter, config: {language: sql, keep: n BETWEEN 3 AND 9}}",
        [{"item": "cup", "n": 3}, {"item": "pen", "n": 7}],
    ),
    "Filter in Calcite's dialect": (
        "- {type: Filter, config: {language: calcite, keep: item LIKE 'p%'}}",
        [{"item": "pen", "n": 7}],
    ),
    "Combine aggregates without a language": (
        """
  - type: Combine
    config: {group_by: item, combine: {n: sum, most: {value: n, fn: max}}}
        """,
        [{"item": "cup", "n": 5, "most": 3}, {"item": "pen", "n": 7, "most": 7}],
    ),
    "Combine in Python has functions of Beam and of the user": (
        """
  - type: Combine
    config:
      language: python
      group_by: [item]
      combine:
        mean: {value: n, fn: mean}
        count: {value: n, fn: count}
        least: {value: n, fn: min}
        odd: {value: n % 2 == 1, fn: any}
        large: {value: n > 1, fn: all}
        top:
          value: n
          fn:
            type: apache_beam.transforms.combiners.TopCombineFn
            config: {n: 1}
        """,
        [
            {
                "item": "cup",
                "mean": 2.5,
                "count": 2,
                "least": 2,
                "odd": True,
                "large": True,
                "top": [3],
            },
            {
                "item": "pen",
                "mean": 7.0,
                "count": 1,
                "least": 7,
                "odd": True,
                "large": True,
                "top": [7],
            },
        ],
    ),
    "Combine collects values": (
        """
  - {type: Filter, config: {keep: n > 2}}
  - {type: Combine, config: {group_by: item, combine: {all: {value: n, fn: group}}}}
        """,
        [{"item": "cup", "all": [3]}, {"item": "pen", "all": [7]}],
    ),
    "Combine in SQL": (
        """
  - type: Combine
    config: {language: sql, group_by: item, combine: {s: {value: n, fn: sum}, c: {fn: count(*)}}}
        """,
        [{"item": "cup", "s": 5, "c": 2}, {"item": "pen", "s": 7, "c": 1}],
    ),
    "Combine in Calcite's dialect": (
        """
  - type: Combine
    config: {language: calcite, group_by: item, combine: {least: {value: n, fn: min}}}
        """,
        [{"item": "cup", "least": 2}, {"item": "pen", "least": 7}],
    ),
    "Sql queries its input": (
        "- {type: Sql, config: {query: 'SELECT MAX(n) AS most FROM PCOLLECTION'}}",
        [{"most": 7}],
    ),
    "Explode makes a row of each value": (
        """
  - {type: MapToFields, config: {language: python, fields: {item: item, k: "list(range(n - 1))"}}}
  - {type: Filter, config: {language: python, keep: item == "cup"}}
  - {type: Explode, config: {fields: k}}
        """,
        [{"item": "cup", "k": 0}, {"item": "cup", "k": 0}, {"item": "cup", "k": 1}],
    ),
    "Explode pairs the values of several fields, or crosses them": (
        """
  - type: MapToFields
    config: {language: python, fields: {a: "[n, 8]", b: "[[1], [2]]", c: "[3]"}}
  - {type: Explode, config: {fields: [a, b], cross_product: false}}
  - {type: Explode, config: {fields: [b, c], cross_product: true}}
        """,
        [{"a": a, "b": b, "c": 3} for n in (2, 3, 7) for a, b in ((n, 1), (8, 2))],
    ),
    "AssignTimestamps and WindowInto put rows into windows": (
        """
  - {type: AssignTimestamps, config: {timestamp: n}}
  - {type: WindowInto, config: {windowing: {type: fixed, size: 5s}}}
  - {type: Combine, config: {group_by: [], combine: {n: sum}}}
  - {type: ExtractWindowingInfo, config: {fields: [window_start, window_end]}}
        """,
        [
            {"n": 5, "window_start": Timestamp(0), "window_end": Timestamp(5)},
            {"n": 7, "window_start": Timestamp(5), "window_end": Timestamp(10)},
        ],
    ),
    "AssignTimestamps in Python before sliding windows": (
        """
  - {type: AssignTimestamps, config: {language: python, timestamp: n * 60}}
  - type: Combine
    windowing: {type: sliding, size: 4m, period: 2m}
    config: {group_by: item, combine: {n: sum}}
  - {type: Filter, config: {language: python, keep: item == "cup"}}
  - {type: ExtractWindowingInfo, config: {fields: {begin: window_start, kind: window_type}}}
        """,
        [
            {"item": "cup", "n": n, "begin": Timestamp(start), "kind": "IntervalWindow"}
            for n, start in ((5, 0), (5, 120))
        ],
    ),
    "sessions, and the time of what they make": (
        """
  - {type: AssignTimestamps, config: {language: python, timestamp: float(n)}}
  - type: Combine
    windowing: {type: sessions, gap: 3}
    config: {group_by: [], combine: {n: sum}}
  - {type: ExtractWindowingInfo, config: {fields: [timestamp, window_string]}}
        """,
        [
            {"n": 5, "timestamp": Timestamp(5.999), "window_string": "[2.0, 6.0)"},
            {"n": 7, "timestamp": Timestamp(9.999), "window_string": "[7.0, 10.0)"},
        ],
    ),
    "windowing of the first transform concerns its rows": (
        """
  - {type: WindowInto, config: {windowing: {type: global}}}
  - {type: Reshuffle, config: {num_buckets: 2}}
  - {type: ExtractWindowingInfo, config: {fields: [window_type]}}
        """,
        [
            {"item": item, "n": n, "window_type": "GlobalWindow"}
            for item, n in (("cup", 2), ("cup", 3), ("pen", 7))
        ],
    ),
    "LogForTesting passes rows on": (
        "- {type: LogForTesting, config: {level: DEBUG, prefix: 'row '}}",
        [{"item": "cup", "n": 2}, {"item": "cup", "n": 3}, {"item": "pen", "n": 7}],
    ),
    "ValidateWithSchema passes rows on that are right": (
        """
  - type: ValidateWithSchema
    config: {schema: {type: object, properties: {n: {type: integer, minimum: 2}}}}
        """,
        [{"item": "cup", "n": 2}, {"item": "cup", "n": 3}, {"item": "pen", "n": 7}],
    ),
    "output_schema is checked after any transform": (
        """
  - type: MapToFields
    config:
      language: python
      fields: {n: n}
      output_schema: {type: object, properties: {n: {type: integer, minimum: 1}}}
        """,
        [{"n": 2}, {"n": 3}, {"n": 7}],
    ),
    "PyTransform applies a transform of Beam": (
        """
  - {type: MapToFields, config: {fields: {item: item}}}
  - {type: PyTransform, config: {constructor: apache_beam.transforms.util.Distinct}}
        """,
        [{"item": "cup"}, {"item": "pen"}],
    ),
    "PyTransform applies a function in the file": (
        """
  - type: PyTransform
    config:
      constructor: __constructor__
      kwargs:
        source: |
          import apache_beam as beam
          def add(k):
            return beam.Map(lambda row: beam.Row(m=row.n + k)).with_output_types(
                beam.typehints.row_type.RowTypeConstraint.from_fields([("m", int)]))
        k: 100
  - {type: Filter, config: {keep: m > 102}}
        """,
        [{"m": 103}, {"m": 107}],
    ),
    "AnomalyDetection scores numbers": (
        """
  - type: PyTransform
    config:
      constructor: __callable__
      kwargs:
        source: |
          def keyed(rows):
            import apache_beam as beam
            return rows | beam.Map(lambda row: (row.item, beam.Row(n=float(row.n))))
  - type: AnomalyDetection
    config: {detector: {type: ZScore, config: {features: [n]}}}
  - type: PyTransform
    config:
      constructor: __callable__
      kwargs:
        source: |
          def plain(found):
            import apache_beam as beam
            return found | beam.MapTuple(lambda key, result: beam.Row(key=key, n=result.example.n))
        """,
        [{"key": "cup", "n": 2.0}, {"key": "cup", "n": 3.0}, {"key": "pen", "n": 7.0}],
    ),
}
"""The chain after :data:`SALES`, and its rows."""

GRAPHS: dict[str, tuple[str, Rows]] = {
    "Flatten has the rows of all inputs": (
        """
transforms:
  - {type: Create, name: A, config: {elements: [{a: 1}, {a: 2}]}}
  - {type: Create, name: B, config: {elements: [{a: 3}]}}
  - {type: Flatten, input: [A, B]}
output: Flatten
        """,
        [{"a": 1}, {"a": 2}, {"a": 3}],
    ),
    "Flatten fills the fields that an input has not": (
        """
transforms:
  - {type: Create, name: A, config: {elements: [{a: 1}]}}
  - {type: Create, name: B, config: {elements: [{b: x}]}}
  - {type: Flatten, input: [A, B]}
output: Flatten
        """,
        [{"a": 1, "b": None}, {"a": None, "b": "x"}],
    ),
    "a list of inputs is their union": (
        """
transforms:
  - {type: Create, name: A, config: {elements: [1]}}
  - {type: Create, name: B, config: {elements: [2]}}
  - {type: MapToFields, input: [A, B], config: {language: python, fields: {m: element + 1}}}
output: MapToFields
        """,
        [{"m": 2}, {"m": 3}],
    ),
    "Join pairs the rows of two inputs": (
        """
transforms:
  - {type: Create, name: L, config: {elements: [{k: 1, a: x}, {k: 2, a: y}]}}
  - {type: Create, name: R, config: {elements: [{k: 1, b: u}, {k: 3, b: v}]}}
  - type: Join
    input: {l: L, r: R}
    config: {type: inner, equalities: k, fields: {l: [k, a], r: {c: b}}}
output: Join
        """,
        [{"k": 1, "a": "x", "c": "u"}],
    ),
    "Join keeps rows without a partner": (
        """
transforms:
  - {type: Create, name: L, config: {elements: [{k: 1, a: x}, {k: 2, a: y}]}}
  - {type: Create, name: R, config: {elements: [{j: 1, b: u}]}}
  - type: Join
    input: {l: L, r: R}
    config: {type: left, equalities: [{l: k, r: j}], fields: {l: [a], r: [b]}}
output: Join
        """,
        [{"a": "x", "b": "u"}, {"a": "y", "b": None}],
    ),
    "Sql queries several inputs": (
        """
transforms:
  - {type: Create, name: L, config: {elements: [{k: 1, a: x}, {k: 2, a: y}]}}
  - {type: Create, name: R, config: {elements: [{k: 2, b: 5}]}}
  - type: Sql
    input: {l: L, r: R}
    config: {query: "SELECT l.a, r.b FROM l JOIN r ON l.k = r.k"}
output: Sql
        """,
        [{"a": "y", "b": 5}],
    ),
    "Partition has an output for each name": (
        """
transforms:
  - {type: Create, config: {elements: [{to: a, n: 1}, {to: b, n: 2}, {to: c, n: 3}]}}
  - {type: Partition, input: Create, config: {by: to, outputs: [a, b], unknown_output: rest}}
  - {type: MapToFields, name: A, input: Partition.a, config: {fields: {a: n}}}
  - {type: MapToFields, name: Rest, input: Partition.rest, config: {fields: {rest: n}}}
  - {type: Flatten, input: [A, Rest]}
output: Flatten
        """,
        [{"a": 1, "rest": None}, {"a": None, "rest": 3}],
    ),
    "Partition in Python": (
        """
transforms:
  - {type: Create, config: {elements: [{n: 1}, {n: 2}]}}
  - type: Partition
    input: Create
    config: {language: python, by: '"even" if n % 2 == 0 else "odd"', outputs: [even, odd]}
output: Partition.odd
        """,
        [{"n": 1}],
    ),
    "error_handling of each step gives rows, which StripErrorMetadata restores": (
        """
transforms:
  - {type: Create, config: {elements: [{n: 0}, {n: 2}]}}
  - type: MapToFields
    input: Create
    config: {language: python, fields: {h: 6 // n}, error_handling: {output: bad}}
  - {type: StripErrorMetadata, input: MapToFields.bad}
  - {type: Flatten, input: [MapToFields, StripErrorMetadata]}
output: Flatten
        """,
        [{"h": 3, "n": None}, {"h": None, "n": 0}],
    ),
    "error_handling tells the element and the error": (
        """
transforms:
  - {type: Create, config: {elements: [{n: 0}, {n: 2}]}}
  - type: Filter
    input: Create
    config: {language: python, keep: 6 // n > 1, error_handling: {output: bad}}
  - {type: MapToFields, input: Filter.bad, config: {fields: {element: element, msg: msg}}}
output: MapToFields
        """,
        [{"element": {"n": 0}, "msg": "ZeroDivisionError('integer division or modulo by zero')"}],
    ),
    "error_handling gets what the coder of the output refuses": (
        """
transforms:
  - {type: Create, config: {elements: [{n: 0}, {n: 2}, {n: 1}]}}
  - type: MapToFields
    input: Create
    config:
      language: python
      append: true
      fields:
        big: {expression: 2 ** (62 + (n == 2)), output_type: integer}
        text: {expression: chr(0x3042 + 0xa800 * (n == 1)), output_type: string}
      error_handling: {output: bad}
  - {type: MapToFields, name: Drop, input: MapToFields, config: {fields: {n: n, text: text}}}
  - {type: StripErrorMetadata, input: MapToFields.bad}
  - {type: Flatten, input: [Drop, StripErrorMetadata]}
output: Flatten
        """,
        [{"n": 0, "text": "あ"}, {"n": 1, "text": None}, {"n": 2, "text": None}],
    ),
    "error_handling gets errors whose texts no coder takes": (
        """
transforms:
  - {type: Create, config: {elements: [{n: 55296}, {n: 65}]}}
  - type: MapToFields
    input: Create
    config:
      language: python
      fields:
        m: {expression: "n if n < 99 else {}[chr(n)]", output_type: integer}
      error_handling: {output: bad}
  - {type: MapToFields, name: Told, input: MapToFields.bad, config: {fields: {msg: msg}}}
output: Told
        """,
        [{"msg": "KeyError('\\\\ud800')"}],
    ),
    "error_handling of ValidateWithSchema": (
        """
transforms:
  - {type: Create, config: {elements: [{n: 0}, {n: 2}]}}
  - type: ValidateWithSchema
    input: Create
    config:
      schema: {type: object, properties: {n: {type: integer, minimum: 1}}}
      error_handling: {output: bad}
  - {type: StripErrorMetadata, input: ValidateWithSchema.bad}
output: StripErrorMetadata
        """,
        [{"n": 0}],
    ),
    "error_handling of Partition": (
        """
transforms:
  - {type: Create, config: {elements: [{n: 1}, {n: 2}]}}
  - type: Partition
    input: Create
    config:
      language: python
      by: str(4 // (n - 2))
      outputs: ["-4"]
      error_handling: {output: bad}
  - {type: StripErrorMetadata, input: Partition.bad}
  - {type: MapToFields, input: Partition.-4, config: {fields: {m: n}}}
  - {type: Flatten, input: [StripErrorMetadata, MapToFields]}
output: Flatten
        """,
        [{"n": 2, "m": None}, {"n": None, "m": 1}],
    ),
    "error_handling of AssignTimestamps": (
        """
transforms:
  - {type: Create, config: {elements: [{n: 0}, {n: 1}]}}
  - type: AssignTimestamps
    input: Create
    config: {language: python, timestamp: 6 // n, error_handling: {output: bad}}
  - {type: StripErrorMetadata, input: AssignTimestamps.bad}
output: StripErrorMetadata
        """,
        [{"n": 0}],
    ),
    "a composite has inputs and outputs": (
        """
transforms:
  - {type: Create, config: {elements: [{n: 1}, {n: 2}]}}
  - type: composite
    name: Twice
    input: {rows: Create}
    transforms:
      - {type: MapToFields, name: D, input: rows, config: {language: python, fields: {n: n * 2}}}
      - {type: Filter, input: D, config: {keep: n > 2}}
    output: {all: D, large: Filter}
  - type: chain
    name: Rest
    input: Twice.large
    transforms:
      - {type: MapToFields, config: {language: python, fields: {n: n + 1}}}
  - {type: Flatten, input: [Rest, Twice.all]}
output: Flatten
        """,
        [{"n": 5}, {"n": 2}, {"n": 4}],
    ),
    "a chain has a source and a sink": (
        """
transforms:
  - type: chain
    source: {type: Create, config: {elements: [{n: 1}]}}
    transforms:
      - {type: MapToFields, config: {language: python, fields: {n: n + 1}}}
    sink: {type: AssertEqual, config: {elements: [{n: 2}]}}
  - {type: Create, name: Last, config: {elements: [{a: 1}]}}
output: Last
        """,
        [{"a": 1}],
    ),
    "a provider in Python": (
        """
providers:
  - type: python
    config: {}
    transforms:
      Twice: |
        @beam.ptransform_fn
        def twice(rows, field):
          return rows | beam.Map(lambda row: beam.Row(m=2 * getattr(row, field)))
      Seven: "lambda: beam.Create([beam.Row(n=7)], reshuffle=False)"
transforms:
  - {type: Seven, input: {}}
  - {type: Twice, input: Seven, config: {field: n}}
output: Twice
        """,
        [{"m": 14}],
    ),
    "a provider in YAML": (
        """
providers:
  - type: yaml
    config: {}
    transforms:
      Above:
        config_schema: {properties: {least: {type: integer}}}
        body:
          type: chain
          transforms:
            - type: Filter
              config: {language: python, keep: "n > {{least}}"}
            - {type: MapToFields, config: {fields: {m: n}}}
transforms:
  - {type: Create, config: {elements: [{n: 1}, {n: 5}]}}
  - {type: Above, input: Create, config: {least: 3}}
output: Above
        """,
        [{"m": 5}],
    ),
    "a provider that renames the arguments of another": (
        """
providers:
  - type: renaming
    transforms: {Only: Filtered}
    config:
      mappings: {Only: {when: keep}}
      underlying_provider:
        type: python
        config: {}
        transforms: {Filtered: "lambda keep: beam.Filter(lambda row: row.n == keep)"}
transforms:
  - {type: Create, config: {elements: [{n: 1}, {n: 5}]}}
  - {type: Only, input: Create, config: {when: 5}}
output: Only
        """,
        [{"n": 5}],
    ),
}
"""A composite, and the rows of its output."""

FILES: dict[str, tuple[str, str, Rows]] = {
    "Text": ("{path: PATH}", "{path: PATH*}", [{"line": "cup"}, {"line": "cup"}, {"line": "pen"}]),
    "TFRecord": (
        "{file_path_prefix: PATH}",
        "{file_pattern: PATH*}",
        [{"record": b"cup"}, {"record": b"cup"}, {"record": b"pen"}],
    ),
    **{
        kind: ("{path: PATH}", "{path: PATH*}", [{"item": "cup"}, {"item": "cup"}, {"item": "pen"}])
        for kind in ("Csv", "Json", "Parquet", "Avro")
    },
}
"""The configurations to write and read items, and the rows that are read."""

JAVASCRIPT: dict[str, tuple[str, Rows]] = {
    "MapToFields and Filter": (
        """
  - type: MapToFields
    config: {language: javascript, fields: {m: {expression: n * 2, output_type: number}}}
  - {type: Filter, config: {language: javascript, keep: m > 4}}
        """,
        [{"m": 6}, {"m": 14}],
    ),
    "Combine": (
        """
  - type: Combine
    config: {language: javascript, group_by: item, combine: {n: {value: n + 1, fn: sum}}}
        """,
        [{"item": "cup", "n": 7}, {"item": "pen", "n": 8}],
    ),
    "AssignTimestamps": (
        """
  - {type: AssignTimestamps, config: {language: javascript, timestamp: n * 2}}
  - {type: ExtractWindowingInfo, config: {fields: [timestamp]}}
  - {type: MapToFields, config: {fields: {at: timestamp}}}
        """,
        [{"at": Timestamp(4)}, {"at": Timestamp(6)}, {"at": Timestamp(14)}],
    ),
}

ELSEWHERE = {
    "Enrichment": "needs Google's packages",
    "DicomSearch": "needs Google's packages",
    "ReadFromBigQuery": "needs Google's packages",
    "PubSub": "packages/pubsub/tests/test_pubsub.py",
    "MongoDB": "tests/io/test_mongodb.py",
    "MLTransform": "tests/test_models.py",
    "RunInference": "tests/test_models.py",
    "Kafka": "packages/kafka/tests",
    "Jdbc": "packages/tables/tests",
    "Postgres": "packages/tables/tests",
    "MySql": "packages/tables/tests",
    "Oracle": "packages/tables/tests",
    "SqlServer": "packages/tables/tests",
    "Iceberg": "packages/tables/tests/test_iceberg.py",
    "IcebergCDC": "packages/tables/tests/test_iceberg_changes.py",
    "Delta": "packages/tables/tests/test_managed_delta.py",
    "DeltaCDC": "packages/tables/tests/test_managed_delta.py",
}
"""Where types are tested that are not tested here, or why they are not."""


def loaded(text: str) -> Any:
    return yaml.load(text, Loader=yaml_utils.SafeLineLoader)


def plain(value: Any) -> Any:
    if hasattr(value, "_asdict"):
        return {name: plain(field) for name, field in value._asdict().items()}
    return [plain(each) for each in value] if isinstance(value, list) else value


def check(spark: Any, text: str, expected: Rows, *options: str) -> None:
    spec = loaded(text)
    found = yaml_provider.parse_providers("", spec.pop("providers", []))
    spec.setdefault("type", "composite")
    pipeline_options = PipelineOptions(options, pickle_library="cloudpickle")
    with beam.Pipeline(runner=SparkRunner(spark), options=pipeline_options) as pipeline:
        rows = pipeline | yaml_transform.YamlTransform(
            spec, providers=yaml_provider.merge_providers(found)
        )
        assert_that(rows | "Plain" >> beam.Map(plain), equal_to(expected))


@pytest.mark.part(5)
@pytest.mark.parametrize("name", CHAINS)
def test_chain(spark: Any, name: str) -> None:
    text, expected = CHAINS[name]
    check(spark, f"{SALES}\n  {text.strip()}", expected)


@pytest.mark.part(3)
@pytest.mark.parametrize("name", GRAPHS)
def test_graph(spark: Any, name: str) -> None:
    check(spark, *GRAPHS[name])


@pytest.mark.parametrize("name", JAVASCRIPT)
def test_javascript(spark: Any, name: str) -> None:
    pytest.importorskip("quickjs")
    text, expected = JAVASCRIPT[name]
    feature = "--yaml_experimental_features=javascript"
    check(spark, f"{SALES}\n  {text.strip()}", expected, feature)


def test_partition_in_javascript(spark: Any) -> None:
    pytest.importorskip("quickjs")
    text = """
transforms:
  - {type: Create, config: {elements: [{n: 1}, {n: 2}]}}
  - type: Partition
    input: Create
    config: {language: javascript, by: 'n > 1 ? "more" : "one"', outputs: [one, more]}
output: Partition.more
"""
    check(spark, text, [{"n": 2}], "--yaml_experimental_features=javascript")


@pytest.mark.part(5)
@pytest.mark.parametrize("kind", FILES)
def test_files_that_are_written_can_be_read(spark: Any, tmp_path: Path, kind: str) -> None:
    to, of, expected = FILES[kind]
    to, of = (config.replace("PATH", f"{tmp_path}/out") for config in (to, of))
    items = "item.encode()" if kind == "TFRecord" else "item"
    fields = f"- {{type: MapToFields, config: {{language: python, fields: {{item: {items}}}}}}}"
    text = f"{SALES}\n  {fields}\n  - {{type: WriteTo{kind}, config: {to}}}"
    with beam.Pipeline(runner=SparkRunner(spark)) as pipeline:
        _ = pipeline | yaml_transform.YamlTransform(loaded(text))
    read = f"type: chain\ntransforms: [{{type: ReadFrom{kind}, config: {of}}}]"
    check(spark, read, expected)


def test_match_all_finds_files(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("12345")
    text = f"""
type: chain
transforms:
  - {{type: Create, config: {{elements: [{{pattern: "{tmp_path}/*.txt"}}]}}}}
  - {{type: MatchAll, config: {{file_pattern: pattern}}}}
  - {{type: MapToFields, config: {{fields: {{size: size_in_bytes}}}}}}
"""
    check(spark, text, [{"size": 5}])


def test_csv_has_a_delimiter_and_a_column_of_names(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("item;n\ncup;2\npen;7\n")
    config = f"{{path: '{tmp_path}/a.csv', delimiter: ';', filename_column: file}}"
    text = f"""
type: chain
transforms:
  - {{type: ReadFromCsv, config: {config}}}
  - {{type: MapToFields, config: {{language: python, fields: {{n: n, file: "file[-5:]"}}}}}}
"""
    check(spark, text, [{"n": 2, "file": "a.csv"}, {"n": 7, "file": "a.csv"}])


def test_a_wrong_row_fails_assert_equal(spark: Any) -> None:
    wrong = f"{SALES}\n  - {{type: AssertEqual, config: {{elements: [{{item: cup, n: 2}}]}}}}"
    with (
        pytest.raises(Exception, match="AssertEqual"),
        beam.Pipeline(runner=SparkRunner(spark)) as pipeline,
    ):
        _ = pipeline | yaml_transform.YamlTransform(loaded(wrong))


def types_in(spec: Any) -> Iterator[str]:
    """Types of a preprocessed transform and of those within it."""
    yield spec["type"]
    for each in spec.get("transforms", []):
        yield from types_in(each)


def test_each_type_without_java_is_tested() -> None:
    chains = [f"{SALES}\n  {text.strip()}" for text, _ in (CHAINS | JAVASCRIPT).values()]
    tested = {f"{way}{kind}" for kind in FILES for way in ("ReadFrom", "WriteTo")}
    tested |= {"MatchAll", "Partition-javascript"}
    kinds = yaml_provider.standard_providers()
    for text in [*chains, *(text for text, _ in GRAPHS.values())]:
        spec = {"type": "composite", **loaded(text)}
        if "providers" not in spec:
            tested |= {*types_in(yaml_transform.preprocess(spec, known_transforms=kinds))}
    java = yaml_provider.ExternalJavaProvider
    runnable = {
        kind
        for kind, providers in kinds.items()
        if not all(isinstance(native(kind, p).underlying_provider(), java) for p in providers)
    }
    rest = {kind for kind in runnable if kind not in tested}
    assert {k.removeprefix("ReadFrom").removeprefix("WriteTo") for k in rest} - {*ELSEWHERE} == {
        "BigQuery"
    }
