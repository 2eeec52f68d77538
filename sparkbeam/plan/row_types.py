"""Classes of the user behind schemas, so that workers put out the same classes again.

A schema travels with a coder; the class from which it was made does not. If the class is not
registered, Beam makes up one with the same fields.
"""

from collections.abc import Iterator

from apache_beam.internal import pickler
from apache_beam.portability import common_urns
from apache_beam.portability.api import beam_runner_api_pb2, schema_pb2
from apache_beam.typehints.schema_registry import SCHEMA_REGISTRY

from sparkbeam.upstream.beam import is_generated


def pickled_row_types(components: beam_runner_api_pb2.Components) -> bytes:
    """Return the user's classes of all row coders by the ids of their schemas, pickled.

    Empty if none.
    """
    found = {}
    for coder in components.coders.values():
        if coder.spec.urn == common_urns.coders.ROW.urn:
            for schema in _with_nested(schema_in(coder.spec.payload)):
                kind = SCHEMA_REGISTRY.get_typing_by_id(schema.id)
                if kind is not None and not is_generated(kind):
                    found[schema.id] = kind
    return pickler.dumps(found) if found else b""


def schema_in(payload: bytes) -> schema_pb2.Schema:
    """Return the encoded schema of rows, as in the payload of a row coder."""
    return schema_pb2.Schema.FromString(payload)


def _with_nested(schema: schema_pb2.Schema) -> Iterator[schema_pb2.Schema]:
    yield schema
    for field in schema.fields:
        yield from _of_type(field.type)


def _of_type(kind: schema_pb2.FieldType) -> Iterator[schema_pb2.Schema]:
    match kind.WhichOneof("type_info"):
        case "row_type":
            yield from _with_nested(kind.row_type.schema)
        case "array_type":
            yield from _of_type(kind.array_type.element_type)
        case "iterable_type":
            yield from _of_type(kind.iterable_type.element_type)
        case "map_type":
            yield from _of_type(kind.map_type.key_type)
            yield from _of_type(kind.map_type.value_type)
