"""Take a screenshot of the explorer: python docs/figures/explorer.py [--data-dir DIR] [--out PNG]

Trains a small IT2 system on the power plant data, writes its page, opens it in headless Chromium, and shows a row of the
held-out data. Needs chromium (make browser).
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from pathlib import Path

import pandas as pd
from playwright.sync_api import sync_playwright

from deepfls import FLSRegressor
from deepfls.data.datasets import load_dataset

FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
FLAGS += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]


def write_page(folder: Path, data_dir: str | None) -> Path:
    data = load_dataset("ccpp", data_dir=data_dir)
    x, y = pd.DataFrame(data.x, columns=list(data.feature_names)), pd.Series(data.y[:, 0], name="PE")
    model = FLSRegressor(n_rules=8, patience=20, random_state=0).fit(x[:7654], y[:7654])
    return model.to_report(folder / "plant.html", x[7654:], y[7654:], title="Combined cycle power plant")


def take_screenshot(page_file: Path, out: Path) -> None:
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        raise SystemExit("Chromium is not installed; `make browser` installs it.")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        page = browser.new_page(viewport={"width": 1320, "height": 1290}, color_scheme="light")
        page.goto(page_file.as_uri())
        page.wait_for_selector("html[data-ready]", state="attached")
        page.fill("#sample", "17")
        page.keyboard.press("Enter")
        page.evaluate("document.activeElement.blur()")
        page.wait_for_timeout(800)  # the rules are sorted again 400 ms after the last change
        bottom = page.evaluate("document.querySelector('#rules').getBoundingClientRect().bottom + 14")
        page.screenshot(path=out, clip={"x": 0, "y": 0, "width": 1320, "height": bottom}, full_page=True)
        browser.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".png"))
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        take_screenshot(write_page(Path(folder), arguments.data_dir), arguments.out)


if __name__ == "__main__":
    main()
