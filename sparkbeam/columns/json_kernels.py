"""JSON objects as columns, with the values that ``json.loads`` gives.

Arrow's reader is stricter than Python's parser, and a block that it rejects is refused. It is more
lenient in a few places, which are checked here: NaN in other spellings, several objects in one
text, nesting and digits beyond Python's limits, ints in a column of floats, and missing keys. A row
that leaves doubt is parsed by Python and compared.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from sparkbeam.columns.fields import ALL, IS_THERE, Paths
from sparkbeam.columns.python_types import (
    FLOAT,
    Lists,
    Mixed,
    RecordShape,
    Scalar,
    Shape,
    arrow_type_of,
    unified,
)
from sparkbeam.columns.reasons import FallBack, NotCompiled
from sparkbeam.columns.vectors import Bools, Value, arrow_of, numpy_of

_SAMPLED = 32
_UNKNOWN = Mixed((Scalar(type(None)),))
"""Type of a value that is None in all of the sample."""

_ESCAPED_KEY = r'\\.[^"\\]*"\s*:'
_LONG = 500
"""Bytes in which neither nesting nor digits can exceed Python's limits."""

_MANY_DIGITS = re.compile(rf"[0-9]{{{_LONG}}}")
_SPACE = " \t\r"
_NOT_A_NUMBER = r"[\s:,\[\-](?:NaN|Inf)"
_MOST_DOUBTS = 1 / 4


def shape_in(texts: pa.Array) -> RecordShape:
    """Return the type of the objects in a sample of texts.

    A key that only some of them have counts as one that all have. A value whose type is not the
    same in all of them is :class:`Mixed`.

    Raises:
        FallBack: a text holds no object.
    """
    texts = texts.drop_null()
    count = len(texts)
    if not count:
        raise FallBack("a value is None")
    places = np.unique(np.linspace(0, count - 1, min(_SAMPLED, count)).astype(np.int64))
    found: Shape | None = None
    for text in texts.take(pa.array(places)).to_pylist():
        shape = _shape_of(_loaded(text))
        found = shape if found is None else _both(found, shape)
    if not isinstance(found, RecordShape):
        raise FallBack("its JSON has values other than objects of one kind")
    return found


def _loaded(text: Any) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FallBack(f"json.loads raises {type(error).__name__}") from None


def _shape_of(value: Any) -> Shape:
    if type(value) is dict:
        return RecordShape(dict, tuple(value), tuple(map(_shape_of, value.values())))
    if type(value) is list:
        shapes = {_shape_of(item) for item in value if item is not None}
        (item,) = shapes if len(shapes) == 1 else (_UNKNOWN,)
        return Lists(item if isinstance(item, Scalar) else _UNKNOWN)
    return _UNKNOWN if value is None else Scalar(type(value))


def _both(left: Shape, right: Shape) -> Shape:
    if left == right or right == _UNKNOWN:
        return left
    if left == _UNKNOWN:
        return right
    if isinstance(left, RecordShape) and isinstance(right, RecordShape):
        fields = dict(zip(left.names, left.fields, strict=True))
        for name, shape in zip(right.names, right.fields, strict=True):
            fields[name] = _both(fields.get(name, shape), shape)
        return RecordShape(dict, tuple(fields), tuple(fields.values()))
    if isinstance(left, Lists) and isinstance(right, Lists):
        item = _both(left.item, right.item)
        return Lists(item if isinstance(item, Scalar) else _UNKNOWN)
    mixed = unified(left, right)
    return mixed if isinstance(mixed, Mixed) else Mixed((left, right))


@dataclass(frozen=True)
class DocumentPaths:
    """Parts of documents that a function reads.

    Attributes:
        paths: their paths. Behind the positions of an object's fields come as many that tell
            whether it has their keys.
        missing: keys that no object may have, with the path of the object.
    """

    paths: Paths = ALL
    missing: frozenset[tuple[tuple[int, ...], str]] = frozenset()


def parts_of(
    shape: RecordShape, paths: Paths, missing: Iterable[tuple[tuple[int, ...], str]]
) -> DocumentPaths:
    """Return the parts of a document that a function reads.

    An object that it hands on must have the same keys in the same order, which is only checked of
    whole documents.

    Raises:
        NotCompiled: no column can hold one of them.
    """
    found: Paths = frozenset()
    for path in paths:
        part, is_value = _at(shape, path)
        if isinstance(part, RecordShape) and is_value:
            _check_readable(shape)
            return DocumentPaths()
        if not isinstance(part, RecordShape):
            _check_readable(part)
        found |= {path}
    return DocumentPaths(found, frozenset(missing))


