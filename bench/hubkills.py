"""A stream from one event hub to another whose processes are killed at random moments.

Run with ``python bench/hubkills.py --kills 100 --seed 1``. A stand-in for Spark takes the place of
Spark, so that a start takes milliseconds: a driver process with Spark's logs of offsets and commits
plans micro-batches of the data source, two worker processes in turn, each with a task at a time,
read them into files that a repeat replaces, and send them on to another hub. Killed are drivers and
workers; a driver is also stopped, replaced and woken again; receivers are stolen and connections
reset. The files have to hold each event once, and so does the other hub without repeats.

``--kills 0 --seconds 600`` tells how many connections and receivers a long run takes.
"""

import argparse
import contextlib
import json
import multiprocessing
import os
import queue
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from pyspark_eventhubs import EventHubsSource
from pyspark_eventhubs.event_writer import HubWriter, Sending
from pyspark_eventhubs.events import EventHubsError
from pyspark_eventhubs.settings import ConnectionSettings
from pyspark_eventhubs.testing import EventHubsServer
from sparkbeam.streaming.checkpoint_files import LocalFiles, next_epoch
from sparkbeam.upstream.stream_readers import ReadMaxRows

IN, OUT = "in", "out"
PARTITIONS, WORKERS = 4, 2
KINDS = ("driver", "worker", "zombie", "steal", "reset")
MOST = 200
"""Events of a micro-batch."""

ZEROS = {str(partition): 0 for partition in range(PARTITIONS)}

CONTEXT = multiprocessing.get_context("forkserver")


def streamed(text: str, epoch: int) -> Any:
    """The data source's part on the driver and in tasks."""
    options = {
        "connectionString": text.replace("EntityPath=out", "EntityPath=in"),
        "startingPosition": "start",
        "epoch": str(epoch),
    }
    source = EventHubsSource(options)
    return source.streamReader(source.schema())


