"""How large is the explorer's page, when is it ready, and how soon does it answer a slider?

    python benchmarks/explorer.py [--repeats N] [--markdown FILE]

Writes pages of three sizes, opens each in headless Chromium, and measures in the browser: from the start of the navigation
to the first complete frame, and from the event of a slider to the frame that shows its effect, the surface included. Other
work on the machine slows the medians more than the fastest runs, so the table has both.
"""

from __future__ import annotations

import os
import shutil
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from _report import markdown_table, option_parser, positive, write_results
from _timing import threads
from deepfls import FLSRegressor

SIZES = ((4, 10, 1), (50, 30, 2), (1000, 30, 1))
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
FLAGS += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]

FRAME = "() => new Promise(r => requestAnimationFrame(() => setTimeout(() => r(performance.now()))))"
# After the next frame the effects of the event are drawn, the surface included, which is computed in that frame.
SLIDE = """() => new Promise(resolve => {
  const slider = document.querySelector('#inputs input[type=range]');
  slider.value = (Number(slider.value) + 137) % 1000;
  const began = performance.now();
  slider.dispatchEvent(new Event('input', { bubbles: true }));
  requestAnimationFrame(() => setTimeout(() => resolve(performance.now() - began)));
})"""


def make_page(folder: Path, n_features: int, n_rules: int, n_outputs: int) -> Path:
    rng = np.random.default_rng(0)
    x = rng.normal(rng.uniform(-50, 50, n_features), rng.uniform(0.1, 40, n_features), (500, n_features))
    z = (x - x.mean(axis=0)) / x.std(axis=0)
    y = np.stack([np.sin(z[:, k % n_features]) + z[:, (k + 1) % n_features] for k in range(n_outputs)], axis=1)
    model = FLSRegressor(n_rules=n_rules, epochs=2, random_state=0).fit(x, y)
    return model.to_report(folder / f"{n_features}-{n_rules}-{n_outputs}.html", x, y)


def measure(browser: Any, path: Path, repeats: int) -> tuple[list[float], list[float]]:
    """Milliseconds until ready, and from a slider's event until its frame is drawn, of every run."""
    ready, drawn = [], []
    for _ in range(repeats):
        context = browser.new_context(viewport={"width": 1400, "height": 1000})
        page = context.new_page()
        page.goto(path.as_uri())
        page.wait_for_selector("html[data-ready]", state="attached")
        ready.append(page.evaluate(FRAME))
        page.wait_for_timeout(300)
        for _ in range(10):
            drawn.append(page.evaluate(SLIDE))
            page.wait_for_timeout(30)
        context.close()
    return ready, drawn


def main(arguments: Sequence[str] | None = None) -> int:
    parser = option_parser(__doc__, "markdown")
    parser.add_argument("--repeats", type=positive, default=5, help="runs of each page; 5 by default")
    given = parser.parse_args(arguments)
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        print("There is no chromium on this machine: make browser.", file=sys.stderr)
        return 1
    from playwright.sync_api import sync_playwright

    lines = []
    with tempfile.TemporaryDirectory() as folder, threads(1), sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        for n_features, n_rules, n_outputs in SIZES:
            path = make_page(Path(folder), n_features, n_rules, n_outputs)
            runs = measure(browser, path, given.repeats)
            size = f"{path.stat().st_size / 1e6:.2f}"
            times = [f"{value:.0f}" for times in runs for value in (min(times), statistics.median(times))]
            lines.append([f"{n_features:,}", str(n_rules), str(n_outputs), size, *times])
        version = browser.version
        browser.close()
    head = ["inputs", "rules", "outputs", "MB", "ready, ms: fastest", "median", "slider, ms: fastest", "median"]
    table = markdown_table(head, lines)
    print(table)
    if given.markdown:
        load = f"Load average of the machine {os.getloadavg()[0]:.1f}."
        intro = f"Chromium {version} without a GPU."
        title = "The explorer's page in a browser"
        write_results(given.markdown, "explorer", title, "explorer.py", intro, table, foot=load)
    return 0


if __name__ == "__main__":
    sys.exit(main())
