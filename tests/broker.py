"""A broker of Kafka, with a login or without."""

import subprocess
import time
from pathlib import Path
from typing import Self

import pyspark
from command import kill, launch
from listening import answers, free_port

PACKAGE = "org.apache.kafka:kafka_2.13:3.9.1"

_START_SECONDS = 300
_PROPERTIES = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners={protocol}://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners={protocol}://localhost:{port}
listener.security.protocol.map={protocol}:{protocol},CONTROLLER:PLAINTEXT
controller.listener.names=CONTROLLER
inter.broker.listener.name={protocol}
log.dirs={data}
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
group.initial.rebalance.delay.ms=0
log.cleaner.enable=false
num.partitions={partitions}
"""
_LOGIN = """
sasl.enabled.mechanisms=PLAIN
sasl.mechanism.inter.broker.protocol=PLAIN
listener.name.sasl_plaintext.plain.sasl.jaas.config=\
org.apache.kafka.common.security.plain.PlainLoginModule required username="broker" \
password="b" user_broker="b" user_{user}="{password}";
"""
_CLUSTER = "version=1\nnode.id=1\ncluster.id=MkU3OEVBNTcwNTJENDM2Qg\n"


class NoBrokerError(Exception):
    """It cannot be had here: the port is in use, or the package is out of reach."""


class Broker:
    """A context manager; topics are there when somebody asks for them.

    Args:
        folder: for its files.
        partitions: of each topic.
        login: the user that it lets in, and the password; None for everybody.
        port: None for a free one.

    Raises:
        NoBrokerError: on entering.
    """

    def __init__(
        self,
        folder: Path,
        partitions: int = 1,
        *,
        login: tuple[str, str] | None = None,
        port: int | None = None,
    ) -> None:
        self._partitions = partitions
        self._folder = folder
        self._login = login
        self._port = port or free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self.address = f"localhost:{self._port}"

    def __enter__(self) -> Self:
        if answers(self._port):
            raise NoBrokerError(f"port {self._port} is in use")
        data = self._folder / "data"
        data.mkdir(parents=True)
        (data / "meta.properties").write_text(_CLUSTER)
        properties = _PROPERTIES.format(
            controller=free_port(),
            port=self._port,
            protocol="SASL_PLAINTEXT" if self._login else "PLAINTEXT",
            data=data,
            partitions=self._partitions,
        )
        if self._login:
            user, password = self._login
            properties += _LOGIN.format(user=user, password=password)
        (self._folder / "server.properties").write_text(properties)
        self.start()
        return self

    def start(self) -> None:
        """Starts it, with all the records that it has had before."""
        log = self._folder / "broker.log"
        submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
        # Spark fetches the package with all that it needs, and starts its main class.
        start = ["--packages", PACKAGE, "--driver-memory", "256m", "--class", "kafka.Kafka"]
        file = self._folder / "server.properties"
        self._process = launch([submit, *start, "spark-internal", file], log)
        end = time.monotonic() + _START_SECONDS
        while not answers(self._port):
            if self._process.poll() is not None or time.monotonic() > end:
                self.stop()
                raise NoBrokerError(log.read_text(errors="replace")[-2000:])
            time.sleep(0.2)

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Kills it."""
        assert self._process is not None
        kill(self._process)
