"""Assumptions about Beam's text IO; see :mod:`sparkbeam.upstream.beam`."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from apache_beam.coders import coders
from apache_beam.io import iobase, textio
from apache_beam.io.filebasedsource import _SingleFileSource

READ_BYTES = 4 << 20
"""The most bytes that are read at once."""

READ_BEYOND = 1 << 16
"""The same for the rest of the last line of a range."""

Lines: TypeAlias = pa.StringArray | list[str]


def is_text(source: Any) -> bool:
    """Return whether a source reads files of lines in UTF-8, without a delimiter of the user's."""
    return (
        type(source) is textio._TextSource
        and type(source._coder) is coders.StrUtf8Coder
        and source._delimiter is None
        and source._escapechar is None
    )


def may_read_text(fn: Any) -> bool:
    """Return whether a DoFn is Beam's reader of bounded sources, for files of lines in UTF-8."""
    if type(fn).__qualname__ != _QUALNAME_OF_READER:
        return False
    is_utf8 = getattr(fn._dd.get("coder"), "value", None) is coders.StrUtf8Coder
    return is_utf8 and fn._dd["source"] is textio._TextSource


_QUALNAME_OF_READER = (
    f"{iobase.SDFBoundedSourceReader._create_sdf_bounded_source_dofn.__qualname__}"
    ".<locals>.SDFBoundedSourceDoFn"
)


def lines_of(restriction: Any) -> Iterator[Lines] | None:
    """Return the lines that begin in a part of a file; None for parts of other sources.

    Args:
        restriction: that of Beam's reader of bounded sources.
    """
    part = restriction.source()
    if type(part) is not _SingleFileSource or not is_text(part._file_based_source):
        return None
    bounds, source = restriction.range_tracker(), part._file_based_source
    return _lines(source, part._file_name, bounds.start_position(), bounds.stop_position())


def _lines(source: Any, name: str, at: int, stop: float) -> Iterator[Lines]:
    with source.open_file(name) as file:
        buffer = source.ReadBuffer(b"", 0)
        begin = source._process_header(file, buffer)
        ahead = buffer.data[buffer.position :]
        # The line with the byte before a range begins in another range.
        is_others = at > begin
        if is_others:
            at, ahead = at - 1, b""
            file.seek(at)
        else:
            at = begin
        if at >= stop:
            return
        begun: list[bytes] = []
        for data in _read(file, ahead, stop - at):
            length = data.rfind(b"\n") + 1
            if not length:
                if not is_others:
                    begun.append(data)
                    continue
                at += len(data)
                if at >= stop:
                    return
                continue
            text, begun = b"".join([*begun, data[:length]]), [data[length:]]
            if is_others:
                is_others, first = False, text.index(b"\n") + 1
                at, text = at + first, text[first:]
            if at + len(text) >= stop:
                if at < stop:
                    yield from _columns(source, text[: text.index(b"\n", int(stop) - at - 1) + 1])
                return
            yield from _columns(source, text)
            at += len(text)
        last = b"".join(begun)
        if last:
            yield [source._coder.decode(last)]


def _read(file: Any, ahead: bytes, left: float) -> Iterator[bytes]:
    """Yield the bytes of a file from its position on.

    Args:
        ahead: the bytes before the position.
        left: the number of bytes up to the end of the range.
    """
    data = ahead or file.read(int(min(READ_BYTES, left)))
    while data:
        yield data
        left -= len(data)
        data = file.read(int(min(READ_BYTES, max(READ_BEYOND, left))))


def _columns(source: Any, text: bytes) -> Iterator[Lines]:
    """Yield complete lines; those that Arrow cannot hold one by one, decoded by the coder."""
    is_stripped = source._strip_trailing_newlines
    if is_stripped and b"\r\n" in text:
        text = text.replace(b"\r\n", b"\n")
    if len(text) <= _MOST_BYTES:
        ends = np.flatnonzero(np.frombuffer(text, np.uint8) == ord("\n"))
        bounds = np.zeros(len(ends) + 1, np.int32)
        bounds[1:] = ends - np.arange(len(ends)) if is_stripped else ends + 1
        joined = text.replace(b"\n", b"") if is_stripped else text
        column = pa.StringArray.from_buffers(len(ends), pa.py_buffer(bounds), pa.py_buffer(joined))
        with suppress(pa.ArrowInvalid):
            column.validate(full=True)
            yield column
            return
    end = b"" if is_stripped else b"\n"
    yield from ([source._coder.decode(line + end)] for line in text.split(b"\n")[:-1])


_MOST_BYTES = (1 << 31) - 1
