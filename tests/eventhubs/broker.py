"""A broker of Kafka that lets in whoever knows a connection string, as the Kafka endpoint does."""

import os
import signal
import socket
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Self

import pyspark

PORT = 9092
"""That of an emulator's Kafka endpoint."""

PACKAGE = "org.apache.kafka:kafka_2.13:3.9.1"

_START_SECONDS = 120
_PROPERTIES = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=SASL_PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=SASL_PLAINTEXT://localhost:{port}
listener.security.protocol.map=SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT
controller.listener.names=CONTROLLER
inter.broker.listener.name=SASL_PLAINTEXT
sasl.enabled.mechanisms=PLAIN
sasl.mechanism.inter.broker.protocol=PLAIN
listener.name.sasl_plaintext.plain.sasl.jaas.config=\
org.apache.kafka.common.security.plain.PlainLoginModule required username="broker" \
password="b" user_broker="b" user_$ConnectionString="{text}";
log.dirs={data}
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
group.initial.rebalance.delay.ms=0
log.cleaner.enable=false
num.partitions={partitions}
"""
_CLUSTER = "version=1\nnode.id=1\ncluster.id=MkU3OEVBNTcwNTJENDM2Qg\n"


class NoBrokerError(Exception):
    """It cannot be had here: the port is in use, or the package is out of reach."""


class Broker:
    """A context manager; topics are there when somebody asks for them.

    Args:
        text: the connection string.
        partitions: of each topic.
        folder: for its files.

    Raises:
        NoBrokerError: on entering.
    """

    def __init__(self, text: str, partitions: int, folder: Path) -> None:
        self._text = text
        self._partitions = partitions
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        if _answers(PORT):
            raise NoBrokerError(f"port {PORT} is in use")
        data = self._folder / "data"
        data.mkdir(parents=True)
        (data / "meta.properties").write_text(_CLUSTER)
        properties = self._folder / "server.properties"
        properties.write_text(
            _PROPERTIES.format(
                controller=_free_port(),
                port=PORT,
                text=self._text,
                data=data,
                partitions=self._partitions,
            )
        )
        log = self._folder / "broker.log"
        submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
        with log.open("wb") as output:
            # Spark fetches the package with all that it needs, and starts its main class.
            self._process = subprocess.Popen(
                [
                    *(str(submit), "--packages", PACKAGE, "--driver-memory", "256m"),
                    *("--class", "kafka.Kafka", "spark-internal", str(properties)),
                ],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        end = time.monotonic() + _START_SECONDS
        while not _answers(PORT):
            if self._process.poll() is not None or time.monotonic() > end:
                self._end()
                raise NoBrokerError(log.read_text(errors="replace")[-2000:])
            time.sleep(0.2)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end()

    def _end(self) -> None:
        assert self._process is not None
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port
