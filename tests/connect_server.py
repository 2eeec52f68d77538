"""A Spark Connect server in a process of its own."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Self

import pyspark
from command import kill, launch
from listening import answers, free_port
from waiting import until

SUBMIT = Path(pyspark.__file__).parent / "bin" / "spark-submit"
SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"
# It is a package of its own before Spark 4.
_OWN_PACKAGE = (
    [f"--packages=org.apache.spark:spark-connect_2.12:{pyspark.__version__}"]
    if pyspark.__version__.startswith("3.")
    else []
)
_START = ["--class", SERVER, "--master=local[2]", "spark-internal"]
LOOPBACK = "127.0.0.1"
TOKEN = "SPARK_CONNECT_AUTHENTICATE_TOKEN"
"""Would be the token of another server of this process."""


class ConnectServer:
    """Runs as long as the context lasts.

    Args:
        folder: for its log and its working directory.
        python: runs its workers.
        conf: settings beside those that keep it on this machine.
    """

    def __init__(
        self, folder: Path, *, python: str = sys.executable, conf: Mapping[str, str] | None = None
    ) -> None:
        self.port = free_port()
        self._folder = folder
        self._log = folder / "log"
        self._python = python
        self._conf = {
            "spark.connect.grpc.binding.address": LOOPBACK,
            "spark.connect.grpc.binding.port": str(self.port),
            "spark.driver.bindAddress": LOOPBACK,
            "spark.driver.host": LOOPBACK,
            "spark.sql.shuffle.partitions": "4",
            "spark.ui.enabled": "false",
            **(conf or {}),
        }

    @property
    def url(self) -> str:
        return f"sc://{LOOPBACK}:{self.port}"

    def __enter__(self) -> Self:
        arguments = [f"--conf={key}={value}" for key, value in self._conf.items()]
        command = [SUBMIT, *_OWN_PACKAGE, *arguments, *_START]
        environment = self._environment()
        self._process = launch(command, self._log, cwd=self._folder, env=environment)
        try:
            until(self._answers)
        except BaseException:
            kill(self._process)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        kill(self._process)

    def _environment(self) -> dict[str, str]:
        environment = {**os.environ, "PYSPARK_PYTHON": self._python}
        environment.pop(TOKEN, None)
        return environment

    def _answers(self) -> bool:
        assert self._process.poll() is None, self._log.read_text()
        return answers(self.port)