def replaced(path: Path, content: str) -> None:
    """Writes a file as a whole."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    temporary.write_text(content)
    temporary.replace(path)


def work(pipe: Any, text: str, folder: Path, epoch: int) -> None:
    """A worker: does one task after the other."""
    (folder / "workers" / str(os.getpid())).touch()
    reader = streamed(text, epoch)
    sending = Sending(ConnectionSettings(text=text), batch_bytes=1000)
    with contextlib.suppress(EOFError, OSError):  # The driver has ended.
        while True:
            batch, task, part = pipe.recv()
            try:
                bodies = passed_on(HubWriter(sending, "kills"), batch, task, reader.read(part))
            except EventHubsError as error:
                pipe.send(str(error))
                continue
            replaced(folder / "rows" / f"{batch}-{task}", json.dumps(bodies))
            pipe.send("")


def passed_on(writer: HubWriter, batch: int, task: int, found: Any) -> list[str]:
    """Sends what a task reads."""
    writer.open(task, batch)
    bodies = []
    for columns in found:
        for body in columns["body"].to_pylist():
            bodies.append(body.decode())
            writer.process(body)
    writer.close(None)
    return bodies


class Workers:
    """As Spark's: a task goes to the one that has been idle for longest.

    Args:
        arguments: what a worker needs to know.
    """

    def __init__(self, *arguments: Any) -> None:
        self._arguments = arguments
        self._idle: queue.Queue[Any] = queue.Queue()
        for _ in range(WORKERS):
            self._idle.put(self._started())

    def _started(self) -> Any:
        ours, theirs = CONTEXT.Pipe()
        CONTEXT.Process(target=work, args=(theirs, *self._arguments), daemon=True).start()
        theirs.close()
        return ours

    def run(self, job: Any) -> None:
        """Runs a task until it is done, however many workers that takes.

        Raises:
            EventHubsError: the task has failed.
        """
        while True:
            pipe = self._idle.get()
            try:
                pipe.send(job)
                failure = pipe.recv()
            except (EOFError, OSError):
                pipe = self._started()
                continue
            finally:
                self._idle.put(pipe)
            if failure:
                raise EventHubsError(failure)
            return


def planned(folder: Path, batch: int, end: str) -> None:
    """Writes the end of a micro-batch to the log.

    Raises:
        FileExistsError: another driver has planned it.
    """
    temporary = folder / f"planned-{os.getpid()}"
    temporary.write_text(end)
    try:
        os.link(temporary, folder / "offsets" / str(batch))
    finally:
        temporary.unlink()


def drive(text: str, folder: Path) -> None:
    """A driver until its end."""
    try:
        execute(text, folder)
    except (EventHubsError, FileExistsError):  # Another one has taken its place.
        os._exit(3)


def execute(text: str, folder: Path) -> None:
    """Goes on from the logs until all is done that there will be.

    Raises:
        EventHubsError: a task has failed.
        FileExistsError: another driver has planned a micro-batch.
    """
    epoch = next_epoch(LocalFiles(str(folder)))
    reader = streamed(text, epoch)
    workers = Workers(text, folder, epoch)
    offsets, commits = folder / "offsets", folder / "commits"
    batch = max((int(path.name) for path in offsets.iterdir()), default=-1)
    again = batch >= 0 and not (commits / str(batch)).exists()
    with ThreadPoolExecutor(WORKERS) as slots:
        while True:
            before = offsets / str(batch - again)
            start = json.loads(before.read_text()) if before.exists() else {IN: ZEROS}
            if not again:
                end = reader.latestOffset(start, ReadMaxRows(MOST))
                if end == start:
                    if (folder / "end").exists():
                        return
                    time.sleep(0.01)
                    continue
                batch += 1
                planned(folder, batch, json.dumps(end))
            end = json.loads((offsets / str(batch)).read_text())
            parts = reader.partitions(start, end)
            list(slots.map(workers.run, [(batch, task, part) for task, part in enumerate(parts)]))
            (commits / str(batch)).touch()
            again = False


class Run:
    """Drivers over one checkpoint, and what goes wrong.

    Args:
        server: of both hubs.
        folder: of the checkpoint and the files.
        chance: when and what.
    """

    def __init__(self, server: EventHubsServer, folder: Path, chance: random.Random) -> None:
        self._server = server
        self._folder = folder
        self._chance = chance
        self._sent = 0
        self.done: Counter[str] = Counter()
        self.drivers = 0
        for name in ("offsets", "commits", "rows", "workers"):
            (folder / name).mkdir()
        self._driver = self._started()

    def _started(self) -> Any:
        self.drivers += 1
        driver = CONTEXT.Process(
            target=drive, args=(self._server.connection_string(OUT), self._folder)
        )
        driver.start()
        return driver

    def go_on(self, seconds: float) -> None:
        """Sends events for so long, and starts the driver again if it has ended."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            bodies = [b"%d" % number for number in range(self._sent, self._sent + 20)]
            self._server.send(IN, bodies, partition=self._chance.randrange(PARTITIONS))
            self._sent += len(bodies)
            if not self._driver.is_alive():
                self._driver = self._started()
            time.sleep(0.02)

    def hit(self, kind: str) -> None:
        """Does something that goes wrong in reality."""
        self.done[kind] += 1
        match kind:
            case "driver":
                self._driver.kill()
                self._driver.join()
            case "worker":
                self._kill_worker()
            case "zombie":
                self._stop_and_wake()
            case "steal":
                self._server.steal(IN, self._chance.randrange(PARTITIONS))
            case "reset":
                self._server.reset_connection(self._chance.randrange(40))

    def _kill_worker(self) -> None:
        workers = list((self._folder / "workers").iterdir())
        self._chance.shuffle(workers)
        for path in workers:
            path.unlink()
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(path.name), signal.SIGKILL)
                return

    def _stop_and_wake(self) -> None:
        """The driver stands still until another one has taken its place, and then goes on."""
        old = self._driver
        with contextlib.suppress(ProcessLookupError):
            os.kill(old.pid, signal.SIGSTOP)
        self._driver = self._started()
        self.go_on(1)
        with contextlib.suppress(ProcessLookupError):
            os.kill(old.pid, signal.SIGCONT)
        self.go_on(0.5)
        old.kill()
        old.join()

    def finish(self) -> None:
        """Lets it come to its end, undisturbed."""
        (self._folder / "end").touch()
        while True:
            self._driver.join()
            if self._driver.exitcode == 0:
                return
            self._driver = self._started()

    def reads(self) -> tuple[int, int]:
        """How many there were in the first micro-batch, and after it."""
        found = [path.name for path in self._files()]
        first = sum(name.startswith("0-") for name in found)
        return first, len(found) - first

    def _files(self) -> list[Path]:
        found = (self._folder / "rows").iterdir()
        return [path for path in found if path.name.replace("-", "").isdecimal()]

    def differences(self) -> tuple[Counter[str], Counter[str]]:
        """How often events are in the files, and in the other hub without repeats, less once."""
        wanted = Counter(str(number) for number in range(self._sent))
        rows: Counter[str] = Counter()
        for path in self._files():
            rows.update(json.loads(path.read_text()))
        hub = Counter(self._without_repeats())
        for found in (rows, hub):
            found.subtract(wanted)
        return rows, hub

    def _without_repeats(self) -> list[str]:
        import apache_beam as beam
        from apache_beam.utils.timestamp import Timestamp

        from sparkbeam_eventhubs import EventHubsEvent
        from sparkbeam_eventhubs.repeats import DropRepeats

        events = [
            EventHubsEvent(
                e.body, at, "", e.sequence_number, Timestamp(0), None, None, e.properties, {}
            )
            for at in range(PARTITIONS)
            for e in self._server.events(OUT, at)
        ]
        print(f"The other hub has {len(events) - self._sent} repeats among {len(events)} events.")
        if len(events) == self._sent:
            return [event.body.decode() for event in events]
        path = self._folder / "once"
        with beam.Pipeline() as pipeline:
            _ = (
                pipeline
                | beam.Create(events, reshuffle=False)
                | DropRepeats()
                | beam.Map(lambda event: event.body.decode())
                | beam.io.WriteToText(str(path), shard_name_template="")
            )
        return path.read_text().split()


