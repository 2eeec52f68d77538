"""The values of a group: a list while small, a file when large.

A DoFn sees a plain list for a small group. A large one is a
:class:`SpilledValues`: re-iterable, sized, and never in memory as a whole.
"""

import struct
import tempfile
from collections.abc import Iterator, Sequence
from typing import IO, Any

from apache_beam.coders import coder_impl, observable

SPILL_BYTES = 32 << 20
"""A group whose values would take about this many bytes of memory is kept in a file."""

_VALUE_BYTES = 50
"""What a value takes in memory beyond its encoding."""

_COUNT = struct.Struct(">i")


class RunCoder:
    """Encodes runs of elements: a count, then each element in its nested form.

    The same bytes as Beam's iterable coder gives, which does the work in C.
    """

    def __init__(self, element: coder_impl.CoderImpl) -> None:
        self.element = element
        self._iterable = coder_impl.IterableCoderImpl(element)

    def encode(self, elements: Sequence[Any]) -> bytes:
        """Encodes elements that are still Python objects."""
        return self._iterable.encode(elements)

    @staticmethod
    def join(encoded: Sequence[bytes]) -> bytes:
        """Encodes elements that are already in their nested form."""
        return _COUNT.pack(len(encoded)) + b"".join(encoded)

    def decode(self, run: bytes) -> list[Any]:
        """All elements of a run."""
        return self._iterable.decode(run)

    @staticmethod
    def count(run: bytes) -> int:
        """The number of elements, without decoding them."""
        return _COUNT.unpack_from(run)[0]


class SpilledValues(observable.ObservableMixin):
    """The values of a large group, in a temporary file that dies with the object.

    It can be iterated any number of times, by several iterators at once.
    """

    def __init__(self, coder: RunCoder) -> None:
        super().__init__()
        self._coder = coder
        # It lives as long as the iterable, which the user's code may keep.
        self._file: IO[bytes] = tempfile.TemporaryFile(prefix="sparkbeam-group-")  # noqa: SIM115
        self._count = 0

    def append(self, run: bytes) -> None:
        """Adds an encoded run; only while the group is being read."""
        self._file.write(_COUNT.pack(len(run)))
        self._file.write(run)
        self._count += self._coder.count(run)

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Any]:
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
            yield from self._coder.decode(run)

    def __reduce__(self) -> tuple[type, tuple[list[Any]]]:
        return list, (list(self),)


coder_impl.FastPrimitivesCoderImpl.register_iterable_like_type(SpilledValues)


class ValuesBuilder:
    """Gathers the runs of one group."""

    def __init__(self, coder: RunCoder) -> None:
        self._coder = coder
        self._runs: list[bytes] = []
        self.bytes = 0
        """What the values take in memory, about."""
        self._spilled: SpilledValues | None = None

    def append(self, run: bytes) -> None:
        """Adds an encoded run."""
        if self._spilled is not None:
            self._spilled.append(run)
            return
        self._runs.append(run)
        self.bytes += len(run) + _VALUE_BYTES * self._coder.count(run)
        if self.bytes > SPILL_BYTES:
            self._spilled = SpilledValues(self._coder)
            for earlier in self._runs:
                self._spilled.append(earlier)
            self._runs = []

    def values(self) -> "list[Any] | SpilledValues":
        """The group's values; the builder is not used after this."""
        if self._spilled is not None:
            return self._spilled
        if len(self._runs) == 1:
            return self._coder.decode(self._runs[0])
        return [value for run in self._runs for value in self._coder.decode(run)]
