"""The live page as a browser shows it."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.transforms.periodicsequence import PeriodicImpulse
from apache_beam.transforms.window import FixedWindows, TimestampCombiner
from browsers import PHONE, WIDE, chromium, fits, requested, show
from in_process import Point, Spark, StreamingRunner
from made_up import HOSTILE, Shown
from selenium.webdriver.common.by import By
from waiting import until

from sparkbeam import SparkBeamOptions, SparkRunner
from sparkbeam.observe.page.server import PageServer
from sparkbeam.observe.page.watch import CheckpointView

_PATIENCE = 200.0


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as started:
        yield started


@pytest.fixture
def server() -> Iterator[PageServer]:
    started = PageServer()
    yield started
    started.close()


def text(browser: Any, id: str) -> str:
    return str(browser.find_element(By.ID, id).text)


def opened(browser: Any, address: str, width: int = WIDE) -> None:
    """Shows a page, once it has its first figures."""
    show(browser, address, width)
    until(lambda: text(browser, "state") not in ("", "…"))


@pytest.mark.parametrize("width", [WIDE, PHONE])
def test_hostile_and_long_texts_stay_texts_within_the_window(
    browser: Any, server: PageServer, width: int
) -> None:
    opened(browser, server.add(Shown()), width)
    assert browser.title.startswith("</script><img")
    assert browser.find_elements(By.TAG_NAME, "img") == []
    assert HOSTILE in text(browser, "notes")
    assert text(browser, "partitions").count(f"3 1,234 0.125 100 {HOSTILE}") == 2
    assert len(browser.find_elements(By.CSS_SELECTOR, "#charts polyline")) == 3
    assert fits(browser, width)


def test_nothing_is_asked_of_others_and_nothing_fails(browser: Any, server: PageServer) -> None:
    address = server.add(Shown())
    opened(browser, address)
    assert [url for url in requested(browser) if not url.startswith((address, "data:"))] == []


def test_it_works_in_a_frame_of_another_page(browser: Any, server: PageServer) -> None:
    frame = f"<iframe src={server.add(Shown())}></iframe>".encode()

    class Notebook(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(frame)

        def log_message(self, *args: Any) -> None:
            """Nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Notebook) as notebook:
        threading.Thread(target=notebook.serve_forever, daemon=True).start()
        browser.get(f"http://localhost:{notebook.server_port}/")
        browser.switch_to.frame(browser.find_element(By.TAG_NAME, "iframe"))
        until(lambda: text(browser, "state") == "RUNNING")
        browser.switch_to.default_content()
        notebook.shutdown()


@pytest.mark.parametrize(
    ("over", "words"), [(False, "The pipeline is lost"), (True, "The program has ended")]
)
def test_it_says_when_the_program_has_gone(browser: Any, over: bool, words: str) -> None:
    server, shown = PageServer(), Shown()
    shown.over = over
    opened(browser, server.add(shown))
    server.close()
    until(lambda: words in text(browser, "gone"))
    assert "1,234" in text(browser, "stages")


def test_a_batch_shows_its_stages_over_time(browser: Any, spark: Any) -> None:
    p = beam.Pipeline(SparkRunner(spark), SparkBeamOptions(["--spark_page"]))
    _ = p | beam.Create(range(100), reshuffle=False) | beam.Reshuffle() | HOSTILE >> beam.Map(str)
    result: Any = p.run()
    result.wait_until_finish(1000 * _PATIENCE)
    for width in (WIDE, PHONE):
        opened(browser, result.page, width)
        assert len(browser.find_elements(By.CSS_SELECTOR, "#bars .bar[data-state='done']")) == 2
        assert HOSTILE in text(browser, "bars")
        assert fits(browser, width)


@pytest.mark.timeout(600)
def test_a_stream_moves_shows_what_is_held_and_its_end(
    browser: Any, server: PageServer, tmp_path: Path
) -> None:
    logs = {"planned": tmp_path / "offsets", "committed": tmp_path / "commits"}
    for log in logs.values():
        log.mkdir()

    def note(point: Point) -> None:
        number, what = point
        if what in logs:
            (logs[what] / str(number)).touch()

    options = ["--streaming", "--spark_page", "--query_name=numbers a minute", "--shards=1"]
    options.append(f"--checkpoint_location={tmp_path}")
    p = beam.Pipeline(StreamingRunner(Spark(note)), SparkBeamOptions(options))
    (
        p
        | PeriodicImpulse(fire_interval=0.1)
        | beam.WindowInto(
            FixedWindows(3600), timestamp_combiner=TimestampCombiner.OUTPUT_AT_EARLIEST
        )
        | "Key" >> beam.Map(lambda stamp: (int(stamp) % 3, 1))
        | "Count" >> beam.CombinePerKey(sum)
    )
    result: Any = p.run()
    try:
        opened(browser, result.page)
        assert text(browser, "state") == "RUNNING"
        until(lambda: "held for" in text(browser, "stages"), seconds=_PATIENCE)
        (holding,) = browser.find_elements(By.CSS_SELECTOR, ".stage[data-state='holding']")
        assert "3 keys" in holding.text
        assert "oldest holder window of " in holding.text.replace("\n", " ")
        assert browser.find_elements(By.CSS_SELECTOR, "#graph [data-state='holding'] .figure")
        before = text(browser, "facts")
        until(lambda: text(browser, "facts") != before, seconds=_PATIENCE)
        assert browser.title == "numbers a minute"
        opened(browser, server.add(CheckpointView(str(tmp_path))))
        until(lambda: "numbers a minute" in text(browser, "facts"), seconds=_PATIENCE)
        assert browser.find_elements(By.CSS_SELECTOR, "#graph [data-state='holding'] .figure")
        assert "steps" in text(browser, "stages")
    finally:
        result.drain()
        result.wait_until_finish(1000 * _PATIENCE)
    until(lambda: text(browser, "state") == "finished")
    opened(browser, result.page)
    assert text(browser, "state") == "DRAINED"
    assert text(browser, "gone") == ""
    opened(browser, result.page, PHONE)
    assert text(browser, "state") == "DRAINED"
    assert "The last hour" in browser.find_element(By.TAG_NAME, "body").text
    assert fits(browser, PHONE)
