"""Coders whose bytes stand in the order of their values, for the keys of sorted state.

============================  ================================================================
:class:`OrderedBoolCoder`     False before True
:class:`OrderedIntCoder`      whole numbers of any size
:class:`OrderedFloatCoder`    from -inf to inf; -0.0 is 0.0, and NaN is an error
:class:`OrderedDecimalCoder`  by value: 1.0 and 1.00 are one key
:class:`OrderedStrCoder`      by code points, as Python compares texts
:class:`OrderedBytesCoder`    as Python compares them
:class:`OrderedDateCoder`     dates
:class:`OrderedDatetimeCoder` by instant with a time zone, by wall clock without one
:class:`OrderedTimestampCoder`  Beam's timestamps, to the microsecond
:class:`OrderedTupleCoder`    tuples and NamedTuples, part by part
:class:`OrderedOptionalCoder` None before all else
:class:`Descending`           the other way round
============================  ================================================================

:func:`ordered_coder` finds the one for a type. Each encoding ends by itself: none is the beginning
of another one, so that encodings may follow each other in a tuple, and be turned round.
"""

from sparkbeam.coders.composed import (
    Descending,
    OrderedOptionalCoder,
    OrderedTupleCoder,
    ordered_coder,
    preserves_order,
)
from sparkbeam.coders.scalar import (
    OrderedBoolCoder,
    OrderedBytesCoder,
    OrderedDateCoder,
    OrderedDatetimeCoder,
    OrderedDecimalCoder,
    OrderedFloatCoder,
    OrderedIntCoder,
    OrderedStrCoder,
    OrderedTimestampCoder,
)

__all__ = [
    "Descending",
    "OrderedBoolCoder",
    "OrderedBytesCoder",
    "OrderedDateCoder",
    "OrderedDatetimeCoder",
    "OrderedDecimalCoder",
    "OrderedFloatCoder",
    "OrderedIntCoder",
    "OrderedOptionalCoder",
    "OrderedStrCoder",
    "OrderedTimestampCoder",
    "OrderedTupleCoder",
    "ordered_coder",
    "preserves_order",
]
