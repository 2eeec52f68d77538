"""Beam's own tests of its connectors to files, and of sources and sinks in general."""

import pytest
from beam_suites import suite

pytestmark = pytest.mark.part(8)

for module in (
    "avroio_test",
    "concat_source_test",
    "filebasedsink_test",
    "filebasedsource_test",
    "fileio_test",
    "iobase_it_test",
    "iobase_test",
    "parquetio_test",
    "sources_test",
    "textio_test",
    "tfrecordio_test",
    "unbounded_source_test",
    "watch_test",
):
    globals().update(suite(f"apache_beam.io.{module}"))
