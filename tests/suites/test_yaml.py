"""Beam's own tests of Beam YAML."""

from beam_suites import suite

for module in (
    "programming_guide_test",
    "yaml_combine_test",
    "yaml_io_test",
    "yaml_mapping_test",
    "yaml_testing_test",
    "yaml_transform_test",
    "yaml_udf_test",
):
    globals().update(suite(f"apache_beam.yaml.{module}"))
