"""The built site in a browser: no errors, no request to another machine, a search that works, a picture on every card."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import gallery

MEGABYTE = 1_000_000
PAGES = ["index.html", "guide.html", "maths.html", "gallery/index.html", "api/estimators.html", "RESULTS.html"]


class OpenSite:
    """A tab of the browser on the built site, with its console messages and requests."""

    def __init__(self, tab: Any, folder: Path) -> None:
        self.tab = tab
        self.folder = folder
        self.messages: list[str] = []
        self.requests: list[str] = []
        tab.on("console", lambda message: self.messages.append(f"{message.type}: {message.text}"))
        tab.on("pageerror", lambda error: self.messages.append(str(error)))
        tab.on("request", lambda request: self.requests.append(request.url))

    def goto(self, page: str) -> Any:
        self.tab.goto((self.folder / page).as_uri())
        return self.tab


@pytest.fixture
def opened(browser: Any, site: Path) -> Iterator[OpenSite]:
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    context.set_default_timeout(120_000)
    result = OpenSite(context.new_page(), site)
    yield result
    context.close()
    assert [message for message in result.messages if message.startswith(("error", "warning")) or ":" not in message] == []
    assert [url for url in result.requests if not url.startswith(("file:", "data:", "blob:"))] == []


@pytest.mark.parametrize("page", [*PAGES, "cli.html", "coming_from/pytsk.html", "gallery/01_power_plant.html"])
def test_page_opens_without_errors_or_requests_elsewhere(opened: OpenSite, page: str) -> None:
    """One page of each kind: all have the same scripts. What the others load is read from their text below."""
    opened.goto(page)
    assert opened.tab.locator("h1").count() >= 1
    opened.tab.set_viewport_size({"width": 400, "height": 800})
    assert opened.tab.evaluate("document.documentElement.scrollWidth") <= 400


def test_search_finds_karnik(opened: OpenSite) -> None:
    opened.goto("index.html")
    box = opened.tab.locator("input[name=query]")
    box.click()
    box.press_sequentially("Karnik", delay=20)
    results = opened.tab.locator(".md-search-result__item")
    results.first.wait_for()
    assert "Karnik" in results.first.inner_text()


def test_gallery_has_a_picture_on_every_card(opened: OpenSite) -> None:
    opened.goto("gallery/index.html")
    assert opened.tab.locator(".card").count() == len(gallery.examples())
    pictures = opened.tab.locator(".card img")
    for number in range(pictures.count()):
        pictures.nth(number).scroll_into_view_if_needed()
    opened.tab.wait_for_function(
        "[...document.querySelectorAll('.card img')].every(i => i.complete && i.naturalWidth > 300)"
    )
    assert pictures.count() == len(gallery.examples())


def test_formulas_are_drawn_without_scripts(opened: OpenSite) -> None:
    opened.goto("maths.html")
    assert opened.tab.locator("math").count() > 20
    assert opened.tab.locator(".arithmatex").count() == 0


def test_dark_and_light_change_places(opened: OpenSite) -> None:
    opened.goto("index.html")
    scheme = "document.body.getAttribute('data-md-color-scheme')"
    assert opened.tab.evaluate(scheme) == "default"
    opened.tab.locator("label[for^=__palette]:visible").first.click()
    assert opened.tab.evaluate(scheme) == "slate"


def test_no_page_is_larger_than_two_megabytes(site: Path) -> None:
    assert [page.name for page in site.rglob("*.html") if page.stat().st_size > 2 * MEGABYTE] == []


def test_nothing_on_the_site_is_loaded_from_elsewhere(site: Path) -> None:
    loaded = re.compile(r'<(?:script|img|iframe|link)\b[^>]*?(?:src|href)="(https?:[^"]+)"')
    found = {address for page in site.rglob("*.html") for address in loaded.findall(page.read_text(encoding="utf-8"))}
    assert found == set()


@pytest.mark.parametrize(
    "module",
    ["deepfls", "deepfls.nn", "deepfls.functional", "deepfls.inspection", "deepfls.export", "deepfls.data.datasets"],
)
def test_every_public_name_has_its_place_in_the_api_pages(site: Path, module: str) -> None:
    pages = "".join(page.read_text(encoding="utf-8") for page in (site / "api").glob("*.html"))
    names = [name for name in importlib.import_module(module).__all__ if name[0] != "_"]
    assert names
    assert [name for name in names if not re.search(rf'id="{module}(\.\w+)?\.{name}"', pages)] == []
