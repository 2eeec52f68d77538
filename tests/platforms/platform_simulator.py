"""Platforms with restrictions: a Spark Connect server behind a proxy with a policy per user."""

import shlex
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from connect_server import LOOPBACK, ConnectServer
from policies import Policy
from proxy import Proxy

_SETTINGS = {
    # Each session has its own workers, and these know it.
    "spark.sql.artifact.isolation.enabled": "true",
    "spark.sql.artifact.isolation.alwaysApplyClassloader": "true",
    # The default of the platforms that let nobody set it.
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.shuffle.partitions": "2",
}

_PYTHON = """#!/bin/bash
shopt -s extglob
# Functions of foreachBatch get a session of their own.
SPARK_CONNECT_LOCAL_URL=${{SPARK_CONNECT_LOCAL_URL/localhost:+([0-9])/{address}}}
python={python}
export VOLUME={volume}
before={folder}/$SPARK_JOB_ARTIFACT_UUID
[ -n "$SPARK_JOB_ARTIFACT_UUID" ] && [ -f "$before" ] && . "$before"
exec "$python" "$@"
"""


class Simulator:
    """Runs as long as the context lasts.

    Args:
        folder: for files of the server.
        policies: policies by name.
        conf: settings of the server.

    Attributes:
        proxy: what clients talk to.
        volume: a folder that the workers of all platforms may write to.
    """

    def __init__(
        self,
        folder: Path,
        policies: Mapping[str, Policy],
        conf: Mapping[str, str] | None = None,
    ) -> None:
        self.volume = folder / "volume"
        self.volume.mkdir()
        self._sessions = folder / "sessions"
        self._sessions.mkdir()
        python = folder / "python"
        self._server = ConnectServer(folder, python=str(python), conf={**_SETTINGS, **(conf or {})})
        self.proxy = Proxy(f"{LOOPBACK}:{self._server.port}", policies, self._prepare)
        python.write_text(
            _PYTHON.format(
                address=f"{LOOPBACK}:{self.proxy.port}",
                folder=shlex.quote(str(self._sessions)),
                volume=shlex.quote(str(self.volume)),
                python=shlex.quote(sys.executable),
            )
        )
        python.chmod(0o755)
        self._stack = ExitStack()

    def session(self, name: str) -> Any:
        """Return a new session under a policy."""
        from pyspark.sql import SparkSession

        return SparkSession.builder.remote(self.proxy.url(name)).create()

    def __enter__(self) -> Self:
        self._stack.enter_context(self._server)
        self._stack.enter_context(self.proxy)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _prepare(self, session_id: str, policy: Policy) -> None:
        (self._sessions / session_id).write_text(policy.worker)
