"""What tests of several folders share: headless Chromium, driven by Playwright, and property tests without a clock."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import settings

# Read when torch is loaded, here and in the processes that tests start. Threads of matrix products that wait for each other
# hold a core each: where cores are shared, a small product then takes a hundred times as long.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

settings.register_profile("tests", deadline=None)  # on a busy machine a deadline fails tests that are right
settings.load_profile("tests")

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    api = pytest.importorskip("playwright.sync_api", reason="Playwright drives the browser")
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        pytest.skip("Chromium is not installed; `make browser` installs it")
    with api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield chromium
        chromium.close()
