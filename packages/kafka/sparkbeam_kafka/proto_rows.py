"""Rows of protocol buffers, whose classes come from a file of descriptors."""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Optional

import apache_beam as beam
from apache_beam.io.filesystems import FileSystems
from apache_beam.typehints import schemas
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError

from sparkbeam.common.arguments import listed, shown
from sparkbeam.errors import ConfigurationError

REMEDY = "protoc --include_imports --descriptor_set_out=FILE writes the file"
_TYPES: Mapping[int, type] = {
    FieldDescriptor.CPPTYPE_INT32: int,
    FieldDescriptor.CPPTYPE_INT64: int,
    FieldDescriptor.CPPTYPE_UINT32: int,
    FieldDescriptor.CPPTYPE_UINT64: int,
    FieldDescriptor.CPPTYPE_DOUBLE: float,
    FieldDescriptor.CPPTYPE_FLOAT: float,
    FieldDescriptor.CPPTYPE_BOOL: bool,
    FieldDescriptor.CPPTYPE_ENUM: str,
}
"""Types of fields other than texts, bytes and messages; an enum is its name."""

_LARGEST = 2**63 - 1


def messages(name: str, path: str, message: str) -> "Messages":
    """Return a class of messages.

    Args:
        name: of the transform, for errors.

    Raises:
        ConfigurationError: the file cannot be read, or lacks the class; no row can hold a message.
    """
    try:
        with FileSystems.open(path) as file:
            found = Messages(file.read(), message)
        _schema(found.descriptor, ())
    except (OSError, DecodeError, TypeError) as error:
        raise ConfigurationError(
            f"{name}: file_descriptor_path={shown(path)} cannot be read as a descriptor set "
            f"({type(error).__name__}); {REMEDY}."
        ) from None
    except KeyError:
        raise ConfigurationError(
            f"{name}: file_descriptor_path={shown(path)} has no message {shown(message)}; give "
            "message_name with its package, such as 'shop.Order'."
        ) from None
    except ValueError as error:
        raise ConfigurationError(f"{name}: {error}") from None
    return found


class Messages:
    """A class of messages, by its descriptor.

    Args:
        files: a serialized FileDescriptorSet.
    """

    def __init__(self, files: bytes, name: str) -> None:
        self._files = files
        self._name = name

    @property
    def descriptor(self) -> Descriptor:
        """The descriptor of the class."""
        return _descriptor(self._files, self._name)

    @property
    def schema(self) -> Any:
        """Beam's schema of the rows."""
        return _schema(self.descriptor, ())

    def row(self, data: bytes) -> beam.Row:
        """Return a message as a row.

        Raises:
            DecodeError: the bytes are no such message.
        """
        message = message_factory.GetMessageClass(self.descriptor)()
        message.ParseFromString(data)
        return _row(message)

    def encoded(self, row: Any) -> bytes:
        """Return a row as a message.

        Raises:
            TypeError, ValueError: a value does not fit its field.
        """
        message = message_factory.GetMessageClass(self.descriptor)()
        _fill(message, _items(row))
        encoded: bytes = message.SerializeToString(deterministic=True)
        return encoded

    def check(self, name: str, fields: list[str]) -> None:
        """Check that all fields of rows are fields of the messages.

        Raises:
            ConfigurationError: one is not.
        """
        unknown = [one for one in fields if one not in self.descriptor.fields_by_name]
        if unknown:
            raise ConfigurationError(
                f"{name}: the rows have {listed(unknown)}, which message {shown(self._name)} "
                "does not have: drop them before the write."
            )


@lru_cache(maxsize=100)
def _descriptor(files: bytes, name: str) -> Descriptor:
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(files).file:
        pool.Add(file)
    return pool.FindMessageTypeByName(name)


def _schema(message: Descriptor, outer: tuple[str, ...]) -> Any:
    return schemas.schema_from_element_type(_type(message, outer))


def _type(message: Descriptor, outer: tuple[str, ...]) -> Any:
    """Return the type of rows.

    Raises:
        ValueError: a message contains itself.
    """
    if message.full_name in outer:
        raise ValueError(f"Message {shown(message.full_name)} contains itself, which a row cannot.")
    within = (*outer, message.full_name)
    fields = [(one.name, _type_of_field(one, within)) for one in message.fields]
    return beam.typehints.row_type.RowTypeConstraint.from_fields(fields)


