"""The state of a program that Beam's pickler saves for ``--save_main_session``, in parts."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from apache_beam.coders import typecoders
from apache_beam.internal import pickler
from apache_beam.internal.cloudpickle import cloudpickle
from apache_beam.typehints import schemas
from apache_beam.typehints.schema_registry import SCHEMA_REGISTRY

from sparkbeam.upstream import logical_types


def saved_sessions() -> Iterator[bytes]:
    """Yield parts of the state, each of which Beam's pickler loads.

    By cloudpickle they are the coders and types that the program has registered, as functions come
    with the values of their global variables. One that cannot be pickled is left out. By dill there
    is one part, the main module as a whole.
    """
    if not pickler.is_currently_cloudpickle():
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "session")
            pickler.dump_session(str(file))
            yield file.read_bytes()
        return
    for registrations in _registrations():
        try:
            yield cloudpickle.dumps(registrations)
        except Exception:  # Whatever a class of the user does when it is pickled.
            continue


def load_sessions(parts: tuple[bytes, ...]) -> None:
    """Load the parts; of several, one whose modules are missing here keeps out no other."""
    for part in parts:
        with tempfile.NamedTemporaryFile() as file:
            file.write(part)
            file.flush()
            try:
                pickler.load_session(file.name)
            except Exception:
                if not pickler.is_currently_cloudpickle():
                    raise


def _registrations() -> Iterator[dict[str, Any]]:
    """Yield each registered coder and type in the form of Beam's saved session."""
    for pair in typecoders.registry.get_custom_type_coder_tuples():
        yield _session(coder=[pair])
    for urn, kind in logical_types.custom().items():
        registry = schemas.LogicalTypeRegistry()
        registry.add(urn, kind)
        yield _session(logical_type=registry)
    for id, kind in SCHEMA_REGISTRY.get_registered_typings().items():
        yield _session(schema={id: kind})


def _session(**registrations: Any) -> dict[str, Any]:
    empty = {"coder": [], "logical_type": schemas.LogicalTypeRegistry(), "schema": {}}
    return empty | registrations
