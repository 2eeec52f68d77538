"""Map states for stateful DoFns, in addition to :mod:`apache_beam.transforms.userstate`.

=============================== ==========================================================
:class:`MapStateSpec` one value for each key :class:`MultimapStateSpec` any number of values for
each key :class:`SortedMultimapStateSpec` likewise, read and removed by ranges of keys
=============================== ==========================================================

A DoFn declares one by ``DoFn.StateParam(spec)``, as for Beam's own. They only run on
:class:`sparkbeam.SparkRunner`. A bundle reads its own writes. Reads are lazy and cost in proportion
to the entries consumed, whatever else is stored. A result can be iterated again while nothing has
been written. A write during an iteration makes the iterator raise a RuntimeError, as with a dict.

These states and those of Beam's specs have a ``read_later()``, which announces a read: see
:class:`Later`.
"""

from collections.abc import Iterable
from typing import Any, Generic, Protocol, TypeVar

from apache_beam.coders.coders import Coder
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.transforms.core import DoFn
from apache_beam.transforms.userstate import RuntimeState, StateSpec, get_dofn_specs

from sparkbeam.coders import preserves_order
from sparkbeam.coders.composed import instead_of
from sparkbeam.common.arguments import shown, text
from sparkbeam.errors import ConfigurationError
from sparkbeam.upstream.beam import before_par_dos, runner_below

__all__ = [
    "Later",
    "MapRuntimeState",
    "MapStateSpec",
    "MultimapRuntimeState",
    "MultimapStateSpec",
    "SortedMultimapRuntimeState",
    "SortedMultimapStateSpec",
]

K = TypeVar("K")
V = TypeVar("V")
T_co = TypeVar("T_co", covariant=True)

_PROTOCOL = "sparkbeam:user_state:{}:v1"


class KeyedStateSpec(StateSpec):
    """Base of states with keys."""

    _kind: str
    _field: str

    def __init__(self, name: str, key_coder: Coder, value_coder: Coder) -> None:
        text("name", name, "use a name for the state")
        for argument, coder in (("key_coder", key_coder), ("value_coder", value_coder)):
            if not isinstance(coder, Coder):
                raise ConfigurationError(
                    f"{argument}={shown(coder)} of state '{name}' is not a coder: use one of "
                    "apache_beam.coders or of sparkbeam.coders."
                )
        super().__init__(name, value_coder)
        self.key_coder = self._checked(key_coder)
        self.value_coder = value_coder

    def _checked(self, coder: Coder) -> Coder:
        """Check the coder of keys; raise ConfigurationError if it is not deterministic."""
        if coder.is_deterministic():
            return coder
        try:
            return coder.as_deterministic_coder(f"state '{self.name}'")
        except (TypeError, ValueError):
            raise ConfigurationError(
                f"key_coder={shown(coder)} of state '{self.name}' may encode equal keys in "
                "different ways: use a deterministic coder, such as "
                "sparkbeam.coders.ordered_coder(…) with the type of the keys."
            ) from None

    def to_runner_api(self, context: Any) -> beam_runner_api_pb2.StateSpec:
        kind = getattr(beam_runner_api_pb2, f"{self._field.title()}StateSpec")
        spec = kind(
            key_coder_id=context.coders.get_id(self.key_coder),
            value_coder_id=context.coders.get_id(self.value_coder),
        )
        protocol = beam_runner_api_pb2.FunctionSpec(urn=_PROTOCOL.format(self._kind))
        return beam_runner_api_pb2.StateSpec(**{f"{self._field}_spec": spec}, protocol=protocol)


class MapStateSpec(KeyedStateSpec):
    """One value per key; a DoFn gets a :class:`MapRuntimeState`.

    Args:
        name: of the state within the DoFn.
        key_coder: of the keys, deterministic. Iterations follow the order of its bytes.

    Raises:
        ConfigurationError: the key coder is not deterministic.
    """

    _kind = _field = "map"


class MultimapStateSpec(KeyedStateSpec):
    """Any number of values per key; a DoFn gets a :class:`MultimapRuntimeState`.

    Args:
        name: of the state within the DoFn.
        key_coder: of the keys, deterministic. Iterations follow the order of its bytes.

    Raises:
        ConfigurationError: the key coder is not deterministic.
    """

    _kind = _field = "multimap"


class SortedMultimapStateSpec(KeyedStateSpec):
    """Values in the order of their keys; a DoFn gets a :class:`SortedMultimapRuntimeState`.

    Args:
        name: of the state within the DoFn.
        key_coder: of the keys, order-preserving: see :mod:`sparkbeam.coders`.

    Raises:
        ConfigurationError: the key coder does not preserve the order; the message names the coder
            to use.
    """

    _kind, _field = "sorted_multimap", "multimap"

    def _checked(self, coder: Coder) -> Coder:
        if not preserves_order(coder):
            raise ConfigurationError(
                f"key_coder={shown(coder)} of state '{self.name}' does not preserve the order of "
                f"the keys: use {instead_of(coder)}."
            )
        return super()._checked(coder)


class Later(Protocol[T_co]):
    """An announced read, returned by the ``read_later()`` of a state.

    The first read of any state of the key fetches the data of all announced reads, as far as memory
    allows. An announcement is valid until then, or until the end of the bundle; the read sees all
    writes before it, including those after the announcement.
    """

    def read(self) -> T_co:
        """Read the announced data."""
        ...


