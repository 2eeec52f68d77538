"""The values of a group: a list while small, encoded when larger, in a file when large.

A DoFn sees a plain list for a small group. For larger groups it gets an iterable that decodes on
demand, any number of times. Such a group is never in memory as a whole, and its objects are not
alive all at once.
"""

import itertools
import operator
import struct
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import IO, Any

from apache_beam.coders import coder_impl, observable

SPILL_BYTES = 32 << 20
"""Approximate memory of a group's values above which they are kept in a file."""

_VALUE_BYTES = 50
"""Memory of a value beyond its encoding, in bytes."""

LIST_BYTES = 64 << 10
"""Maximum encoded size of a group that is a list, in bytes."""

_COUNT = struct.Struct(">i")


class RunCoder:
    """Coder of runs of elements: a count, then each element in its nested form.

    The same bytes as Beam's iterable coder gives, which does the work in C.
    """

    def __init__(self, element: coder_impl.CoderImpl) -> None:
        self.element = element
        self._iterable = coder_impl.IterableCoderImpl(element)
        self._at_once = isinstance(element, _SMALL_VALUES)

    def encode(self, elements: Sequence[Any]) -> bytes:
        """Encode elements that are still Python objects."""
        return self._iterable.encode(elements)

    @staticmethod
    def join(encoded: Sequence[bytes]) -> bytes:
        """Encode elements that are already in their nested form."""
        return RunCoder.of(len(encoded), b"".join(encoded))

    @staticmethod
    def of(count: int, encoded: bytes) -> bytes:
        """Concatenate elements that are already in their nested form."""
        return _COUNT.pack(count) + encoded

    def decode(self, run: bytes) -> list[Any]:
        """Return all elements of a run."""
        return self._iterable.decode(run)

    def stream(self, run: bytes) -> Iterator[Any]:
        """Yield the elements one after the other; only small ones are decoded all at once."""
        if self._at_once:
            yield from self.decode(run)
            return
        stream = coder_impl.create_InputStream(run)
        stream.read(_COUNT.size)
        decode = self.element.decode_from_stream
        for _ in range(self.count(run)):
            yield decode(stream, True)

    @staticmethod
    def count(run: bytes) -> int:
        """Return the number of elements, without decoding them."""
        return _COUNT.unpack_from(run)[0]


_SMALL_VALUES = (
    coder_impl.BooleanCoderImpl,
    coder_impl.FloatCoderImpl,
    coder_impl.VarIntCoderImpl,
)


class GroupValues(observable.ObservableMixin, ABC):
    """The values of a group beyond the size of a list.

    It can be iterated any number of times, by several iterators at once. It is
    equal to a list of the same values.
    """

    def __init__(self, coder: RunCoder, count: int) -> None:
        super().__init__()
        self._coder = coder
        self._count = count

    @abstractmethod
    def _runs(self) -> Iterator[bytes]:
        """Yield the encoded runs."""

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Any]:
        for run in self._runs():
            yield from self._coder.stream(run)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, list | GroupValues):
            return NotImplemented
        return len(self) == len(other) and all(map(operator.eq, self, other))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        first = ", ".join(map(repr, itertools.islice(self, 3)))
        return f"[{first}, ... {len(self)} values]"

    def __reduce__(self) -> tuple[type, tuple[list[Any]]]:
        return list, (list(self),)


class EncodedValues(GroupValues):
    """Values that are decoded when read."""

    def __init__(self, coder: RunCoder, runs: list[bytes]) -> None:
        super().__init__(coder, sum(map(coder.count, runs)))
        self._encoded = runs

    def _runs(self) -> Iterator[bytes]:
        return iter(self._encoded)


class SpilledValues(GroupValues):
    """Values in a temporary file, which dies with the object."""

    def __init__(self, coder: RunCoder) -> None:
        super().__init__(coder, 0)
        # It lives as long as the iterable, which the user's code may keep.
        self._file: IO[bytes] = tempfile.TemporaryFile(prefix="sparkbeam-group-")  # noqa: SIM115

    def append(self, run: bytes) -> None:
        """Add an encoded run; only while the group is being read."""
        self._file.write(_COUNT.pack(len(run)))
        self._file.write(run)
        self._count += self._coder.count(run)

    def _runs(self) -> Iterator[bytes]:
        self._file.flush()
        position = 0
        while True:
            self._file.seek(position)
            header = self._file.read(_COUNT.size)
            if not header:
                self._file.seek(0, 2)
                return
            (size,) = _COUNT.unpack(header)
            run = self._file.read(size)
            position += _COUNT.size + size
            yield run


for _kind in (EncodedValues, SpilledValues):
    coder_impl.FastPrimitivesCoderImpl.register_iterable_like_type(_kind)


class ValuesBuilder:
    """Builder of the values of one group."""

    def __init__(self, coder: RunCoder) -> None:
        self._coder = coder
        self._runs: list[bytes] = []
        self.bytes = 0
        """Approximate memory of the values."""
        self._encoded = 0
        self._spilled: SpilledValues | None = None

    def append(self, run: bytes) -> None:
        """Add an encoded run."""
        if self._spilled is not None:
            self._spilled.append(run)
            return
        self._runs.append(run)
        self._encoded += len(run)
        self.bytes += len(run) + _VALUE_BYTES * self._coder.count(run)
        if self.bytes > SPILL_BYTES:
            self._spilled = SpilledValues(self._coder)
            for earlier in self._runs:
                self._spilled.append(earlier)
            self._runs = []

    def extend(self, other: "ValuesBuilder") -> None:
        """Add the values of another builder, which is not used afterwards."""
        for run in other._runs if other._spilled is None else other._spilled._runs():
            self.append(run)

    def values(self) -> list[Any] | GroupValues:
        """Return the group's values; the builder is not used afterwards."""
        if self._spilled is not None:
            return self._spilled
        if self._encoded > LIST_BYTES:
            return EncodedValues(self._coder, self._runs)
        if len(self._runs) == 1:
            return self._coder.decode(self._runs[0])
        return [value for run in self._runs for value in self._coder.decode(run)]
