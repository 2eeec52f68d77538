"""What sparkbeam starts can be reached from this machine alone."""

import contextlib
import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import json
import sys
import threading
import apache_beam as beam
import psutil
from sparkbeam import SparkRunner

found = set()
ended = threading.Event()

def look():
    own = psutil.Process()
    while not ended.wait(0.2):
        for process in (own, *own.children(recursive=True)):
            try:
                for socket in process.net_connections("inet"):
                    if socket.laddr and socket.status in (psutil.CONN_LISTEN, psutil.CONN_NONE):
                        found.add((process.name(), socket.laddr.ip))
            except psutil.Error:
                continue

thread = threading.Thread(target=look)
thread.start()
try:
    with beam.Pipeline(SparkRunner(), argv=sys.argv[2:]) as pipeline:
        pairs = pipeline | beam.Create(range(100)) | beam.Map(lambda number: (number % 3, number))
        _ = pairs | beam.GroupByKey() | beam.Map(len)
finally:
    ended.set()
    thread.join()
with open(sys.argv[1], "w") as output:
    json.dump(sorted(found), output)
"""

LOOPBACK = ("127.0.0.", "::1", "::ffff:127.0.0.")


@pytest.mark.parametrize(
    "options",
    [
        [
            "--spark_master=local[2]",
            "--spark_conf=spark.ui.enabled=true",
            "--spark_progress=on",
            "--streaming",
        ],
        ["--spark_connect=local[2]", "--spark_conf=spark.ui.enabled=true"],
    ],
    ids=["classic", "Connect"],
)
def test_all_sockets_are_on_loopback(options: list[str], tmp_path: Path) -> None:
    output = tmp_path / "sockets.json"
    command = [sys.executable, "-c", PROGRAM, str(output), *options, "--spark_conf=spark.ui.port=0"]
    with socket.socket() as other:
        # Another program on this machine has a server of Spark Connect too.
        with contextlib.suppress(OSError):
            other.bind(("127.0.0.1", 15002))
            other.listen()
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    found = [tuple(one) for one in json.loads(output.read_text())]
    assert any(name == "java" for name, _ in found)
    assert [(name, ip) for name, ip in found if not ip.startswith(LOOPBACK)] == []