class MapRuntimeState(RuntimeState, Generic[K, V]):
    """One value per key."""

    def put(self, key: K, value: V) -> None:
        """Set the value of a key, replacing an existing one."""
        raise NotImplementedError(type(self))

    def get(self, key: K, default: Any = None) -> V | Any:
        """Return the value of a key, or the default."""
        raise NotImplementedError(type(self))

    def put_if_absent(self, key: K, value: V) -> V | None:
        """Set the value of a key without one, else return its value; None if it was set."""
        raise NotImplementedError(type(self))

    def remove(self, key: K) -> None:
        """Remove a key if present."""
        raise NotImplementedError(type(self))

    def read_later(self, *keys: K) -> Later[Iterable[tuple[K, V]]]:
        """Announce a read of keys by any method; of all keys by default.

        The result has the present entries of the given keys, in their order.
        """
        raise NotImplementedError(type(self))

    def keys(self) -> Iterable[K]:
        """Return all keys, in the order of their encodings."""
        raise NotImplementedError(type(self))

    def values(self) -> Iterable[V]:
        """Return the values of all keys, in the order of the keys."""
        raise NotImplementedError(type(self))

    def entries(self) -> Iterable[tuple[K, V]]:
        """Return all keys with their values, in the order of the keys."""
        raise NotImplementedError(type(self))

    def is_empty(self) -> bool:
        """Return whether there are no keys."""
        raise NotImplementedError(type(self))

    def clear(self) -> None:
        """Remove all keys."""
        raise NotImplementedError(type(self))


class MultimapRuntimeState(RuntimeState, Generic[K, V]):
    """Values of each key, in insertion order."""

    def put(self, key: K, value: V) -> None:
        """Add a value to a key."""
        raise NotImplementedError(type(self))

    def get(self, key: K) -> Iterable[V]:
        """Return the values of a key, in insertion order."""
        raise NotImplementedError(type(self))

    def contains_key(self, key: K) -> bool:
        """Return whether a key has values."""
        raise NotImplementedError(type(self))

    def remove(self, key: K) -> None:
        """Remove a key with its values, if present."""
        raise NotImplementedError(type(self))

    def read_later(self, *keys: K) -> Later[Iterable[tuple[K, V]]]:
        """Announce a read of keys by any method; of all keys by default."""
        raise NotImplementedError(type(self))

    def keys(self) -> Iterable[K]:
        """Return all keys, each once, in the order of their encodings."""
        raise NotImplementedError(type(self))

    def entries(self) -> Iterable[tuple[K, V]]:
        """Return each value with its key, in the order of the keys."""
        raise NotImplementedError(type(self))

    def is_empty(self) -> bool:
        """Return whether there are no values."""
        raise NotImplementedError(type(self))

    def clear(self) -> None:
        """Remove all values."""
        raise NotImplementedError(type(self))


class SortedMultimapRuntimeState(MultimapRuntimeState[K, V]):
    """Values in the order of their keys; those of one key in insertion order.

    Ranges include their bounds. ``reverse=True`` iterates a range from its end.
    """

    def read_later(
        self, *keys: K, low: K | None = None, high: K | None = None
    ) -> Later[Iterable[tuple[K, V]]]:
        """Announce a read of keys and of a range, by any method.

        Without arguments all keys are read. The ``floor`` of a key is usually fetched as well.
        """
        raise NotImplementedError(type(self))

    def all_entries(self, *, reverse: bool = False) -> Iterable[tuple[K, V]]:
        """Return all entries."""
        raise NotImplementedError(type(self))

    def entries_until(self, limit: K, *, reverse: bool = False) -> Iterable[tuple[K, V]]:
        """Return the entries up to a key."""
        raise NotImplementedError(type(self))

    def entries_from(self, low: K, *, reverse: bool = False) -> Iterable[tuple[K, V]]:
        """Return the entries from a key on."""
        raise NotImplementedError(type(self))

    def entries_between(self, low: K, high: K, *, reverse: bool = False) -> Iterable[tuple[K, V]]:
        """Return the entries from one key to another."""
        raise NotImplementedError(type(self))

    def floor(self, key: K) -> tuple[K, list[V]] | None:
        """Return the closest key at or below one, with its values, or None."""
        raise NotImplementedError(type(self))

    def ceiling(self, key: K) -> tuple[K, list[V]] | None:
        """Return the closest key at or above one, with its values, or None."""
        raise NotImplementedError(type(self))

    def first(self) -> tuple[K, list[V]] | None:
        """Return the first key with its values, or None."""
        raise NotImplementedError(type(self))

    def last(self) -> tuple[K, list[V]] | None:
        """Return the last key with its values, or None."""
        raise NotImplementedError(type(self))

    def remove_until(self, limit: K) -> None:
        """Remove the entries up to a key."""
        raise NotImplementedError(type(self))

    def remove_between(self, low: K, high: K) -> None:
        """Remove the entries from one key to another."""
        raise NotImplementedError(type(self))


def check_runner(transform: Any, pcollection: Any) -> None:
    """Raise ConfigurationError if a DoFn declares one of these states on another runner."""
    runner = runner_below(pcollection.pipeline.runner)
    if any(kind.__module__.startswith("sparkbeam.") for kind in type(runner).__mro__):
        return
    home = type(runner).__module__.partition(".")[0]
    for spec in _specs(transform.fn):
        raise ConfigurationError(
            f"Transform '{transform.label}' uses {type(spec).__name__} '{spec.name}', which "
            f"{home}'s {type(runner).__name__} does not support: run it on sparkbeam.SparkRunner "
            "or, if the keys are timestamps, use Beam's OrderedListStateSpec."
        )


def _specs(fn: DoFn) -> list[KeyedStateSpec]:
    found = [spec for spec in get_dofn_specs(fn)[0] if isinstance(spec, KeyedStateSpec)]
    return sorted(found, key=lambda spec: spec.name)


before_par_dos(check_runner)