def main() -> None:
    """Runs the stream and judges what has come of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=0, help="how long to go on besides")
    arguments = parser.parse_args()
    chance = random.Random(arguments.seed)
    CONTEXT.set_forkserver_preload(
        [
            f"sparkbeam.{name}"
            for name in (
                "eventhubs.data_source",
                "eventhubs.amqp_client",
                "eventhubs.event_writer",
                "streaming.checkpoint_files",
            )
        ]
    )
    with (
        tempfile.TemporaryDirectory() as folder,
        EventHubsServer({IN: PARTITIONS, OUT: PARTITIONS}) as server,
    ):
        run = Run(server, Path(folder), chance)
        run.go_on(2 + arguments.seconds)
        for _ in range(arguments.kills):
            run.hit(chance.choice(KINDS))
            run.go_on(chance.uniform(0.05, 1))
        run.finish()
        batches = len(list((Path(folder) / "commits").iterdir()))
        reads = run.reads()
        counts = server.counts()
        workers = len(list((Path(folder) / "workers").iterdir())) + run.done["worker"]
        rows, hub = run.differences()
    print(", ".join(f"{kind}: {run.done[kind]}" for kind in KINDS))
    print(
        f"{batches} micro-batches, {run.drivers} drivers, {workers} workers, "
        f"{counts.connections} connections, {counts.receivers} receivers"
    )
    opened = counts.receivers - reads[0]
    print(
        f"{reads[1]} reads after the first micro-batch, which had {reads[0]}: {opened} opened a "
        f"receiver, {1 - opened / max(1, reads[1]):.3%} went on with one"
    )
    wrong = False
    for name, found in (("files", rows), ("hub", hub)):
        lost, double = (-found).total(), (+found).total()
        print(f"{name}: {lost} lost, {double} double")
        wrong = wrong or bool(lost or double)
    if wrong:
        sys.exit(1)


if __name__ == "__main__":
    main()
