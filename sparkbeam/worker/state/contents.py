"""Content of a state entry, as bytes.

Parts of ordered bags have a special form; everything else is plain data. The first byte
distinguishes them: :mod:`~sparkbeam.wire.plaindata` begins with none of the tags.
"""

from typing import Any

from sparkbeam.wire import plaindata
from sparkbeam.worker.state.bag_nodes import Node
from sparkbeam.worker.state.buckets import Bucket

_FORMS: frozenset[Any] = frozenset([Bucket, Node])
_BY_TAG = {form.TAG[0]: form for form in _FORMS}


def dumps(content: Any) -> bytes:
    """Return a content as bytes; the same for equal ones."""
    packed: bytes = content.packed() if type(content) in _FORMS else plaindata.dumps(content)
    return packed


def loads(data: bytes) -> Any:
    """Return the inverse of :func:`dumps`; runs no code, whatever it is given."""
    form = _BY_TAG.get(data[0])
    return plaindata.loads(data) if form is None else form.unpacked(data)
