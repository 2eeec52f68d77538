"""Files of words, in the formats that Beam reads and writes."""

import gzip
from functools import partial
from pathlib import Path

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
from apache_beam.io.tfrecordio import _TFRecordUtil

AVRO = {"type": "record", "name": "Word", "fields": [{"name": "word", "type": "string"}]}
COLUMNS = pa.schema([("word", pa.string())])


def place(path: Path, *words: str) -> None:
    """Make a file that is there as a whole at once, in the format of its extension."""
    path.parent.mkdir(exist_ok=True)
    hidden = path.with_name(f".{path.name}")
    if path.suffix == ".parquet":
        pq.write_table(pa.table({"word": words}), hidden)
    elif path.suffix == ".avro":
        with hidden.open("wb") as file:
            fastavro.writer(file, AVRO, [{"word": word} for word in words])
    else:
        hidden.write_text("".join(f"{word}\n" for word in words))
    hidden.rename(path)


def read(path: Path) -> list[str]:
    """Return the words of a file, in the format of its extension; lines may be of JSON."""
    if path.suffix == ".parquet":
        return [row["word"] for row in pq.read_table(path).to_pylist()]
    if path.suffix == ".avro":
        with path.open("rb") as file:
            return [str(row["word"]) for row in fastavro.reader(file) if isinstance(row, dict)]
    if path.suffix == ".tfrecord":
        with path.open("rb") as file:
            records = iter(partial(_TFRecordUtil.read_record, file), None)
            return [record.decode() for record in records]
    packed = path.read_bytes()
    content = (gzip.decompress(packed) if path.suffix == ".gz" else packed).decode()
    return [line.removeprefix('{"word":"').removesuffix('"}') for line in content.splitlines()]
