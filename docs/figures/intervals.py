"""Draws docs/figures/intervals.png: a band of learned and calibrated intervals, and what they hold."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from deepfls import FLSRegressor
from deepfls.inspection import CoverageDisplay, IntervalDisplay, WidthErrorDisplay, new_figure


def main(path: Path) -> None:
    random = np.random.default_rng(0)
    x = random.uniform(-3, 3, size=(2000, 1))
    y = np.sin(2 * x[:, 0]) + (0.05 + 0.15 * np.abs(x[:, 0])) * random.normal(size=2000)
    model = FLSRegressor(n_rules=8, epochs=100, coverage=0.9, random_state=0).fit(x[:1000], y[:1000])
    x, y = x[1000:], y[1000:]
    predicted, (lower, upper) = model.predict(x), model.predict_interval(x)
    figure = new_figure(11, 3.4)
    band, coverage, widths = figure.subplots(1, 3, width_ratios=[1.6, 1, 1.3])
    IntervalDisplay(y, predicted, lower, upper, x=x[:, 0]).plot(band)
    CoverageDisplay.from_estimator(model, x, y, ax=coverage)
    WidthErrorDisplay(upper - lower, y - predicted).plot(widths)
    figure.savefig(path)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("intervals.png"))
