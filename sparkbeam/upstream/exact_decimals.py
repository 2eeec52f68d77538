"""Beam's coder of decimals without rounding.

Beam computes with the precision of the current decimal context, by default 28 digits.
"""

import decimal
from decimal import Decimal
from typing import Any

from apache_beam.coders import coder_impl, coders

_EXACT = decimal.Context(
    prec=decimal.MAX_PREC, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN, traps=[]
)
_INTEGERS = coder_impl.BigIntegerCoderImpl()


class ExactDecimals(coder_impl.StreamCoderImpl):
    """Coder of decimals with Beam's encoding."""

    def encode_to_stream(self, value: Decimal, out: Any, nested: bool) -> None:
        """Write a decimal.

        Raises:
            ValueError: it is infinite or not a number.
        """
        if not value.is_finite():
            raise ValueError(f"Beam's coder of decimals cannot encode {value}, only finite numbers")
        scale = -int(value.as_tuple().exponent)
        out.write_var_int64(scale)
        _INTEGERS.encode_to_stream(int(value.scaleb(scale, _EXACT)), out, nested)

    def decode_from_stream(self, in_stream: Any, nested: bool) -> Decimal:
        """Read a decimal."""
        scale = in_stream.read_var_int64()
        number = Decimal(_INTEGERS.decode_from_stream(in_stream, nested))
        return number.scaleb(-scale, _EXACT)


def install() -> None:
    """Make all coders of decimals exact that are created from now on."""
    setattr(coders.DecimalCoder, "_create_impl", lambda self: ExactDecimals())  # noqa: B010
