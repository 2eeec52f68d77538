"""Wrong settings and options of Nexmark, in the table beside this module."""

import misuse

from beam_nexmark.configuration import Configuration
from beam_nexmark.datasource import NexmarkDataSource
from beam_nexmark.engine import prepared


@misuse.table(__file__)
def test_a_wrong_call_is_an_error(call: misuse.Call) -> None:
    misuse.check(call, globals())