def _type_of_field(field: FieldDescriptor, outer: tuple[str, ...]) -> Any:
    if _is_map(field):
        key, value = (field.message_type.fields_by_name[one] for one in ("key", "value"))
        return beam.typehints.Dict[_type_of_one(key, outer), _type_of_one(value, outer)]
    found = _type_of_one(field, outer)
    if _is_repeated(field):
        return beam.typehints.List[found]
    return Optional[found] if _may_be_none(field) else found  # noqa: UP045 - Beam's own types.


def _type_of_one(field: FieldDescriptor, outer: tuple[str, ...]) -> Any:
    if field.message_type is not None:
        return _type(field.message_type, outer)
    if field.type == FieldDescriptor.TYPE_BYTES:
        return bytes
    return _TYPES.get(field.cpp_type, str)


def _is_map(field: FieldDescriptor) -> bool:
    message = field.message_type
    return message is not None and message.GetOptions().map_entry


def _is_repeated(field: FieldDescriptor) -> bool:
    found: bool | None = getattr(field, "is_repeated", None)  # Since protobuf 6.30.
    return field.label == FieldDescriptor.LABEL_REPEATED if found is None else found


def _may_be_none(field: FieldDescriptor) -> bool:
    needed: bool | None = getattr(field, "is_required", None)
    if needed is None:
        needed = field.label == FieldDescriptor.LABEL_REQUIRED
    return field.has_presence and not needed


def _row(message: Any) -> beam.Row:
    return beam.Row(**{one.name: _value(message, one) for one in message.DESCRIPTOR.fields})


def _value(message: Any, field: FieldDescriptor) -> Any:
    if _may_be_none(field) and not message.HasField(field.name):
        return None
    value = getattr(message, field.name)
    if _is_map(field):
        of_one = _from(field.message_type.fields_by_name["value"])
        return {key: of_one(value[key]) for key in value}
    return list(map(_from(field), value)) if _is_repeated(field) else _from(field)(value)


def _from(field: FieldDescriptor) -> Callable[[Any], Any]:
    """Return the function that makes the value in a row of one in a message."""
    if field.message_type is not None:
        return _row
    if field.enum_type is not None:
        values = field.enum_type.values_by_number
        return lambda number: values[number].name if number in values else str(number)
    return _within if field.cpp_type == FieldDescriptor.CPPTYPE_UINT64 else _same


def _within(number: int) -> int:
    if number > _LARGEST:
        raise ValueError(f"{number} is too large for a 64-bit integer in a row.")
    return number


def _same(value: Any) -> Any:
    return value


def _fill(message: Any, values: Mapping[str, Any]) -> None:
    """Set the fields of a message; None is none."""
    for name, value in values.items():
        if value is None:
            continue
        field = message.DESCRIPTOR.fields_by_name[name]
        if _is_map(field):
            _fill_map(getattr(message, name), value, field.message_type.fields_by_name["value"])
        elif _is_repeated(field) and field.message_type is not None:
            for one in value:
                _fill(getattr(message, name).add(), _items(one))
        elif _is_repeated(field):
            getattr(message, name).extend(map(_into(field), value))
        elif field.message_type is not None:
            found = getattr(message, name)
            found.SetInParent()
            _fill(found, _items(value))
        else:
            setattr(message, name, _into(field)(value))


def _fill_map(found: Any, value: Mapping[Any, Any], field: FieldDescriptor) -> None:
    for key, one in value.items():
        if field.message_type is not None:
            _fill(found[key], _items(one))
        else:
            found[key] = _into(field)(one)


def _into(field: FieldDescriptor) -> Callable[[Any], Any]:
    """Return the function that makes the value in a message of one in a row."""
    if field.enum_type is None:
        return _same
    values = field.enum_type.values_by_name
    return lambda value: values[value].number if isinstance(value, str) else value


def _items(row: Any) -> Mapping[str, Any]:
    if isinstance(row, Mapping):
        return row
    found: Mapping[str, Any] = row._asdict() if hasattr(row, "_asdict") else row.as_dict()
    return found
