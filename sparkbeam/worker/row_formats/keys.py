"""Dict keys that stand for the keys of elements, which Beam compares by their encodings.

Python's equality is not sufficient: ``0``, ``0.0`` and ``False`` are equal and have different
encodings. Encoding each key would cost more than most work on it. Therefore keys of types whose
equality is that of their encodings stand for themselves.
"""

from collections.abc import Hashable, Sequence
from itertools import chain
from typing import Any

from apache_beam.coders import coders

from sparkbeam.columns.python_types import is_plain_namedtuple

_PLAIN = frozenset([int, str, bytes, type(None)])
_TUPLES = frozenset([tuple])
_ENCODED = object()
_MOST_KNOWN = 20_000


class KeyNames:
    """Names of keys, equal when, and only when, the keys are the same.

    If a coder encodes different plain keys alike, their names differ nevertheless: code that uses
    names has to allow for a key that comes twice.
    """

    def __init__(self, coder: coders.Coder) -> None:
        self._encode = coder.get_impl().encode_nested
        self._decode = coder.get_impl().decode_nested
        self._of_kind: dict[type, dict[Any, Hashable] | None] = {}

    def of(self, keys: Sequence[Any]) -> Sequence[Hashable]:
        """Return the names of keys, in their order."""
        kinds = set(map(type, keys))
        if kinds <= _PLAIN or (
            kinds == _TUPLES and _PLAIN.issuperset(map(type, chain.from_iterable(keys)))
        ):
            return keys
        known = self._known(kinds.pop()) if len(kinds) == 1 else None
        if known is None or not _PLAIN.issuperset(map(type, chain.from_iterable(keys))):
            return list(map(self.name, keys))
        if len(known) > _MOST_KNOWN:
            known.clear()
        for key in keys:
            if key not in known:
                known[key] = self.name(key)
        return list(map(known.__getitem__, keys))

    def _known(self, kind: type) -> dict[Any, Hashable] | None:
        """Return names of keys of a NamedTuple class, by plain fields; None for any other class."""
        if kind not in self._of_kind:
            self._of_kind[kind] = {} if is_plain_namedtuple(kind) else None
        return self._of_kind[kind]

    def name(self, key: Any) -> Hashable:
        """Return the name of a key."""
        kind = type(key)
        if kind in _PLAIN or (kind is tuple and _PLAIN.issuperset(map(type, key))):
            return key
        return _ENCODED, self._encode(key)

    def key(self, name: Any) -> Any:
        """Return the key with a name."""
        if type(name) is tuple and name and name[0] is _ENCODED:
            return self._decode(name[1])
        return name