def _check_readable(shape: Shape) -> None:
    match shape:
        case RecordShape():
            for one in shape.fields:
                _check_readable(one)
        case Lists():
            _check_readable(shape.item)
        case Mixed():
            raise NotCompiled("its JSON has values of several types, or only None")


def _at(shape: Shape, path: Sequence[int]) -> tuple[Shape, bool]:
    """Return the type of a part of a document, and whether the path is that of its value."""
    is_value = True
    for position in path:
        is_value = False
        if position != IS_THERE:
            assert isinstance(shape, RecordShape)
            count = len(shape.fields)
            shape, is_value = shape.fields[position % count], position < count
    return shape, is_value


def parsed(value: Value, shape: RecordShape, parts: DocumentPaths) -> pa.StructArray:
    """Compute ``json.loads`` of str or bytes.

    Returns:
        The objects. Unless all parts are read, objects have fields behind their own which tell
        whether they have the keys; what is not read is null.

    Raises:
        FallBack: Python gives objects of another type, or raises.
    """
    texts = arrow_of(value, pa.string())
    if not isinstance(texts, pa.Array):
        raise FallBack("its JSON is a constant")
    try:
        texts = texts.cast(pa.string())
    except pa.ArrowInvalid:
        raise FallBack("bytes are not valid UTF-8") from None
    tree = _Tree(shape, parts)
    lines = _lines(texts)
    found = _read(lines, len(texts), tree)
    doubts = _strange(texts, lines)
    for leaf in tree.leaves:
        doubts |= leaf.load(texts, found)
    for _, key in tree.missing:
        doubts |= _may_have(texts, key)
    if tree.is_whole:
        doubts |= ~_have_the_keys(texts, tree)
    _check(texts, found, tree, np.flatnonzero(doubts))
    return found if tree.is_whole else tree.filled(found)


def _may_have(texts: pa.Array, key: str) -> Bools:
    """Return where a text may have a key in some object."""
    found: Bools = numpy_of(pc.match_substring(texts, _in_quotes(key)))
    return found | numpy_of(pc.match_substring_regex(texts, _ESCAPED_KEY))


def _in_quotes(key: str) -> str:
    return json.dumps(key, ensure_ascii=False)


class _Leaf:
    """A value that is read, or an object with one.

    Args:
        names: the keys on the way to it.
    """

    is_there: Bools

    def __init__(self, names: tuple[str, ...], shape: Shape) -> None:
        self.names = names
        self._is_list = isinstance(shape, Lists)
        self._is_float = FLOAT in (shape, shape.item if isinstance(shape, Lists) else None)
        before = r"[\[,]" if self._is_list else rf"{re.escape(_in_quotes(names[-1]))}\s*:"
        self._as_int = rf"{before}\s*-?[0-9]+\s*[,}}\]]"

    def load(self, texts: pa.Array, found: pa.Array) -> Bools:
        """Find out where objects have the key; return where Python may give something else."""
        array = found
        for name in self.names:
            array = array.field(name)
        self.is_there = np.array(array.is_valid())
        doubts = np.zeros(len(array), np.bool_)
        if array.null_count:
            _set(doubts, texts, ~self.is_there, lambda some: _may_have(some, self.names[-1]))
        if self._is_float:
            _set(doubts, texts, self._whole(array), self._may_be_int)
        return doubts

    def _may_be_int(self, texts: pa.Array) -> Bools:
        found: Bools = numpy_of(pc.match_substring_regex(texts, self._as_int))
        return found | numpy_of(pc.match_substring_regex(texts, _ESCAPED_KEY))

    def _whole(self, array: pa.Array) -> Bools:
        """Return where a float has no fraction, as those that were ints."""
        if not self._is_list:
            return _without_fraction(array)
        rows = numpy_of(pc.list_parent_indices(array))
        whole = np.zeros(len(array), np.bool_)
        whole[rows[_without_fraction(pc.list_flatten(array))]] = True
        return whole

    def note(self, row: int, value: Any) -> None:
        """Note whether the objects of a row have the key."""
        self.is_there[row] = _has(value, self.names[:-1], self.names[-1])


