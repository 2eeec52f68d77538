"""Assumptions about Beam's text IO; see :mod:`sparkbeam.upstream.beam`."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from apache_beam.coders import coders
from apache_beam.io import filebasedsource, textio

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
    """Return whether a DoFn is Beam's reader of the parts of text files."""
    shown = getattr(fn, "_dd", None)
    return isinstance(shown, dict) and shown.get("source") is textio._TextSource


def lines_of(restriction: Any) -> Iterator[Lines] | None:
    """Return the lines that begin in a part of a file; None for parts of other sources.

    Args:
        restriction: that of Beam's reader of bounded sources.
    """
    part = restriction.source()
    if type(part) is not filebasedsource._SingleFileSource or not is_text(part._file_based_source):
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
        at = at - 1 if is_others else begin
        if is_others:
            file.seek(at)
            ahead = b""
        begun: list[bytes] = []
        end = at
        while at < stop and (
            data := ahead or file.read(int(min(READ_BYTES, max(READ_BEYOND, stop - end))))
        ):
            ahead, end = b"", end + len(data)
            length = data.rfind(b"\n") + 1
            if not length:
                if is_others:
                    at = end
                else:
                    begun.append(data)
                continue
            text, begun = b"".join([*begun, data[:length]]), [data[length:]]
            if is_others:
                is_others, first = False, text.index(b"\n") + 1
                at, text = at + first, text[first:]
            if at + len(text) > stop:
                text = text[: text.index(b"\n", int(stop) - at - 1) + 1] if at < stop else b""
            yield from _columns(source, text)
            at += len(text)
        last = b"".join(begun)
        if last and at < stop:
            yield [source._coder.decode(last)]


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
