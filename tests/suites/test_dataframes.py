"""Beam's own tests of its DataFrame API."""

from beam_suites import suite

for module in ("convert_test", "io_test", "schemas_test", "transforms_test"):
    globals().update(suite(f"apache_beam.dataframe.{module}"))
