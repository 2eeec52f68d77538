"""Coders of a step, from its description in the checkpoint or from the program.

A checkpoint describes coders in words. Coders of plain values are created from these; others need
the program. If other users may have written to the checkpoint, coders that unpickle and user coders
decode nothing from it.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from apache_beam.coders import coders
from apache_beam.transforms.window import GlobalWindow, IntervalWindow
from apache_beam.utils.timestamp import Timestamp

from sparkbeam.common.arguments import shown
from sparkbeam.common.display_text import printable
from sparkbeam.common.secret_patterns import hidden
from sparkbeam.observe.figures.formats import iso_time
from sparkbeam.plan import parsed_stage
from sparkbeam.plan.fingerprint import Parts
from sparkbeam.plan.model import Stage
from sparkbeam.plan.pardo_functions import par_do_payload

_PLAIN: Mapping[str, Callable[[], coders.Coder]] = {
    "bytes": coders.BytesCoder,
    "string_utf8": coders.StrUtf8Coder,
    "varint": coders.VarIntCoder,
    "bool": coders.BooleanCoder,
    "double": coders.FloatCoder,
}
_COMPOSED: Mapping[str, Callable[[list[coders.Coder]], coders.Coder]] = {
    "kv": coders.TupleCoder,
    "tuple": coders.TupleCoder,
    "iterable": lambda parts: coders.IterableCoder(*parts),
    "nullable": lambda parts: coders.NullableCoder(*parts),
}
_ANYTHING = ("FastPrimitivesCoder", "DeterministicFastPrimitivesCoder")
_INTERVALS = ("FixedWindows", "SlidingWindows", "Sessions")
_STATE = re.compile(r"state '(.*)'", re.DOTALL)
_SHOWN = 1000


@dataclass(frozen=True)
class Undecoded:
    """Bytes shown without decoding.

    Attributes:
        coder: the required coder, in words.
    """

    data: bytes
    coder: str

    def __repr__(self) -> str:
        return f"{shown(self.data, _SHOWN)} as {printable(hidden(self.coder))}"


class Decoder:
    """Decoder of values of one coder, if known and safe.

    Args:
        name: the coder in words.
        trusted: no other user can have written to the checkpoint.

    Attributes:
        impl: of the coder; None if it must not be used.
    """

    def __init__(self, name: str, coder: coders.Coder | None, *, trusted: bool) -> None:
        usable = coder is not None and (trusted or _is_plain(coder))
        self.name = name
        self.impl: Any = coder.get_impl() if coder is not None and usable else None

    def decoded(self, data: bytes, *, nested: bool = False) -> Any:
        """Decode a value, or return an :class:`Undecoded`."""
        if self.impl is None:
            return Undecoded(data, self.name)
        try:
            return self.impl.decode_nested(data) if nested else self.impl.decode(data)
        except Exception:  # Another user may have written it, or the coder may differ.
            return Undecoded(data, self.name)


@dataclass(frozen=True)
class StateOf:
    """A state of a DoFn.

    Attributes:
        kind: such as ``bag`` or ``read modify write``.
        decoders: of its values, or of its keys and its values.
    """

    kind: str
    decoders: tuple[Decoder, ...]


@dataclass(frozen=True)
class StepCoders:
    """Decoders for the state of a step.

    Attributes:
        value: of grouped values, or of accumulators.
    """

    key: Decoder
    value: Decoder
    window: Decoder
    states: Mapping[str, StateOf] = field(default_factory=dict)

    @classmethod
    def from_description(cls, parts: Parts, stage: Stage | None, *, trusted: bool) -> "StepCoders":
        """Return the decoders of a step."""
        known = {} if stage is None else dict(_of_stage(stage))

        def decoder(part: str, words: str, at: int = 0) -> Decoder:
            coder, found = parsed(words), known.get(part, ())
            if coder is None and at < len(found):
                coder = found[at]
            return Decoder(words, coder, trusted=trusted)

        windows = parts.get("windows", "")
        of_windows = known.get("windows") or (_of_windows(windows),)
        return cls(
            decoder("key coder", parts.get("key coder", "an unknown coder")),
            decoder("value coder", parts.get("value coder", "an unknown coder")),
            Decoder(f"the windows of {windows}", of_windows[0], trusted=trusted),
            {
                name: StateOf(
                    kind, tuple(decoder(part, words, at) for at, words in enumerate(listed))
                )
                for part, name, kind, listed in _states(parts)
            },
        )


def parsed(words: str) -> coders.Coder | None:
    """Return the coder described in a checkpoint; None if the description is insufficient."""
    name, _, rest = words.partition("(")
    if name in _PLAIN:
        return _PLAIN[name]()
    if name.rstrip("V2") in _ANYTHING:
        return coders.FastPrimitivesCoder()
    if name not in _COMPOSED or not rest.endswith(")"):
        return None
    parts = [parsed(part) for part in _split(rest[:-1])]
    known = [part for part in parts if part is not None]
    try:
        return _COMPOSED[name](known) if len(known) == len(parts) else None
    except TypeError:
        return None


def _split(words: str) -> list[str]:
    """Split at commas outside of parentheses; a truncated text gives one empty part."""
    parts, depth = [""], 0
    for character in words:
        depth += (character in "([{") - (character in ")]}")
        if character == "," and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return [""] if depth else [part.strip() for part in parts]


def _states(parts: Parts) -> Iterator[tuple[str, str, str, list[str]]]:
    for part, words in parts.items():
        found = _STATE.fullmatch(part)
        if found is not None:
            kind, _, rest = words.partition(" of ")
            listed = _split(rest)
            # A combining state has the CombineFn first.
            yield part, found[1], kind, listed[-1:] if kind == "combining" else listed


def _of_windows(words: str) -> coders.Coder | None:
    if words.startswith("GlobalWindows"):
        return coders.GlobalWindowCoder()
    return coders.IntervalWindowCoder() if words.startswith(_INTERVALS) else None


def _is_plain(coder: coders.Coder) -> bool:
    """Return whether a coder unpickles nothing and is not a user's."""
    if type(coder) is coders.TupleCoder:
        return all(map(_is_plain, coder.coders()))
    if type(coder) is coders.IterableCoder:
        return _is_plain(coder.value_coder())
    return type(coder) in (*_PLAIN.values(), coders.GlobalWindowCoder, coders.IntervalWindowCoder)


