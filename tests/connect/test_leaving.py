"""The end of a program whose Spark Connect server may be gone."""

from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest
from command import python
from connect_server import LOOPBACK

PROGRAM = """
import atexit, grpc, sys
from sparkbeam.upstream.spark import leave_only_living_server

class Client:
    _channel = grpc.insecure_channel(sys.argv[1])

    def _on_exit(self):
        print("left")

client = Client()
atexit.register(client._on_exit)
leave_only_living_server(client)
"""


@pytest.mark.parametrize("is_alive", [True, False])
def test_a_client_takes_leave_of_a_living_server_alone(is_alive: bool) -> None:
    server = grpc.server(ThreadPoolExecutor(1))
    address = f"{LOOPBACK}:{server.add_insecure_port(f'{LOOPBACK}:0')}"
    server.start()
    if not is_alive:
        server.stop(None).wait()
    said = python("-c", PROGRAM, address).stdout
    server.stop(None)
    assert said.split() == ["left"] * is_alive
