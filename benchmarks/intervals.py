"""Do prediction intervals have their nominal coverage, and how narrow are they? Coverage, width and score on seven sets.

    python benchmarks/intervals.py --data-dir DIR --splits 10 --cells intervals.json --markdown RESULTS.md

Every split trains on a random 70 % of the rows and measures on the others. The fuzzy systems have 30 rules and otherwise
default settings and are fitted once, for 90 %: the other coverages come from the same calibration, or from a fit of their
own where it has too few rows for them. Boosted quantiles are scikit-learn's with its defaults, a pair for every coverage,
calibrated (CQR) on as many held-out rows as ours. The file of ``--cells`` keeps finished cells, and another run measures
only the missing ones. One thread each; --workers runs several.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.ensemble import HistGradientBoostingRegressor
from threadpoolctl import threadpool_limits

from _protocol import N_TARGETS, Array, interval_measures, random_split, read_table
from _report import cell_parser, key_of, markdown_table, measured_cells, write_results
from deepfls import FLSRegressor
from deepfls.estimators.calibration import conformal_quantile, held_out_rows, quantile_scores

N_RULES = 30
NOMINAL = (0.9, 0.95, 0.99)
MODELS = ("it2", "crisp", "t1", "boosted")
NAMES = {"it2": "IT2, CQR", "raw": "IT2, not calibrated", "t1": "T1, split", "boosted": "boosted quantiles, CQR"}
# PICP and PINAW of the paper's group for 90, 95 and 99 %, mean of 10 splits: its IT2 systems, and these with CQR.
PUBLISHED = {
    ("ccpp", "raw"): ((0.900, 0.947, 0.990), (0.177, 0.208, 0.304)),
    ("boston", "raw"): ((0.865, 0.916, 0.952), (0.267, 0.321, 0.431)),
    ("kin8nm", "raw"): ((0.940, 0.969, 0.995), (0.395, 0.432, 0.624)),
    ("ccpp", "it2"): ((0.907, 0.953, 0.992), (0.181, 0.213, 0.319)),
    ("boston", "it2"): ((0.915, 0.963, 0.989), (0.309, 0.400, 0.699)),
    ("kin8nm", "it2"): ((0.906, 0.952, 0.993), (0.357, 0.396, 0.580)),
}


def measure_fuzzy(model: str, seed: int, x: Array, y: Array, x_test: Array, y_test: Array) -> dict[str, Any]:
    """Error and intervals of one of our models; the model without intervals has only an error."""
    options: dict[str, Any] = {"kind": "t1" if model == "t1" else "it2", "n_rules": N_RULES, "random_state": seed}
    if model != "crisp":
        options |= {"coverage": NOMINAL[0], "calibration": "split" if model == "t1" else "cqr"}
    fitted = FLSRegressor(**options).fit(x, y)
    errors = fitted.predict(x_test).reshape(y_test.shape) - y_test
    cell: dict[str, Any] = {"rmse": float(np.sqrt(np.mean(errors**2)))}
    if model == "crisp":
        return cell
    if model == "it2":
        with torch.no_grad():
            reduced = fitted.system_.reduce(torch.from_numpy(fitted.x_scaling_.apply(x_test)))
        ends = [fitted.y_scaling_.invert(end.cpu().numpy()) for end in (reduced.y_left, reduced.y_right)]
        cell["raw"] = interval_measures(y_test, *ends, NOMINAL[0])
    assert fitted.calibration_ is not None
    cell["held_out"] = fitted.calibration_.n_rows
    for coverage in NOMINAL:
        if coverage > fitted.calibration_.largest_coverage:
            fitted = FLSRegressor(**(options | {"coverage": coverage})).fit(x, y)
        cell[f"{coverage}"] = interval_measures(y_test, *fitted.predict_interval(x_test, coverage=coverage), coverage)
    return cell


def measure_boosted(seed: int, x: Array, y: Array, x_test: Array, y_test: Array) -> dict[str, Any]:
    """Intervals of boosted quantiles, calibrated on held-out rows."""
    cell: dict[str, Any] = {}
    for coverage in NOMINAL:
        order = np.random.default_rng(seed).permutation(len(x))
        n_held = max(held_out_rows(len(x), NOMINAL[0], "auto"), held_out_rows(len(x), coverage, "auto"))
        held, used = order[:n_held], order[n_held:]
        ends = []
        for level in (0.5 * (1 - coverage), 0.5 * (1 + coverage)):
            models = [
                HistGradientBoostingRegressor(loss="quantile", quantile=level, random_state=seed).fit(x[used], target[used])
                for target in y.T
            ]
            ends.append([np.stack([model.predict(rows) for model in models], axis=1) for rows in (x[held], x_test)])
        (lower_held, lower), (upper_held, upper) = ends
        shift = conformal_quantile(quantile_scores(y[held], lower_held, upper_held), coverage)
        lower, upper = lower - shift, upper + shift
        # Boosted quantiles may cross: the interval is then the point between them.
        middle = 0.5 * (lower + upper)
        cell[f"{coverage}"] = interval_measures(y_test, np.minimum(lower, middle), np.maximum(upper, middle), coverage)
    return cell


def measure(name: str, seed: int, model: str, folder: Path) -> dict[str, Any]:
    torch.set_num_threads(1)
    split = random_split(*read_table(name, folder), seed)
    parts = split.x, split.y, split.x_test, split.y_test
    began = time.perf_counter()
    with threadpool_limits(1):
        cell = measure_boosted(seed, *parts) if model == "boosted" else measure_fuzzy(model, seed, *parts)
    return {"set": name, "split": seed, "model": model, "seconds": time.perf_counter() - began, **cell}


def mean_of(cells: list[dict[str, Any]], read: Callable[[dict[str, Any]], float]) -> float:
    return float(np.mean([read(cell) for cell in cells]))


def tables(cells: list[dict[str, Any]], sets: list[str]) -> str:
    """Intervals by nominal coverage, their cost in crisp error, and two comparisons in words."""
    by = {(s, m): [c for c in cells if c["set"] == s and c["model"] == m] for s in sets for m in MODELS}
    head = ["set", "method", "splits", *(f"{what} {n:.0%}" for n in NOMINAL for what in ("PICP", "PINAW", "score"))]
    lines = []
    for name in sets:
        for model in ("it2", "t1", "boosted"):
            found = by[name, model]
            if found:
                numbers = [
                    f"{mean_of(found, lambda c, n=n, k=key: c[str(n)][k]):.3f}"
                    for n in NOMINAL
                    for key in ("picp", "pinaw", "score")
                ]
                lines.append([name, NAMES[model], str(len(found)), *numbers])
            if model == "it2" and found:
                numbers = [f"{mean_of(found, lambda c, k=key: c['raw'][k]):.3f}" for key in ("picp", "pinaw", "score")]
                lines.append([name, NAMES["raw"], str(len(found)), *numbers, *["-"] * 6])
        for kind, label in (("it2", "published IT2, CQR"), ("raw", "published IT2")):
            if (name, kind) in PUBLISHED:
                pairs = zip(*PUBLISHED[name, kind], strict=True)
                lines.append([name, label, "10", *(cell for p, w in pairs for cell in (f"{p:.3f}", f"{w:.3f}", "-"))])
    costs = []
    for name in sets:
        ours, crisp = by[name, "it2"], by[name, "crisp"]
        if ours and crisp:
            a, b = mean_of(ours, lambda c: c["rmse"]), mean_of(crisp, lambda c: c["rmse"])
            costs.append([name, f"{b:.4f}", f"{a:.4f}", f"{100 * (a / b - 1):+.1f} %"])
    cost_head = ["set", "RMSE without intervals", "with", "difference"]
    return f"{markdown_table(head, lines)}\n\n{markdown_table(cost_head, costs)}\n\n{verdict(by, sets)}"


def verdict(by: dict[tuple[str, str], list[dict[str, Any]]], sets: list[str]) -> str:
    """Distance of the coverage from nominal, and the sets where the interval score is no worse than boosted quantiles'."""
    lines = []
    for model in ("it2", "t1"):
        worst = []
        for name in sets:
            if by[name, model]:
                gaps = [100 * (mean_of(by[name, model], lambda c, n=n: c[str(n)]["picp"]) - n) for n in NOMINAL]
                worst.append(f"{name} {max(gaps, key=abs):+.1f}")
        if worst:
            what = f"Mean PICP of {NAMES[model]} minus nominal in points, the farthest of the three"
            lines.append(f"- {what}: {', '.join(worst)}.")
    for nominal in NOMINAL:
        both = [name for name in sets if by[name, "it2"] and by[name, "boosted"]]
        score = {
            (name, m): mean_of(by[name, m], lambda c, n=nominal: c[str(n)]["score"])
            for name in both
            for m in ("it2", "boosted")
        }
        won = [name for name in both if score[name, "it2"] <= score[name, "boosted"]]
        lines.append(
            f"- Interval score of {NAMES['it2']} at {nominal:.0%} no worse than boosted quantiles on {len(won)} of "
            f"{len(both)} sets: {', '.join(won) or 'none'}."
        )
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    given = cell_parser(__doc__, tuple(N_TARGETS), MODELS, n_splits=10).parse_args(arguments)
    cells, complete = measured_cells(given, measure)
    cells = [cell for cell in cells if key_of(cell)[:2] in complete and cell["model"] in given.models]
    text = tables(cells, given.sets)
    print(text)
    if given.markdown:
        intro = (
            f"{N_RULES} rules and otherwise default settings, mean over the splits. PICP is the share of test targets "
            "covered, PINAW the mean width over the range of the test targets, score the interval score in z-units (lower "
            "is better); several targets are averaged. docs/intervals.md explains how the settings were chosen."
        )
        write_results(given.markdown, "intervals", "Prediction intervals", "intervals.py --data-dir DIR", intro, text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
