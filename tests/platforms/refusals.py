"""Errors of a platform, as a Spark Connect server sends them."""

import json
from dataclasses import dataclass, field

import grpc
from google.protobuf.any_pb2 import Any as Packed
from google.protobuf.message import Message
from google.rpc.code_pb2 import INTERNAL
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status
from grpc_status import rpc_status
from pyspark.sql.connect.proto import base_pb2

ANALYSIS = "org.apache.spark.sql.AnalysisException"
UNSUPPORTED = "java.lang.UnsupportedOperationException"


@dataclass(frozen=True)
class Refused(Exception):
    """An answer to a request that the platform does not serve.

    Attributes:
        condition: the error condition.
        state: the SQL state.
        text: the message, with its parameters.
        parameters: the parameters of the message.
        kind: the class of the exception in the JVM.
    """

    condition: str
    state: str
    text: str
    parameters: dict[str, str] = field(default_factory=dict)
    kind: str = ANALYSIS

    @property
    def message(self) -> str:
        return f"[{self.condition}] {self.text} SQLSTATE: {self.state}"

    def status(self, error_id: str) -> grpc.Status:
        """The status of the call; clients ask for :meth:`details` by the id."""
        info = ErrorInfo(
            reason=self.kind,
            domain="org.apache.spark",
            metadata={
                "classes": json.dumps(self._classes()),
                "errorClass": self.condition,
                "errorId": error_id,
                "messageParameters": json.dumps(self.parameters),
                "sqlState": self.state,
            },
        )
        packed = Packed()
        packed.Pack(info)
        status = Status(code=INTERNAL, message=self.message, details=[packed])
        return rpc_status.to_status(status)

    def details(self) -> Message:
        """The error in full, for which clients ask from PySpark 4.0 on."""
        response = base_pb2.FetchErrorDetailsResponse
        throwable = response.SparkThrowable(
            error_class=self.condition,
            message_parameters=self.parameters,
            sql_state=self.state,
        )
        error = response.Error(
            error_type_hierarchy=self._classes(), message=self.message, spark_throwable=throwable
        )
        return response(root_error_idx=0, errors=[error])

    def _classes(self) -> list[str]:
        return [self.kind, "java.lang.Exception", "java.lang.Throwable", "java.lang.Object"]
