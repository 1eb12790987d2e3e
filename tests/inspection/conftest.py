"""A report in headless Chromium, for the tests of the page."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest


class Page:
    """A report open in the browser, with its console messages, errors and requests."""

    def __init__(self, page: Any, path: Path) -> None:
        self.page = page
        self.messages: list[str] = []
        self.requests: list[str] = []
        page.on("console", lambda message: self.messages.append(message.text))
        page.on("pageerror", lambda error: self.messages.append(str(error)))
        page.on("request", lambda request: self.requests.append(request.url))
        page.goto(path.as_uri())
        page.wait_for_selector("html[data-ready]", state="attached")


@pytest.fixture
def open_page(browser: Any, tmp_path: Path) -> Iterator[Callable[..., Page]]:
    """Opens the report of an estimator in a new browser context. Console messages and network requests fail the test."""
    opened: list[Page] = []
    contexts: list[Any] = []

    def open_page(estimator: Any, *data: Any, width: int = 1400, **options: Any) -> Page:
        path = estimator.to_report(tmp_path / f"report{len(opened)}.html", *data, **options)
        contexts.append(browser.new_context(viewport={"width": width, "height": 900}))
        opened.append(Page(contexts[-1].new_page(), path))
        return opened[-1]

    yield open_page
    for context in contexts:
        context.close()
    for page in opened:
        assert page.messages == []
        assert [url for url in page.requests if not url.startswith("file:")] == []