def _set(
    doubts: Bools, texts: pa.Array, where: Bools, are_doubtful: Callable[[pa.Array], Bools]
) -> None:
    """Set the doubts of some rows by their texts."""
    rows = np.flatnonzero(where)
    if len(rows):
        doubts[rows] |= are_doubtful(texts.take(pa.array(rows)))


def _without_fraction(array: pa.Array) -> Bools:
    numbers = array.fill_null(0.5).to_numpy(zero_copy_only=False)
    without: Bools = ~(np.floor(numbers) != numbers)
    return without


class _Tree:
    """The parts of documents that are read.

    Attributes:
        is_whole: all parts are read, and no document may have another one.
        leaves: the values that are read, and the objects around them.
        missing: keys that no object may have, with the keys on the way to the object.
        names: the nested keys; None at a value.
    """

    def __init__(self, shape: RecordShape, parts: DocumentPaths) -> None:
        self.is_whole = () in parts.paths
        self.leaves: list[_Leaf] = []
        self.missing = [(_names(shape, path), key) for path, key in parts.missing]
        self._shape = shape
        self._leaf: dict[tuple[str, ...], _Leaf] = {}
        self.names = self._named(shape, parts.paths, ())
        kind = self._type(shape, self.names)
        self.schema = pa.schema([kind.field(at) for at in range(kind.num_fields)])

    def _named(self, shape: RecordShape, paths: Paths, names: tuple[str, ...]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        count = len(shape.names)
        for at, (name, one) in enumerate(zip(shape.names, shape.fields, strict=True)):
            inner = frozenset(path[1:] for path in paths if path and path[0] in (at, at + count))
            if () in paths:
                inner = ALL
            if not inner:
                continue
            here = (*names, name)
            if isinstance(one, RecordShape):
                deeper = inner if self.is_whole else inner - {(), (IS_THERE,)}
                found[name] = self._named(one, deeper, here)
            else:
                found[name] = None
            self._leaf[here] = _Leaf(here, one)
            self.leaves.append(self._leaf[here])
        return found

    def _type(self, shape: RecordShape, names: Mapping[str, Any]) -> pa.DataType:
        """Return the Arrow type of the parts of an object."""
        fields = []
        for name, one in zip(shape.names, shape.fields, strict=True):
            if name in names:
                if isinstance(one, RecordShape):
                    fields.append(pa.field(name, self._type(one, names[name])))
                else:
                    fields.append(pa.field(name, arrow_type_of(one)))
        return pa.struct(fields)

    def filled(self, found: pa.StructArray) -> pa.StructArray:
        """Return objects with all fields, and those which tell of keys."""
        return self._filled(found, self._shape, self.names, ())

    def _filled(
        self,
        found: pa.StructArray,
        shape: RecordShape,
        names: Mapping[str, Any],
        outer: tuple[str, ...],
    ) -> pa.StructArray:
        values, keys = [], []
        for name, one in zip(shape.names, shape.fields, strict=True):
            here = (*outer, name)
            if name not in names:
                values.append(pa.nulls(len(found)))
                keys.append(pa.nulls(len(found)))
                continue
            value = found.field(name)
            if isinstance(one, RecordShape):
                value = self._filled(value, one, names[name], here)
            values.append(value)
            keys.append(pa.array(self._leaf[here].is_there))
        arrays = values + keys
        if not arrays:
            return found
        fields = [pa.field(str(at), array.type) for at, array in enumerate(arrays)]
        mask = found.is_null() if found.null_count else None
        return pa.StructArray.from_arrays(arrays, fields=fields, mask=mask)


def _names(shape: Shape, path: Sequence[int]) -> tuple[str, ...]:
    """Return the keys of a path."""
    found: list[str] = []
    for position in path:
        assert isinstance(shape, RecordShape)
        found.append(shape.names[position])
        shape = shape.fields[position]
    return tuple(found)


def _keys(names: Mapping[str, Any]) -> Iterator[str]:
    """Yield the keys of objects and of those in them, in the order of the text."""
    for name, inner in names.items():
        yield name
        yield from _keys(inner or {})


def _lines(texts: pa.Array) -> bytes:
    """Return texts as lines.

    Raises:
        FallBack: a text is not one line that begins and ends as an object does.
    """
    trimmed = pc.ascii_trim(texts, characters=_SPACE)
    are_objects = pc.and_(pc.starts_with(trimmed, "{"), pc.ends_with(trimmed, "}"))
    if not pc.all(are_objects).as_py():
        raise FallBack("its JSON has values other than objects")
    offsets = pa.array([0, len(trimmed)], pa.int32())
    joined = pc.binary_join(pa.ListArray.from_arrays(offsets, trimmed), "\n")[0].as_buffer()
    lines: bytes = joined.to_pybytes()
    if lines.count(b"\n") != len(texts) - 1:
        raise FallBack("its JSON has several lines")
    return lines


def _read(lines: bytes, count: int, tree: _Tree) -> pa.StructArray:
    """Return the parts of objects as Arrow reads them.

    Each line begins and ends as an object does, so that none is on two lines, and as many as lines
    are one on each.
    """
    try:
        table = pa.json.read_json(
            pa.BufferReader(lines),
            read_options=pa.json.ReadOptions(use_threads=False, block_size=len(lines) + 1),
            parse_options=_options(tree.schema, tree.is_whole),
        )
    except pa.ArrowException:
        raise FallBack("its JSON has values of another type, or Arrow cannot read it") from None
    if table.num_rows != count:
        raise FallBack("a string has several JSON values")
    if not tree.schema.names:
        return pa.array([{}] * count, pa.struct([]))
    columns = [table.column(name).combine_chunks() for name in tree.schema.names]
    return pa.StructArray.from_arrays(columns, fields=list(tree.schema))


@lru_cache(maxsize=100)
def _options(schema: pa.Schema, is_whole: bool) -> pa.json.ParseOptions:
    return pa.json.ParseOptions(
        explicit_schema=schema,
        newlines_in_values=False,
        unexpected_field_behavior="error" if is_whole else "ignore",
    )


def _strange(texts: pa.Array, lines: bytes) -> Bools:
    """Return where Python may reject what Arrow reads, also in parts that are not read."""
    strange = np.zeros(len(texts), np.bool_)
    if b"NaN" in lines or b"Inf" in lines:
        strange |= numpy_of(pc.match_substring_regex(texts, _NOT_A_NUMBER))
    lengths = numpy_of(pc.binary_length(texts))
    long = np.flatnonzero(lengths > _LONG)
    if len(long):
        some = texts.take(pa.array(long))
        depth = pc.add(pc.count_substring(some, "["), pc.count_substring(some, "{"))
        deep = numpy_of(depth) > _LONG
        deep |= np.array([bool(_MANY_DIGITS.search(text)) for text in some.to_pylist()], np.bool_)
        strange[long[deep]] = True
    return strange


def _have_the_keys(texts: pa.Array, tree: _Tree) -> Bools:
    """Return where a text certainly has all keys and no others, in their order.

    They occur with quotes and a colon, and no more colons come behind a quote.
    """
    keys = list(_keys(tree.names))
    pattern = ".*".join(f"{re.escape(_in_quotes(key))}:" for key in keys)
    in_order: Bools = numpy_of(pc.match_substring_regex(texts, pattern))
    return in_order & (numpy_of(pc.count_substring(texts, '":')) == len(keys))


def _check(texts: pa.Array, found: pa.StructArray, tree: _Tree, rows: Any) -> None:
    """Compare rows with what Python gives, and note which keys they have.

    Raises:
        FallBack: they are not the same, or are many.
    """
    if len(rows) > max(_SAMPLED, len(texts) * _MOST_DOUBTS):
        raise FallBack("much of its JSON has None, or integers among floats")
    places = pa.array(rows)
    made = found.take(places).to_pylist()
    for row, text, one in zip(rows.tolist(), texts.take(places).to_pylist(), made, strict=True):
        value = _loaded(text)
        is_same = repr(value) == repr(one) if tree.is_whole else _agree(value, one, tree.names)
        if not is_same or any(_has(value, *missing) for missing in tree.missing):
            raise FallBack("its JSON has values of several types, or lacks a key")
        for leaf in tree.leaves:
            leaf.note(row, value)


def _agree(value: Any, made: Any, names: Mapping[str, Any] | None) -> bool:
    """Return whether a column has the parts of a value that are read; None if a key is missing."""
    if names is None or made is None or type(value) is not dict:
        return repr(value) == repr(made)
    return all(_agree(value.get(name), made[name], inner) for name, inner in names.items())


def _has(value: Any, outer: tuple[str, ...], key: str) -> bool:
    """Return whether an object in a document has a key."""
    for name in outer:
        value = (value or {}).get(name)
    return key in (value or {})
