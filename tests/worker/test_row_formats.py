"""Each format of rows is written and described in one module."""

import sys

import pytest

from sparkbeam.plan.row_formats import RowFormat
from sparkbeam.worker.format_registry import READERS, WRITERS


def test_each_format_has_a_writer_and_some_a_reader_of_all_elements() -> None:
    assert WRITERS.keys() == set(RowFormat.__subclasses__())
    assert READERS.keys() < WRITERS.keys()


@pytest.mark.parametrize("column", ["key", "ord", "value"])
@pytest.mark.parametrize("format", WRITERS)
def test_the_module_of_a_format_describes_its_rows(format: type[RowFormat], column: str) -> None:
    module = sys.modules[WRITERS[format].__module__]
    assert f"``{column}``" in (module.__doc__ or "")


@pytest.mark.parametrize("format", WRITERS)
def test_readers_and_writers_of_a_format_are_in_its_module(format: type[RowFormat]) -> None:
    if format in READERS:
        assert READERS[format].__module__ == WRITERS[format].__module__
