"""Measurement of a query's runtime and results."""

import json
import platform
import time
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import apache_beam as beam
from apache_beam.transforms.window import GlobalWindows

from beam_nexmark import provenance
from beam_nexmark.beam_source import NexmarkEvents
from beam_nexmark.check import verdict
from beam_nexmark.configuration import Configuration
from beam_nexmark.engine import Engine
from beam_nexmark.peak_memory import PeakMemory
from beam_nexmark.queries import QUERIES, Query
from beam_nexmark.record import QueryRun
from beam_nexmark.result_digest import Publish, Summarize, canonical, published
from beam_nexmark.stream import NexmarkStream
from sparkbeam import __version__
from sparkbeam.common.display_text import beginning
from sparkbeam.errors import ConfigurationError, SparkBeamError

_REASON_CHARACTERS = 300


@dataclass(frozen=True)
class Measurement:
    """Runs of queries under the same conditions.

    Attributes:
        configuration: of generator and queries.
        check: whether to check results, after the time has been measured.
        rate: the events per second of a stream; None for no limit.
        started: the start of the measurement, ISO 8601 in UTC.
        revision: the commit of sparkbeam, as in a :class:`~beam_nexmark.record.QueryRun`.
    """

    engine: Engine
    configuration: Configuration
    check: bool = False
    rate: float | None = None
    sql: bool = False
    started: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    revision: str | None = field(default_factory=provenance.revision)
    machine: str = field(default_factory=provenance.machine)

    def warm_up(self) -> None:
        """Run a small pipeline first, so that no query pays for the startup of the runner.

        Raises:
            ConfigurationError: the runner does not start.
        """
        small = replace(self, configuration=Configuration(events=1000), rate=None)
        try:
            self.engine.run(lambda pipeline: small._summarized(pipeline, QUERIES[0]))
        except SparkBeamError:
            raise
        except Exception as error:
            told = self.engine.name.rpartition(".")[2]
            raise ConfigurationError(f"{told} does not start: {reason(error)}.") from error

    def run(self, query: Query, repeat: int = 1) -> QueryRun:
        """Run ``query`` as repeat number ``repeat``; the returned run includes a failure."""
        run = self._announced(query, repeat)
        memory = PeakMemory()
        with memory, self._folder() as logs:
            logged = replace(self, configuration=replace(self.configuration, log_folder=logs))
            start = time.perf_counter()
            try:
                result = self.engine.run(lambda pipeline: logged._summarized(pipeline, query))
                seconds = time.perf_counter() - start
                found = published(result)
            except Exception as error:
                return replace(run, failure=reason(error))
        count, digest = found
        done = replace(run, seconds=seconds, results=count, digest=digest, peak_memory=memory.bytes)
        if not self.check:
            return done
        try:
            checked = verdict(query, self.configuration, found, self._answers)
        except Exception as error:
            checked = f"cannot be checked: {reason(error)}"
        return replace(done, checked=checked)

    def _answers(self, query: Query) -> list[Any]:
        """Return the weighted results of another run, by way of files shared with the workers."""
        unlimited = replace(self, rate=None)
        with self._folder() as folder:
            self.engine.run(
                lambda pipeline: (
                    unlimited._answered(pipeline, query)
                    | "Weigh" >> beam.Map(query.weigh)
                    | "Canonical" >> beam.Map(canonical)
                    | "All windows" >> beam.WindowInto(GlobalWindows())
                    | "Write" >> beam.io.WriteToText(f"{folder}/results")
                )
            )
            lines = [file.read_text().splitlines() for file in Path(folder).iterdir()]
        return [json.loads(line) for part in lines for line in part]

    def _answered(self, pipeline: beam.Pipeline, query: Query) -> Any:
        events = (
            NexmarkStream(self.configuration, self.rate)
            if self.engine.streaming
            else NexmarkEvents(self.configuration)
        )
        return query.build(pipeline | events, self.configuration)

    def _summarized(self, pipeline: beam.Pipeline, query: Query) -> Any:
        summary = self._answered(pipeline, query) | Summarize(query.weigh)
        return summary | "Publish" >> beam.ParDo(Publish())

    def _folder(self) -> TemporaryDirectory[str]:
        return TemporaryDirectory(prefix="sparkbeam-nexmark-", dir=self.engine.folder)

    def _announced(self, query: Query, repeat: int) -> QueryRun:
        """Return the run with everything known beforehand."""
        rate = "" if self.rate is None else f" at {self.rate:g}/s"
        form = ", in SQL" if self.sql else ""
        return QueryRun(
            started=self.started,
            repeat=repeat,
            query=query.number,
            name=query.name,
            runner=self.engine.name,
            mode=f"{f'streaming{rate}' if self.engine.streaming else 'batch'}{form}",
            events=self.configuration.events,
            configuration=self.configuration.as_dict(),
            cores=self.engine.cores,
            sparkbeam=__version__,
            beam=version("apache-beam"),
            pyspark=version("pyspark"),
            python=platform.python_version(),
            revision=self.revision,
            machine=self.machine,
            pace=provenance.pace(),
        )


def reason(error: Exception) -> str:
    """Return the reason for a pipeline's failure, on one line."""
    details = getattr(error, "details", None)  # Set for gRPC errors, whose text has several lines.
    text = str(details()).replace("\n", " ") if callable(details) else str(error)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    # A worker's traceback has the exception at its end, all other messages say it first.
    is_traceback = any(line.startswith("Traceback") for line in lines)
    gist = lines[-1 if is_traceback else 0] if lines else ""
    return beginning(f"{type(error).__name__}: {gist}".removesuffix(": "), _REASON_CHARACTERS)
