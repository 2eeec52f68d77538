"""Parts of requests to a Spark Connect server."""

from collections.abc import Iterator

from google.protobuf.message import Message
from pyspark.sql.connect.proto import AddArtifactsRequest, Command, Plan, Relation


def opened(plan: Plan) -> Plan:
    """Uncompress a plan in place; those of PySpark before 4.1 never are compressed."""
    if "compressed_operation" in Plan.DESCRIPTOR.fields_by_name and plan.HasField(
        "compressed_operation"
    ):
        import zstandard

        operation = plan.compressed_operation
        is_root = operation.op_type == Plan.CompressedOperation.OpType.OP_TYPE_RELATION
        data = zstandard.decompress(operation.data)
        part: Message = plan.root if is_root else plan.command
        part.ParseFromString(data)
    return plan


def parts(message: Message) -> Iterator[Message]:
    """Yield a message and all within it, outer ones first."""
    left = [message]
    while left:
        one = left.pop()
        yield one
        for field, value in one.ListFields():
            if field.message_type is None:
                continue
            if isinstance(value, Message):
                left.append(value)
            elif field.message_type.GetOptions().map_entry:
                left += [item for item in value.values() if isinstance(item, Message)]
            else:
                left += value


def relations(message: Message) -> list[Relation]:
    """The relations of a message, inner ones first."""
    return [part for part in reversed([*parts(message)]) if isinstance(part, Relation)]


def commands(message: Message) -> list[Command]:
    return [part for part in parts(message) if isinstance(part, Command)]


def statements(message: Message) -> list[str]:
    """The texts of SQL."""
    texts = [relation.sql.query for relation in relations(message) if relation.HasField("sql")]
    texts += [command.sql_command.sql for command in commands(message)]
    return [text for text in texts if text]


def artifacts(request: AddArtifactsRequest) -> list[tuple[str, int]]:
    """Names and sizes in bytes of the artifacts that begin in a request."""
    if request.HasField("begin_chunk"):
        return [(request.begin_chunk.name, request.begin_chunk.total_bytes)]
    return [(one.name, len(one.data.data)) for one in request.batch.artifacts]
