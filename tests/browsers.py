"""A browser for tests of pages."""

import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from selenium import webdriver

WIDE, PHONE = 1280, 390

_FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@contextmanager
def chromium() -> Iterator[Any]:
    """Chromium without a window, recording what it asks of the network."""
    program, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if program is None or driver is None:
        pytest.skip("needs 'chromium' and 'chromedriver' on the PATH")
    options = webdriver.ChromeOptions()
    options.binary_location = program
    options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
    with tempfile.TemporaryDirectory(prefix="sparkbeam-browser-") as profile:
        for flag in (*_FLAGS, f"--user-data-dir={profile}"):
            options.add_argument(flag)
        started = webdriver.Chrome(options, webdriver.ChromeService(driver))
        try:
            yield started
        finally:
            started.quit()


def show(browser: Any, address: str, width: int) -> None:
    """Open a page in so many pixels, with nothing in the logs of the browser before."""
    resize(browser, width)
    browser.get_log("performance")
    browser.get_log("browser")
    browser.get(address)


def requested(browser: Any) -> set[str]:
    """Return the URLs that a page has asked for; it may have no errors."""
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    return {
        message["params"]["request"]["url"]
        for message in messages
        if message["method"] == "Network.requestWillBeSent"
    }


def fits(browser: Any, width: int) -> bool:
    """Return whether a page is within a window of this width."""
    inner, whole = "return innerWidth", "return document.documentElement.scrollWidth"
    return bool(browser.execute_script(inner) == width >= browser.execute_script(whole))


def resize(browser: Any, width: int) -> None:
    """Gives a page so many pixels, as a phone does where they are few."""
    screen = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width == PHONE}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
