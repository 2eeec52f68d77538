"""Map states for stateful DoFns, beside those of :mod:`apache_beam.transforms.userstate`.

===============================  ==========================================================
:class:`MapStateSpec`            one value for each key
:class:`MultimapStateSpec`       any number of values for each key
:class:`SortedMultimapStateSpec` likewise, read and removed by ranges of keys
===============================  ==========================================================

A DoFn asks for one by ``DoFn.StateParam(spec)``, as for Beam's own. They run on
:class:`sparkbeam.SparkRunner` alone. What a bundle has written is seen by its own reads at once.
What is read comes as it is asked for and costs in proportion to that, whatever else is there; it
may be iterated over again, while nothing has been written. Whoever writes while it iterates gets a
RuntimeError from the iterator, as with a dict.

These and the states of Beam's own specs have a ``read_later()``, which announces a read: see
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
    """A state that has keys.

    Attributes:
        key_coder: of these.
        value_coder: of what belongs to them.
    """

    _kind: str
    _field: str

    def __init__(self, name: str, key_coder: Coder, value_coder: Coder) -> None:
        text("name", name, "the name by which the state is known")
        for argument, coder in (("key_coder", key_coder), ("value_coder", value_coder)):
            if not isinstance(coder, Coder):
                raise ConfigurationError(
                    f"{argument}={shown(coder)} of state '{name}' is no coder: it is one of "
                    "apache_beam.coders or of sparkbeam.coders."
                )
        super().__init__(name, value_coder)
        self.key_coder = self._checked(key_coder)
        self.value_coder = value_coder

    def _checked(self, coder: Coder) -> Coder:
        """The coder of keys; raises ConfigurationError for one whose bytes tell no keys apart."""
        if coder.is_deterministic():
            return coder
        try:
            return coder.as_deterministic_coder(f"state '{self.name}'")
        except (TypeError, ValueError):
            raise ConfigurationError(
                f"key_coder={shown(coder)} of state '{self.name}' may encode equal keys in two "
                "ways: take a deterministic one, such as sparkbeam.coders.ordered_coder(…) with "
                "the type of the keys."
            ) from None

    def to_runner_api(self, context: Any) -> beam_runner_api_pb2.StateSpec:
        """Beam's hook: the state in a pipeline's proto."""
        kind = getattr(beam_runner_api_pb2, f"{self._field.title()}StateSpec")
        spec = kind(
            key_coder_id=context.coders.get_id(self.key_coder),
            value_coder_id=context.coders.get_id(self.value_coder),
        )
        protocol = beam_runner_api_pb2.FunctionSpec(urn=_PROTOCOL.format(self._kind))
        return beam_runner_api_pb2.StateSpec(**{f"{self._field}_spec": spec}, protocol=protocol)


class MapStateSpec(KeyedStateSpec):
    """One value for each key; a DoFn gets a :class:`MapRuntimeState`.

    Args:
        name: by which the state is known within the DoFn.
        key_coder: of the keys, a deterministic one. Iterations are in the order of its bytes.
        value_coder: of the values.

    Raises:
        ConfigurationError: the coder of the keys is not deterministic.
    """

    _kind = _field = "map"


class MultimapStateSpec(KeyedStateSpec):
    """Any number of values for each key; a DoFn gets a :class:`MultimapRuntimeState`.

    Args:
        name: by which the state is known within the DoFn.
        key_coder: of the keys, a deterministic one. Iterations are in the order of its bytes.
        value_coder: of the values.

    Raises:
        ConfigurationError: the coder of the keys is not deterministic.
    """

    _kind = _field = "multimap"


class SortedMultimapStateSpec(KeyedStateSpec):
    """Values in the order of their keys; a DoFn gets a :class:`SortedMultimapRuntimeState`.

    Args:
        name: by which the state is known within the DoFn.
        key_coder: of the keys, one that keeps their order: see :mod:`sparkbeam.coders`.
        value_coder: of the values.

    Raises:
        ConfigurationError: the coder does not keep the order of the keys; the message names the
            one that does.
    """

    _kind, _field = "sorted_multimap", "multimap"

    def _checked(self, coder: Coder) -> Coder:
        if not preserves_order(coder):
            raise ConfigurationError(
                f"key_coder={shown(coder)} of state '{self.name}' does not keep the order of the "
                f"keys: take {instead_of(coder)}."
            )
        return super()._checked(coder)


class Later(Protocol[T_co]):
    """A read that is announced by the ``read_later()`` of a state.

    The first read of any state of the key fetches what all announced reads need, as far as memory
    has room. An announcement holds until then, or until the bundle ends; a read sees all that is
    written before it, be it after the announcement.
    """

    def read(self) -> T_co:
        """Reads what was announced."""
        ...


class MapRuntimeState(RuntimeState, Generic[K, V]):
    """A value for each key."""

    def put(self, key: K, value: V) -> None:
        """Sets the value of a key, in the place of the one that it has."""
        raise NotImplementedError(type(self))

    def get(self, key: K, default: Any = None) -> V | Any:
        """The value of a key, or the default where it has none."""
        raise NotImplementedError(type(self))

    def put_if_absent(self, key: K, value: V) -> V | None:
        """Sets the value of a key that has none; the value of one that has, else None."""
        raise NotImplementedError(type(self))

    def remove(self, key: K) -> None:
        """Removes a key, if it is there."""
        raise NotImplementedError(type(self))

    def read_later(self, *keys: K) -> Later[Iterable[tuple[K, V]]]:
        """Announces a read of keys, by whatever method; of all where none is given.

        The entries are those of the given keys that are there, in their order.
        """
        raise NotImplementedError(type(self))

    def keys(self) -> Iterable[K]:
        """All keys, in the order of their encodings."""
        raise NotImplementedError(type(self))

    def values(self) -> Iterable[V]:
        """The values of all keys, in the order of these."""
        raise NotImplementedError(type(self))

    def entries(self) -> Iterable[tuple[K, V]]:
        """All keys with their values, in the order of the keys."""
        raise NotImplementedError(type(self))

    def is_empty(self) -> bool:
        """Whether there is no key."""
        raise NotImplementedError(type(self))

    def clear(self) -> None:
        """Removes all keys."""
        raise NotImplementedError(type(self))


class MultimapRuntimeState(RuntimeState, Generic[K, V]):
    """Values for each key, in the order in which they were put."""

    def put(self, key: K, value: V) -> None:
        """Adds a value to those of a key."""
        raise NotImplementedError(type(self))

    def get(self, key: K) -> Iterable[V]:
        """The values of a key, in the order in which they were put."""
        raise NotImplementedError(type(self))

    def contains_key(self, key: K) -> bool:
        """Whether a key has values."""
        raise NotImplementedError(type(self))

    def remove(self, key: K) -> None:
        """Removes a key with its values, if it is there."""
        raise NotImplementedError(type(self))

    def read_later(self, *keys: K) -> Later[Iterable[tuple[K, V]]]:
        """Announces a read of keys, by whatever method; of all where none is given."""
        raise NotImplementedError(type(self))

    def keys(self) -> Iterable[K]:
        """All keys, each once, in the order of their encodings."""
        raise NotImplementedError(type(self))

    def entries(self) -> Iterable[tuple[K, V]]:
        """Each value with its key, in the order of the keys."""
        raise NotImplementedError(type(self))

    def is_empty(self) -> bool:
        """Whether there is no value."""
        raise NotImplementedError(type(self))

    def clear(self) -> None:
        """Removes all values."""
        raise NotImplementedError(type(self))


class SortedMultimapRuntimeState(MultimapRuntimeState[K, V]):
    """Values in the order of their keys, and for one key in the order in which they were put.

    The bounds of a range belong to it. ``reverse=True`` gives a range from its end on.
    """

    def read_later(
        self, *keys: K, low: K | None = None, high: K | None = None
    ) -> Later[Iterable[tuple[K, V]]]:
        """Announces a read of keys, and of the range between two, by whatever method.

        Without arguments it is one of all keys. Of a key also its ``floor`` is there, most often.
        """
        raise NotImplementedError(type(self))

    def all_entries(self, *, reverse: bool = False) -> Iterable[tuple[K, V]]:
        """All entries."""
        raise NotImplementedError(type(self))

    def entries_until(self, limit: K, *, reverse: bool = False) -> Iterable[tuple[K, V]]:
        """The entries up to a key."""
        raise NotImplementedError(type(self))

    def entries_from(self, low: K, *, reverse: bool = False) -> Iterable[tuple[K, V]]:
        """The entries from a key on."""
        raise NotImplementedError(type(self))

    def entries_between(self, low: K, high: K, *, reverse: bool = False) -> Iterable[tuple[K, V]]:
        """The entries from one key to another."""
        raise NotImplementedError(type(self))

    def floor(self, key: K) -> tuple[K, list[V]] | None:
        """The closest key at or below one, with its values; None if there is none."""
        raise NotImplementedError(type(self))

    def ceiling(self, key: K) -> tuple[K, list[V]] | None:
        """The closest key at or above one, with its values; None if there is none."""
        raise NotImplementedError(type(self))

    def first(self) -> tuple[K, list[V]] | None:
        """The first key with its values; None if there is none."""
        raise NotImplementedError(type(self))

    def last(self) -> tuple[K, list[V]] | None:
        """The last key with its values; None if there is none."""
        raise NotImplementedError(type(self))

    def remove_until(self, limit: K) -> None:
        """Removes the entries up to a key."""
        raise NotImplementedError(type(self))

    def remove_between(self, low: K, high: K) -> None:
        """Removes the entries from one key to another."""
        raise NotImplementedError(type(self))


def check_runner(transform: Any, pcollection: Any) -> None:
    """Raises ConfigurationError where a DoFn asks for one of these states on another runner."""
    runner = runner_below(pcollection.pipeline.runner)
    if any(kind.__module__.startswith("sparkbeam.") for kind in type(runner).__mro__):
        return
    home = type(runner).__module__.partition(".")[0]
    for spec in _specs(transform.fn):
        raise ConfigurationError(
            f"Transform '{transform.label}' asks for {type(spec).__name__} '{spec.name}', which "
            f"{home}'s {type(runner).__name__} does not have: run it on sparkbeam.SparkRunner, or, "
            "where the keys are timestamps, take Beam's OrderedListStateSpec."
        )


def _specs(fn: DoFn) -> list[KeyedStateSpec]:
    found = [spec for spec in get_dofn_specs(fn)[0] if isinstance(spec, KeyedStateSpec)]
    return sorted(found, key=lambda spec: spec.name)


before_par_dos(check_runner)
