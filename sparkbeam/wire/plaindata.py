"""Plain data as bytes, for state and for messages between layers.

A subset of pickle's format: None, booleans, numbers, strings, bytes, and tuples, lists,
dictionaries and sets of them; the name of a class or a function is an error on both sides. So
whoever can change a checkpoint can change the results of a pipeline, but not make it run code.
"""

import io
import pickle
from typing import Any


class NotPlainData(ValueError):
    """A value or a serialized text is not plain data."""


class _Pickler(pickle.Pickler):
    """Pickler that rejects objects, classes and functions."""

    def reducer_override(self, obj: Any) -> Any:
        raise NotPlainData(f"a {type(obj).__qualname__} is not plain data")


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        raise NotPlainData(f"it refers to {module}.{name}, which is not plain data")


def dumps(content: Any) -> bytes:
    """Serialize plain data; equal contents have equal bytes, whatever parts are shared.

    Raises:
        NotPlainData: the content is not plain data, or has a part that is not.
        ValueError: the content contains itself.
    """
    buffer = io.BytesIO()
    pickler = _Pickler(buffer, 5)
    # Without the memo, a pickle does not depend on shared parts.
    pickler.fast = True
    pickler.dump(content)
    return buffer.getvalue()


def loads(data: bytes) -> Any:
    """Parse the result of :func:`dumps`; never runs code.

    Raises:
        NotPlainData: the bytes hold something else.
        Exception: an error of pickle; the bytes are damaged.
    """
    return _Unpickler(io.BytesIO(data)).load()
