"""Plain data as bytes: what state holds, and what travels between layers.

It is pickle's format without pickle's power. What is written and read are None, booleans,
numbers, texts, bytes, and tuples, lists, dictionaries and sets of them; a name of a class or of a
function is an error on both sides. So who can change a checkpoint can change what a pipeline
computes, and cannot make it run code.
"""

import io
import pickle
from typing import Any


class NotPlainData(ValueError):
    """Something else than plain data was to be written, or has been found."""


class _Pickler(pickle.Pickler):
    """Asked for whatever pickle does not know by itself: objects, classes, functions."""

    def reducer_override(self, obj: Any) -> Any:
        raise NotPlainData(f"a {type(obj).__qualname__} is no plain data")


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        raise NotPlainData(f"it names {module}.{name}, and plain data names nothing")


def dumps(content: Any) -> bytes:
    """Plain data as bytes; the same for equal contents, whoever shares parts of them.

    Raises:
        NotPlainData: the content is something else, or has it as a part.
        ValueError: the content contains itself.
    """
    buffer = io.BytesIO()
    pickler = _Pickler(buffer, 5)
    # Without its memo, a pickle does not depend on which of its parts are the same object.
    pickler.fast = True
    pickler.dump(content)
    return buffer.getvalue()


def loads(data: bytes) -> Any:
    """The inverse of :func:`dumps`; runs no code, whatever it is given.

    Raises:
        NotPlainData: the bytes hold something else.
        Exception: of pickle's kinds; the bytes are damaged.
    """
    return _Unpickler(io.BytesIO(data)).load()
