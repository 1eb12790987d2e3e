"""``deepfls demo``: the main job on real data, from training to pictures, in about two minutes."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from deepfls.cli import settings as s
from deepfls.cli.output import Output, shown

if TYPE_CHECKING:
    import numpy as np

    from deepfls.estimators import FLSRegressor

# Every sixth cell of the map in both directions is drawn: half a degree.
_MAP_STEP = 6
_JULY = 6
_COVERAGE = 0.9
# Rows in the picture of the intervals: more would be a blur.
_BAND_ROWS = 300
_FILES = (
    "turbidity_t1.fls",
    "turbidity_it2.fls",
    "learning_curve.png",
    "memberships.png",
    "predictions.png",
    "intervals.png",
    "map.png",
)


def demo(
    out: Annotated[Path, s.option("--out", "Folder for the pictures and the models.", s.DATA, metavar="DIR")] = Path(
        "demo"
    ),
    rows: Annotated[int, s.option("--rows", "Rows to draw from the map.", s.DATA, min=100)] = 250_000,
    rules: Annotated[int, s.option("--rules", "Rules of the two systems.", s.DATA, min=1)] = 50,
    seed: Annotated[int, s.option("--seed", "Of the sample, the split and the training.", s.DATA, min=0)] = 0,
    quiet: s.Quiet = False,
    debug: s.Debug = False,
) -> None:
    """Learn the turbidity of the atmosphere, month by month (real data, shipped with pvlib) and show what was learned.

    Trains a Type-1 and an Interval Type-2 system, compares them with a linear model and gradient boosting on the same
    split, and writes plots and the models.
    """
    output = Output(quiet=quiet, json=False)
    with output.shown_warnings():
        _run(out, rows, rules, seed, output)


def _run(out: Path, n_rows: int, n_rules: int, seed: int, output: Output) -> None:
    import numpy as np
    from sklearn.ensemble import HistGradientBoostingRegressor
    from sklearn.linear_model import LinearRegression
    from sklearn.metrics import root_mean_squared_error

    from deepfls.data.datasets import load_dataset
    from deepfls.estimators import FLSRegressor
    from deepfls.metrics import mean_width, picp

    with output.working("reading the map"):
        data = load_dataset("turbidity", n_rows=n_rows, random_state=seed)
    order = np.random.default_rng(seed).permutation(len(data.x))
    train, test = order[: round(0.8 * len(order))], order[round(0.8 * len(order)) :]
    names = list(data.feature_names)
    output.line(
        f"Turbidity of the air: {len(train):,} rows to learn from, {len(test):,} to test on, inputs {', '.join(names)}."
    )
    fitted: dict[str, Any] = {}
    common: dict[str, Any] = {"n_rules": n_rules, "coverage": _COVERAGE, "random_state": seed, "verbose": int(output.bars)}
    table = []
    for name, model in {
        "linear": LinearRegression(),
        "gradient boosting": HistGradientBoostingRegressor(random_state=seed),
        f"T1, {n_rules} rules": FLSRegressor(kind="t1", calibration="split", **common),
        f"IT2, {n_rules} rules": FLSRegressor(kind="it2", **common),
    }.items():
        began = time.perf_counter()
        model.fit(data.x[train], data.y[train, 0])
        seconds = time.perf_counter() - began
        if getattr(model, "stopped_by_", None) == "interrupt":
            raise KeyboardInterrupt
        epochs = getattr(model, "n_epochs_", 1)
        error = root_mean_squared_error(data.y[test, 0], model.predict(data.x[test]))
        row = [name, f"{len(train):,}", f"{seconds:.1f}", f"{len(train) * epochs / seconds:,.0f}", f"{error:.4f}", "", ""]
        if isinstance(model, FLSRegressor):
            lower, upper = model.predict_interval(data.x[test])
            row[-2:] = [f"{picp(data.y[test, 0], lower, upper):.1%}", f"{mean_width(lower, upper):.3f}"]
        table.append(row)
        fitted[name] = model
    _print_table(table, output)
    output.line(
        f"RMSE, the share covered by intervals for {_COVERAGE:.0%} and their mean width are measured on the test rows."
    )
    t1, it2 = list(fitted.values())[-2:]
    out.mkdir(parents=True, exist_ok=True)
    t1.save(out / "turbidity_t1.fls")
    it2.save(out / "turbidity_it2.fls")
    with output.working("drawing"):
        _draw(out, t1, it2, names, data.x[test], data.y[test, 0])
    output.line("Written to ", shown(f"{out}/"), f": {', '.join(_FILES)}.")


def _print_table(table: list[list[str]], output: Output) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    if output.silent:
        return
    shown = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="bold", show_edge=False)
    for place, name in enumerate(["model", "rows", "seconds", "rows/s", "RMSE", "covered", "width"]):
        shown.add_column(name, justify="left" if place == 0 else "right", no_wrap=True)
    for row in table:
        shown.add_row(*row)
    Console(highlight=False).print(shown)


def _draw(out: Path, t1: FLSRegressor, it2: FLSRegressor, names: list[str], x: np.ndarray, y: np.ndarray) -> None:
    import numpy as np

    from deepfls.inspection import (
        COLORS,
        IntervalDisplay,
        LearningCurveDisplay,
        MembershipsDisplay,
        PredictionDisplay,
        new_figure,
    )

    figure = new_figure(5, 3.6)
    ax = figure.subplots()
    LearningCurveDisplay(t1.history_).plot(ax, name="T1", color=COLORS[1])
    LearningCurveDisplay(it2.history_).plot(ax, name="IT2", color=COLORS[0])
    figure.savefig(out / "learning_curve.png")
    display = MembershipsDisplay.from_estimator(it2)
    display.names = names
    leading = np.bincount(it2.firing_strengths(x).upper.argmax(axis=1), minlength=it2.n_rules).argsort()[::-1]
    display.plot(rules=leading[:4].tolist()).figure_.savefig(out / "memberships.png")
    PredictionDisplay(y, it2.predict(x)).plot(name="turbidity").figure_.savefig(out / "predictions.png")
    shown = slice(_BAND_ROWS)
    band = IntervalDisplay(y[shown], it2.predict(x[shown]), *it2.predict_interval(x[shown]))
    band.plot(name="turbidity").figure_.savefig(out / "intervals.png")
    _draw_map(out / "map.png", it2)


def _draw_map(path: Path, model: FLSRegressor) -> None:
    """True and predicted turbidity in July, side by side."""
    import numpy as np

    from deepfls.data.datasets import turbidity_map
    from deepfls.inspection import new_figure

    (x, y), width = turbidity_map(_JULY, step=_MAP_STEP)
    true, predicted = y.reshape(-1, width), model.predict(x).reshape(-1, width)
    figure = new_figure(11, 3.2)
    axes = figure.subplots(1, 2)
    shades = {"cmap": "viridis", "vmin": np.percentile(true, 1), "vmax": np.percentile(true, 99)}
    for ax, values, title in zip(axes, (true, predicted), ("measured, July", "learned by the IT2 system"), strict=True):
        image = ax.imshow(values, extent=(-180, 180, -90, 90), interpolation="nearest", **shades)
        ax.set(title=title, xlabel="longitude", ylabel="latitude", ylim=(-90, 90))
    figure.colorbar(image, ax=axes, label="Linke turbidity", shrink=0.85)
    figure.savefig(path)
