"""Joins whose sides are columns give what they give of elements."""

from pathlib import Path
from typing import Any

import pytest
import tablejoins
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from in_process_batch import BatchRunner
from tablejoins import KINDS, results, written

from sparkbeam import SparkRunner
from sparkbeam.plan.join_payload import HOWS
from sparkbeam.upstream.spark import ship


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    written(tmp_path)
    return tmp_path


OF_A_CLASS_OF_THE_CODER = {"rows"}
"""Elements that Beam's own runner hands on without the coder that makes others of them."""


@pytest.mark.part(4)  # Each other kind, with a half of the joins.
@pytest.mark.parametrize("kind", sorted(KINDS.keys() - OF_A_CLASS_OF_THE_CODER))
@pytest.mark.parametrize("hows", [HOWS[:3], HOWS[3:]], ids=" ".join)
def test_columns_are_joined_as_beam_joins_elements(
    hows: tuple[str, ...], kind: str, tables: Path
) -> None:
    expected = results(FnApiRunner(), tables, f"{kind}, ", hows=hows)
    assert expected
    assert results(BatchRunner(), tables, f"{kind}, ", hows=hows) == expected


@pytest.mark.part(2)
@pytest.mark.parametrize("kind", ["dicts", "mixed right", "none", "None", "sales", "sliding"])
def test_what_has_no_partner_may_be_left_out(kind: str, tables: Path) -> None:
    expected = results(BatchRunner(), tables, f"{kind}, ")
    assert results(BatchRunner(looks=True), tables, f"{kind}, ") == expected


@pytest.mark.parametrize("kind", ["rows", "mixed"])
def test_without_columns_it_is_the_same(kind: str, tables: Path) -> None:
    expected = results(BatchRunner(), tables, f"{kind}, ")
    assert results(BatchRunner(), tables, f"{kind}, ", "--columns=off") == expected


@pytest.mark.part(2)
@pytest.mark.parametrize("only", ["mixed, outer", "sales right, right", "sliding, left"])
def test_spark_joins_columns(only: str, tables: Path, spark: Any) -> None:
    ship(spark, tablejoins.__file__, module=True)
    expected = results(BatchRunner(), tables, only)
    assert results(SparkRunner(spark), tables, only) == expected
