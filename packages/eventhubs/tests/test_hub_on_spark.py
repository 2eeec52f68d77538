"""Pipelines over event hubs on Spark, and that what they leave behind has no secret in it."""

from base64 import b64encode
from collections import Counter
from datetime import timedelta
from pathlib import Path
from urllib.parse import quote

import pytest
from command import python
from hubs import EARLY, numbered

from pyspark_eventhubs.testing import EventHubsServer

PROGRAM = Path(__file__).with_name("hub_program.py")
KEY, WRONG_KEY = "Zy8rc2VjcmV0K2tleS9vZi9hbGw9PQ==", "Zy8rd3JvbmcrL3NlY3JldC9rZXk/PT0="


def bodies(server: EventHubsServer, hub: str, partitions: int) -> list[bytes]:
    return [event.body for at in range(partitions) for event in server.events(hub, at)]


@pytest.mark.timeout(300)
def test_streams_and_batches_are_whole_and_leave_no_secret(tmp_path: Path) -> None:
    (tmp_path / "events").mkdir()
    hubs = {"in": 4, "out": 2, "counts": 1, "once": 1}
    with EventHubsServer(hubs, key=KEY) as server:
        for at in range(1000):
            time = EARLY + timedelta(milliseconds=40 * at)
            key = "even" if at % 2 == 0 else "odd"
            server.send("in", numbered(1, at), partition=at % 3, partition_key=key, enqueued=time)
        hub = server.connection_string()
        run = python(PROGRAM, tmp_path, HUB=hub, KEY=KEY, WRONG_KEY=WRONG_KEY)
        output = run.stdout + run.stderr
        out = Counter(bodies(server, "out", 2))
        assert set(out) == set(numbered(1000)), "nothing is lost"
        assert max(out.values()) == 2, "the last micro-batch has been sent again"
        assert sorted(bodies(server, "once", 1)) == sorted(numbered(1000)), "and is once here"
        counts = [body.decode().split("=") for body in bodies(server, "counts", 1)]
        assert {key for key, _ in counts} == {"even", "odd"}
        assert {number for _, number in counts} == {"125"}, "10 s of one key"

    assert output.count("FAILED") == 1, output
    left = {str(path): path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert any("events/" in name for name in left), "there is an event log"
    shown = {Path(name).name for name in left if name.endswith(".shown")}
    assert {"stream-page.shown", "batch-environment.shown"} <= shown, "and there are pages"
    for name in ("stream", "batch"):
        told = left[str(tmp_path / f"{name}-told.shown")].decode()
        assert told.count("ReadFromEventHubs") > 1, "and explanations of a run, and before one"
    left["the output"] = output.encode()
    for key in (KEY, WRONG_KEY):
        for form in (key, quote(key, safe=""), b64encode(key.encode()).decode().rstrip("=")):
            assert [name for name, content in left.items() if form.encode() in content] == []
