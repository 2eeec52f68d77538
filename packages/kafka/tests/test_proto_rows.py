"""Protocol buffers in records of Kafka as rows."""

from functools import cache
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms import managed
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto
from in_process_batch import BatchRunner

from sparkbeam import SparkRunner
from sparkbeam_kafka import proto_rows
from sparkbeam_kafka import upstream as yaml_payloads

F = FieldDescriptorProto
PLACE = {"bootstrap_servers": "h:1", "topic": "t", "format": "PROTO"}


def _field(name: str, number: int, kind: Any, **others: Any) -> FieldDescriptorProto:
    return F(name=name, number=number, type=kind, **({"label": F.LABEL_OPTIONAL} | others))


def described() -> descriptor_pb2.FileDescriptorSet:
    """The descriptors of a shop, as ``protoc`` writes them."""
    size = descriptor_pb2.EnumDescriptorProto(name="Size")
    size.value.add(name="SMALL", number=0)
    size.value.add(name="LARGE", number=5)
    item = DescriptorProto(name="Item")
    item.field.append(_field("name", 1, F.TYPE_STRING))
    entry = DescriptorProto(name="NotesEntry", options={"map_entry": True})
    entry.field.append(_field("key", 1, F.TYPE_STRING))
    entry.field.append(_field("value", 2, F.TYPE_MESSAGE, type_name=".shop.Item"))
    order = DescriptorProto(name="Order", nested_type=[entry], oneof_decl=[{"name": "_count"}])
    order.field.extend(
        [
            _field("id", 1, F.TYPE_INT64),
            _field("price", 2, F.TYPE_DOUBLE),
            _field("size", 3, F.TYPE_ENUM, type_name=".shop.Size"),
            _field("item", 4, F.TYPE_MESSAGE, type_name=".shop.Item"),
            _field("tags", 5, F.TYPE_STRING, label=F.LABEL_REPEATED),
            _field("items", 6, F.TYPE_MESSAGE, type_name=".shop.Item", label=F.LABEL_REPEATED),
            _field(
                *("notes", 7, F.TYPE_MESSAGE),
                type_name=".shop.Order.NotesEntry",
                label=F.LABEL_REPEATED,
            ),
            _field("count", 8, F.TYPE_UINT64, oneof_index=0, proto3_optional=True),
            _field("data", 9, F.TYPE_BYTES),
            _field("paid", 10, F.TYPE_BOOL),
        ]
    )
    tree = DescriptorProto(name="Tree")
    tree.field.append(_field("child", 1, F.TYPE_MESSAGE, type_name=".shop.Tree"))
    file = descriptor_pb2.FileDescriptorProto(
        name="shop.proto",
        package="shop",
        syntax="proto3",
        enum_type=[size],
        message_type=[item, order, tree],
    )
    return descriptor_pb2.FileDescriptorSet(file=[file])


@pytest.fixture
def path(tmp_path: Path) -> str:
    file = tmp_path / "shop.desc"
    file.write_bytes(described().SerializeToString())
    return str(file)


@cache
def _order() -> Any:
    """The class of orders."""
    pool = descriptor_pool.DescriptorPool()
    pool.Add(described().file[0])
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))


def full() -> Any:
    order = _order()(id=7, price=0.5, size=5, tags=["a", "b"], count=3, data=b"\xff", paid=True)
    order.item.name = "hat"
    order.items.add(name="one")
    order.notes["k"].name = "noted"
    return order


def test_a_message_becomes_a_row(path: str) -> None:
    found = proto_rows.messages("here", path, "shop.Order").row(full().SerializeToString())
    assert found == beam.Row(
        id=7,
        price=0.5,
        size="LARGE",
        item=beam.Row(name="hat"),
        tags=["a", "b"],
        items=[beam.Row(name="one")],
        notes={"k": beam.Row(name="noted")},
        count=3,
        data=b"\xff",
        paid=True,
    )


def test_fields_that_are_not_set_have_their_defaults_or_are_none(path: str) -> None:
    found: Any = proto_rows.messages("here", path, "shop.Order").row(b"")
    assert (found.id, found.size, found.tags, found.notes, found.data) == (0, "SMALL", [], {}, b"")
    assert found.item is found.count is None


def test_an_enum_of_an_unknown_number_is_that_number(path: str) -> None:
    found: Any = proto_rows.messages("here", path, "shop.Order").row(
        _order()(size=9).SerializeToString()
    )
    assert found.size == "9"


@pytest.mark.parametrize("message", [full(), _order()()])
def test_a_row_becomes_the_message_again(path: str, message: Any) -> None:
    messages = proto_rows.messages("here", path, "shop.Order")
    data = messages.encoded(messages.row(message.SerializeToString()))
    assert _order().FromString(data) == message


def test_rows_pass_through_a_pipeline(path: str) -> None:
    messages = proto_rows.messages("here", path, "shop.Order")
    data = full().SerializeToString(deterministic=True)
    with beam.Pipeline(BatchRunner()) as pipeline:
        rows = pipeline | beam.Create([data]) | beam.Map(messages.row)
        rows.element_type = yaml_payloads.row_type(messages.schema)
        again = rows | beam.Reshuffle() | beam.Map(messages.encoded)
        assert_that(again, equal_to([data]))


def test_a_number_beyond_a_rows_integers_is_an_error(path: str) -> None:
    messages = proto_rows.messages("here", path, "shop.Order")
    with pytest.raises(ValueError, match="is too large for a 64-bit integer"):
        messages.row(_order()(count=2**63).SerializeToString())


def test_a_managed_read_has_the_fields_of_the_message(path: str) -> None:
    named = {**PLACE, "file_descriptor_path": path, "message_name": "shop.Order"}
    pipeline = beam.Pipeline(SparkRunner(), argv=["--streaming"])
    rows = pipeline | managed.Read("kafka", config=named)
    assert list(rows.element_type.__annotations__)[:4] == ["id", "price", "size", "item"]
    _ = rows | managed.Write("kafka", config=named)
