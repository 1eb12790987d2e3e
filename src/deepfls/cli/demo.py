"""``deepfls demo``: train on real data, compare, and draw plots, in about two minutes."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from deepfls._checks.arguments import counted, quoted
from deepfls.cli import options as o
from deepfls.cli.output import CommandOutput, UsageError, shown

if TYPE_CHECKING:
    import numpy as np

    from deepfls.estimators import FLSRegressor

# Every sixth cell of the map is drawn in both directions: half a degree.
_MAP_STEP = 6
_JULY = 6
_COVERAGE = 0.9
_DECIMALS = {"rows": 0, "seconds": 1, "rows/s": 0, "RMSE": 4, "covered": 4, "width": 3}
# Rows in the plot of the intervals: more points would overlap.
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


@o.command
def demo(
    output: CommandOutput,
    out: Annotated[Path, o.output_option("Folder for the plots and the models.", "demo")] = Path("demo"),
    rows: Annotated[int, o.option("Rows to draw from the map.", "250000", min=100)] = 250_000,
    n_rules: Annotated[int, o.option("Number of rules of the two systems.", "50", min=1)] = 50,
    random_state: Annotated[int, o.option("Seed of the sample, the split and the training.", "0", min=0)] = 0,
) -> None:
    """Learn the turbidity of the atmosphere by month (real data, shipped with pvlib) and show the result.

    Trains a Type-1 and an Interval Type-2 system, compares them with a linear model and gradient boosting on the same
    split, and writes plots and the models.
    """
    from sklearn.ensemble import HistGradientBoostingRegressor
    from sklearn.linear_model import LinearRegression
    from sklearn.metrics import root_mean_squared_error
    from sklearn.model_selection import train_test_split

    from deepfls.data.datasets import load_dataset
    from deepfls.estimators import FLSRegressor
    from deepfls.metrics import mean_width, picp

    if out.exists() and not out.is_dir():
        raise UsageError(f"--out must be a folder, got the file {quoted(out)}.")
    out.mkdir(parents=True, exist_ok=True)  # an error of writing comes before the work
    with output.working("reading the map"):
        data = load_dataset("turbidity", n_rows=rows, random_state=random_state)
    x, x_test, y, y_test = train_test_split(data.x, data.y[:, 0], test_size=0.2, random_state=random_state)
    names = list(data.feature_names)
    output.line(f"Turbidity of the air: {len(x):,} training rows, {len(x_test):,} test rows, inputs {', '.join(names)}.")
    fitted: list[Any] = []
    common: dict[str, Any] = {"n_rules": n_rules, "coverage": _COVERAGE, "random_state": random_state}
    common["verbose"] = int(output.bars)
    table: list[list[str | float]] = []
    for name, model in {
        "linear": LinearRegression(),
        "gradient boosting": HistGradientBoostingRegressor(random_state=random_state),
        f"T1, {counted(n_rules, 'rule')}": FLSRegressor(kind="t1", calibration="split", **common),
        f"IT2, {counted(n_rules, 'rule')}": FLSRegressor(kind="it2", **common),
    }.items():
        began = time.perf_counter()
        model.fit(x, y)
        seconds = time.perf_counter() - began
        if getattr(model, "stopped_by_", None) == "interrupt":
            raise KeyboardInterrupt
        speed = len(x) * getattr(model, "n_epochs_", 1) / seconds
        error = float(root_mean_squared_error(y_test, model.predict(x_test)))
        covered: list[str | float] = ["", ""]
        if isinstance(model, FLSRegressor):
            lower, upper = model.predict_interval(x_test)
            covered = [picp(y_test, lower, upper), mean_width(lower, upper)]
        table.append([name, float(len(x)), seconds, speed, error, *covered])
        fitted.append(model)
    head = ["model", *_DECIMALS]
    output.table(head, table, _DECIMALS)
    output.result({"command": "demo", "models": [dict(zip(head, row, strict=True)) for row in table]})
    output.line(
        f"RMSE, the share covered by intervals for {_COVERAGE:.0%} and their mean width are measured on the test rows."
    )
    t1, it2 = fitted[-2:]
    t1.save(out / "turbidity_t1.fls")
    it2.save(out / "turbidity_it2.fls")
    with output.working("drawing"):
        _draw(out, t1, it2, names, x_test, y_test)
    output.line("Written to ", shown(f"{out}/"), f": {', '.join(_FILES)}.")


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
    # The loss of IT2 has a part for its interval, so the heights of the two curves are not to be compared.
    LearningCurveDisplay(t1.history_).plot(ax, name="T1", color=COLORS[1])
    LearningCurveDisplay(it2.history_).plot(ax, name="IT2 and its interval", color=COLORS[0])
    figure.savefig(out / "learning_curve.png")
    display = MembershipsDisplay.from_estimator(it2)
    display.names = names
    leading = np.bincount(it2.firing_strengths(x).upper.argmax(axis=1), minlength=it2.system_.n_rules).argsort()[::-1]
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
