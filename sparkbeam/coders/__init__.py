"""Order-preserving coders, for the keys of sorted state.

============================  ================================================================
:class:`OrderedBoolCoder`     False before True
:class:`OrderedIntCoder`      integers of any size
:class:`OrderedFloatCoder`    from -inf to inf; -0.0 becomes 0.0, and NaN is an error
:class:`OrderedDecimalCoder`  by value: 1.0 and 1.00 are one key
:class:`OrderedStrCoder`      by code points, as Python compares strings
:class:`OrderedBytesCoder`    as Python compares them
:class:`OrderedDateCoder`     dates
:class:`OrderedDatetimeCoder` by instant with a time zone, by wall clock without one
:class:`OrderedTimestampCoder`  Beam's timestamps, to the microsecond
:class:`OrderedTupleCoder`    tuples and NamedTuples, part by part
:class:`OrderedOptionalCoder` None before all values
:class:`Descending`           reversed order
============================  ================================================================

:func:`ordered_coder` returns the coder of a type. Encodings are self-delimiting: none is a prefix
of another, so that they can be concatenated in a tuple, and reversed.
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