def _of_stage(stage: Stage) -> Iterator[tuple[str, tuple[coders.Coder, ...]]]:
    """Yield the coders of a program's stage, by the parts of a checkpoint's description."""
    described = parsed_stage.parsed(stage)
    read = stage.grouped or described.main_input
    coder = described.coder(read)
    if isinstance(coder, coders.TupleCoder) and len(coder.coders()) == 2:
        key, value = coder.coders()
        yield "key coder", (key,)
        yield "value coder", (value,)
    yield "windows", (described.window_coder(read),)
    for transform in described.transforms.values():
        if transform.spec.urn.startswith("beam:transform:pardo"):
            for name, state in par_do_payload(transform.spec.payload).state_specs.items():
                spec = getattr(state, str(state.WhichOneof("spec")))
                ids = {f.name: id for f, id in spec.ListFields() if f.name.endswith("coder_id")}
                known = described.context.coders
                yield f"state '{name}'", tuple(known.get_by_id(id) for _, id in sorted(ids.items()))


def as_text(value: Any) -> str:
    """Format a value on one line, without secrets."""
    return repr(value) if isinstance(value, Undecoded) else shown(value, _SHOWN)


def as_json(value: Any) -> Any:
    """Convert a value to JSON: plain values directly, others by their ``repr``."""
    if isinstance(value, Undecoded):
        return {"bytes": value.data.hex(), "coder": printable(hidden(value.coder))}
    if isinstance(value, str):
        return printable(hidden(value))
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float) and abs(value) < float("inf"):
        return value
    if type(value) in (list, tuple):
        return [as_json(item) for item in value]
    return as_text(value)


def window_text(window: Any) -> str:
    """Format a window."""
    if isinstance(window, GlobalWindow):
        return "all time"
    if isinstance(window, IntervalWindow):
        return f"{time_text(window.start.micros)} to {time_text(window.end.micros)}"
    return as_text(window)


def time_text(micros: int) -> str:
    """Format a time in ISO 8601, if Python supports its year."""
    return iso_time(Timestamp(micros=micros)) or ""
