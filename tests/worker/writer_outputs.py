"""Parameters of writers of rows, for tests of single ones."""

from typing import Any

from apache_beam.coders import coders
from apache_beam.transforms.core import Windowing

from sparkbeam.plan.model import Port
from sparkbeam.plan.row_formats import RowFormat
from sparkbeam.worker.row_formats.row_writer import WriterParameters


def output(
    rows: Any, format: RowFormat, coder: coders.WindowedValueCoder, windowing: Windowing
) -> WriterParameters:
    """Those of a port with some tag, whose rows ``rows`` takes."""
    return WriterParameters(Port(1, "", format, ""), rows, coder, windowing)
