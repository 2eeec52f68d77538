"""Whatever is given as an option, it is taken or told in a short error that names the option."""

import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from hypothesis import given
from hypothesis import strategies as st
from odd import ANYTHING, FEW, TEXTS, assert_short

from sparkbeam import ConfigurationError, SparkBeamOptions
from sparkbeam.options.spark_options import checked, log_levels, settings
from sparkbeam.spark import session as sessions

NAMES = sorted(SparkBeamOptions([]).get_all_options(current_only=True))
WITH_VALUE = [name for name in NAMES if name != "spark_explain"]


def check(options: PipelineOptions, name: str) -> None:
    try:
        view = checked(options)
    except ConfigurationError as error:
        assert_short(str(error), f"--{name}")
        return
    # What is taken is understood.
    settings(view)
    log_levels(options)
    if view.spark_master:
        sessions._local_cores(view.spark_master)


@pytest.mark.parametrize("name", [*WITH_VALUE, "default_sdk_harness_log_level"])
@FEW
@given(value=TEXTS)
def test_on_the_command_line(name: str, value: str) -> None:
    check(PipelineOptions([f"--{name}={value}"]), name)


@pytest.mark.parametrize("name", [name for name in WITH_VALUE if name != "spark_page"])
def test_without_a_value(name: str) -> None:
    with pytest.raises(ConfigurationError, match=f"--{name}") as caught:
        checked(PipelineOptions([f"--{name}"]))
    assert_short(str(caught.value))


@pytest.mark.parametrize("name", NAMES)
@FEW
@given(value=ANYTHING)
def test_as_an_argument_of_python(name: str, value: object) -> None:
    check(PipelineOptions([], **{name: value}), name)


@FEW
@given(flags=st.lists(TEXTS.map(lambda text: f"--{text}"), max_size=3))
def test_names_of_options(flags: list[str]) -> None:
    check(PipelineOptions(flags), "")


MASTERS = ["local", "local[*]", "local[4, 2]", "local-cluster[2,1,1024]", "yarn"]
KNOWN = {
    "trigger": ["0 seconds", "10 seconds", "1 minute", "available-now"],
    "spark_master": [*MASTERS, "spark://a:7077,b:7077", "k8s://https://host:443"],
}


@pytest.mark.parametrize(("name", "value"), [(n, value) for n in KNOWN for value in KNOWN[n]])
def test_what_spark_knows_is_taken(name: str, value: str) -> None:
    assert getattr(checked(PipelineOptions([f"--{name}={value}"])), name) == value


@FEW
@given(address=TEXTS)
def test_an_address_where_nobody_listens(address: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        sessions._require_answer(f"spark://127.0.0.1:9{address}", "--spark_master")
    assert_short(str(caught.value), "--spark_master")
