"""Configurations of managed transforms."""

from collections.abc import Iterable, Mapping
from typing import Any

import yaml

from sparkbeam.common.arguments import listed, nearest, shown
from sparkbeam.errors import ConfigurationError

SECRET_MANAGER = "secret_manager"


def no_secret_manager(name: str, secret: str) -> str:
    """Return the problem of a transform that is to get a secret from a manager of secrets.

    Args:
        secret: the option that has the secret.
    """
    return (
        f"{name} is not supported: no secret manager is queried for {secret}. Read the secret in "
        f"the program, for example from os.environ, pass it as {secret}, and leave {name} out."
    )


class ManagedConfig:
    """Keys of a configuration, each of which must be taken.

    Args:
        name: of the transform in messages.
        shown_as: the user's names of keys, by the key; a key that is missing has its own name.
    """

    def __init__(
        self, name: str, given: Mapping[str, Any], shown_as: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        self._shown_as = shown_as or {}
        self._given = {key: value for key, value in given.items() if value is not None}
        self._known: set[str] = set()

    def text(self, key: str) -> str:
        """Return a string; empty if it is missing."""
        return str(self._value(key, (str,), "a string") or "")

    def required(self, key: str, *, may_be_list: bool = False) -> str:
        """Return a string that must be there.

        Args:
            may_be_list: it may be given as a list, whose items are joined with commas.

        Raises:
            ConfigurationError: it is missing.
        """
        is_list = may_be_list and isinstance(self._given.get(key), list | tuple)
        found = ",".join(self.names(key)) if is_list else self.text(key)
        if not found:
            name = self.shown_as(key)
            raise ConfigurationError(
                f"{self.name}: the configuration needs {shown(name)}{self.doubtful([name])}."
            )
        return found

    def number(self, key: str) -> int | None:
        """Return an integer; None if it is missing."""
        found: int | None = self._value(key, (int,), "a whole number")
        return found

    def flag(self, key: str) -> bool:
        """Return a bool; False if it is missing."""
        return bool(self._value(key, (bool,), "true or false"))

    def names(self, key: str) -> tuple[str, ...]:
        """Return a list of strings; empty if it is missing."""
        return tuple(map(str, self._value(key, (list, tuple), "a list") or ()))

    def texts(self, key: str) -> dict[str, str]:
        """Return a dictionary of strings; empty if it is missing."""
        return {
            str(name): str(value).lower() if isinstance(value, bool) else str(value)
            for name, value in self.mapping(key).items()
        }

    def mapping(self, key: str) -> dict[Any, Any]:
        """Return a dictionary; empty if it is missing."""
        return self._value(key, (dict,), "a dictionary") or {}

    def tree(self, key: str) -> dict[str, Any] | None:
        """Return a dictionary, which may be given as YAML or JSON; None if it is missing.

        Raises:
            ConfigurationError: it is something else.
        """
        found = self._value(key, (str, dict), "a dictionary")
        try:
            tree = yaml.safe_load(found) if isinstance(found, str) else found
        except yaml.YAMLError:
            tree = ""
        if tree is not None and not isinstance(tree, dict):
            raise ConfigurationError(
                f"{self.name}: {shown(self.shown_as(key))} must be a dictionary."
            )
        return tree

    def has(self, key: str) -> bool:
        """Return whether a key has a value."""
        self._known.add(key)
        return bool(self._given.get(key))

    def ignore(self, *keys: str) -> None:
        """Accept keys without a meaning here."""
        self._known.update(keys)

    def finish(self) -> None:
        """Check that all keys are known.

        Raises:
            ConfigurationError: one is not.
        """
        unknown = [key for key in self._given if key not in self._known]
        manager = next((key for key in unknown if key.startswith(SECRET_MANAGER)), None)
        if manager is not None:
            raise ConfigurationError(f"{self.name}: {no_secret_manager(manager, 'the secret')}")
        if unknown:
            known = sorted(map(self.shown_as, self._known))
            near = {key: nearest(key, known) for key in unknown}
            meant = [f" For {shown(key)} use {shown(name)}." for key, name in near.items() if name]
            raise ConfigurationError(
                f"{self.name}: the configuration has {listed(unknown)}, which is not supported."
                f"{''.join(meant)} Supported keys are {', '.join(known)}."
            )

    def doubtful(self, names: Iterable[str]) -> str:
        """Return a clause on a given key that resembles one of some names; empty for none."""
        wanted = [*names]
        found = [key for key in map(self.shown_as, self._given) if nearest(key, wanted)]
        return f"; it has {listed(map(shown, found))}" if found else ""

    def shown_as(self, key: str) -> str:
        """Return the user's name of a key."""
        return self._shown_as.get(key, key)

    def _value(self, key: str, kinds: tuple[type, ...], what: str) -> Any:
        self._known.add(key)
        found = self._given.get(key)
        is_flag = isinstance(found, bool) and bool not in kinds
        if found is not None and (is_flag or not isinstance(found, kinds)):
            raise ConfigurationError(
                f"{self.name}: {shown(self.shown_as(key))} in the configuration must be {what}, "
                f"not of type {type(found).__name__}."
            )
        return found


def loaded(name: str, text: str, url: str | None) -> ManagedConfig:
    """Parse a configuration.

    Args:
        name: of the transform in messages.
        url: of a file of YAML that is used instead; None for none.

    Raises:
        ConfigurationError: it cannot be read, or is not a dictionary; both are given.
    """
    found = yaml.safe_load(text)
    if url:
        if found:
            raise ConfigurationError(f"{name}: give config or config_url, not both.")
        found = _of_file(name, url)
    if not isinstance(found, Mapping) or not all(isinstance(key, str) for key in found):
        hint = "; parse JSON text with json.loads" if isinstance(found, str) else ""
        raise ConfigurationError(f"{name}: the configuration must be a dictionary{hint}.")
    return ManagedConfig(name, found)


def _of_file(name: str, url: str) -> Any:
    from apache_beam.io.filesystems import FileSystems  # Data sources with hooks need no Beam.

    try:
        with FileSystems.open(url) as file:
            return yaml.safe_load(file.read())
    except Exception as error:  # File systems of Beam without their client raise any.
        raise ConfigurationError(
            f"{name}: config_url={shown(url)} cannot be read as YAML ({type(error).__name__})."
        ) from None


def one_of(config: ManagedConfig, *values: tuple[str, str]) -> None:
    """Raise a :class:`ConfigurationError` unless exactly one of some keys is given."""
    given = [name for name, value in values if value]
    if len(given) != 1:
        names = [config.shown_as(name) for name, _ in values]
        unknown = "" if given else config.doubtful(names)
        raise ConfigurationError(
            f"{config.name}: give either {' or '.join(names)} in the configuration{unknown}."
        )
