"""How good are predicted distributions? CRPS, pinball loss, coverage and width of general type-2 systems beside others.

    python benchmarks/distributions.py --data-dir DIR --splits 3 --cells distributions.json --markdown RESULTS.md

Every split trains on a random 70 % of the rows, 10,000 at most, and measures on the others; of several targets the first
is taken. Fuzzy systems have 30 rules and otherwise default settings, and one fit each, which gives all levels and
coverages; GT2 quantiles are measured as the mean of 8 systems too. The boosted quantiles are scikit-learn's with its
defaults, one model for each of 99 levels, sorted; their intervals are calibrated (CQR) on as many held-out rows as ours.
"As learned" is a fit to all training rows without a calibration, as the boosted quantiles have it for their CRPS. The
coverage of one division into calibration and test rows scatters by about a point, so that of GT2 is also measured over
many divisions of these rows, with the one fitted system.

The errors of crisp IT2 and GT2 systems, trained by squared errors, are a section of their own: single runs scatter by 5 to
10 %, so their ratio needs more splits than all else. ``--models it2-crisp,gt2-crisp --splits 40`` measures and writes them
alone. The ratio is the geometric mean over the splits that both have finished, with its standard error.

The file of ``--cells`` keeps finished cells, and another run measures only the missing ones. ``--quick`` takes two small
sets and one split. One thread each.
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
from deepfls import FLSRegressor, metrics
from deepfls.estimators.calibration import conformal_quantile, held_out_rows, quantile_scores
from deepfls.estimators.intervals import plane_scores

N_RULES = 30
N_TRAIN = 10_000
LEVELS = np.arange(1, 100) / 100
NOMINAL = (0.8, 0.9, 0.95, 0.99)
# Divisions of calibration and test rows over which the coverage of a fitted system is averaged.
N_DIVISIONS = 200
SETTINGS: dict[str, dict[str, Any]] = {
    "gt2": {"kind": "gt2", "loss": "quantiles", "coverage": 0.9, "calibration": "alpha"},
    "gt2-learned": {"kind": "gt2", "loss": "quantiles"},
    "gt2-several": {"kind": "gt2", "loss": "quantiles", "coverage": 0.9, "calibration": "alpha", "n_systems": 8},
    "gt2-several-learned": {"kind": "gt2", "loss": "quantiles", "n_systems": 8},
    "it2": {"kind": "it2", "coverage": 0.9, "calibration": "cqr"},
    "t1": {"kind": "t1", "coverage": 0.9, "calibration": "split"},
    "it2-crisp": {"kind": "it2"},
    "gt2-crisp": {"kind": "gt2"},
}
MODELS = (*SETTINGS, "boosted")
CRISP = ("it2-crisp", "gt2-crisp")
MAX_RATIO = 1.02
NAMES = {
    "gt2": "GT2 quantiles, alpha",
    "gt2-learned": "GT2 quantiles, as learned",
    "gt2-several": "8 systems of GT2 quantiles, alpha",
    "gt2-several-learned": "8 systems of GT2 quantiles, as learned",
    "it2": "IT2, CQR",
    "t1": "T1, split",
    "boosted": "boosted quantiles (intervals: CQR)",
}


def of_distribution(y: Array, quantiles: Array) -> dict[str, float]:
    """CRPS and mean pinball loss over the levels."""
    error = y[:, None] - quantiles
    pinball = np.maximum(LEVELS * error, (LEVELS - 1.0) * error)
    return {"crps": metrics.crps(y, quantiles, LEVELS), "pinball": float(pinball.mean())}


def measure_fuzzy(model: str, seed: int, x: Array, y: Array, x_test: Array, y_test: Array) -> dict[str, Any]:
    settings: dict[str, Any] = {"n_rules": N_RULES, "random_state": seed, **SETTINGS[model]}
    if "coverage" in settings:  # as many rows as 99 % needs
        settings["calibration_fraction"] = held_out_rows(len(x), NOMINAL[-1], "auto") / len(x)
    fitted = FLSRegressor(**settings).fit(x, y)
    cell: dict[str, Any] = {"rmse": float(np.sqrt(np.mean((fitted.predict(x_test) - y_test) ** 2)))}
    if settings.get("loss") == "quantiles":
        cell |= of_distribution(y_test, fitted.predict_quantiles(x_test, LEVELS))
    if "coverage" not in settings:
        return cell
    for coverage in NOMINAL:
        cell[f"{coverage}"] = interval_measures(y_test, *fitted.predict_interval(x_test, coverage=coverage), coverage)
    if settings["kind"] == "gt2":
        cell["divided"] = coverage_of_divisions(fitted, x_test, y_test, seed)
    else:
        cell |= of_distribution(y_test, fitted.predict_quantiles(x_test, LEVELS))
    return cell


def coverage_of_divisions(fitted: FLSRegressor, x_test: Array, y_test: Array, seed: int) -> dict[str, float]:
    """Mean coverage over random divisions of the calibration and test rows, by nominal coverage.

    A target lies within an interval if its score is at most the calibrated one.
    """
    calibration = fitted.calibration_
    # The model that was trained without the calibration rows; None where the model itself was.
    result = (fitted.interval_model_ or fitted)._result()
    x_known = fitted._known_x(x_test)  # without the columns that a fit leaves out
    of_test, _ = plane_scores(result.model, x_known, y_test[:, None], calibration.floor)
    scores = np.concatenate([calibration.scores, of_test])
    random = np.random.default_rng(seed)
    covered: dict[str, list[float]] = {f"{coverage}": [] for coverage in NOMINAL}
    for _ in range(N_DIVISIONS):
        held, test = np.split(random.permutation(scores), [calibration.n_rows])
        for coverage in NOMINAL:
            covered[f"{coverage}"].append(float((test <= conformal_quantile(held, coverage)).mean()))
    return {coverage: float(np.mean(shares)) for coverage, shares in covered.items()}


def measure_boosted(seed: int, x: Array, y: Array, x_test: Array, y_test: Array) -> dict[str, Any]:
    def quantile(level: float, rows: Any) -> HistGradientBoostingRegressor:
        return HistGradientBoostingRegressor(loss="quantile", quantile=level, random_state=seed).fit(x[rows], y[rows])

    every = np.sort(np.stack([quantile(level, slice(None)).predict(x_test) for level in LEVELS], axis=1), axis=1)
    cell: dict[str, Any] = of_distribution(y_test, every)
    order = np.random.default_rng(seed).permutation(len(x))
    held, used = np.split(order, [held_out_rows(len(x), NOMINAL[-1], "auto")])
    for coverage in NOMINAL:
        pair = [quantile(level, used) for level in (0.5 * (1 - coverage), 0.5 * (1 + coverage))]
        scores = quantile_scores(y[held, None], *(end.predict(x[held])[:, None] for end in pair))
        shift = conformal_quantile(scores, coverage)[0]
        lower, upper = pair[0].predict(x_test) - shift, pair[1].predict(x_test) + shift
        # Boosted quantiles may cross: the interval is then the point between them.
        middle = 0.5 * (lower + upper)
        cell[f"{coverage}"] = interval_measures(y_test, np.minimum(lower, middle), np.maximum(upper, middle), coverage)
    return cell


def measure(name: str, seed: int, model: str, folder: Path) -> dict[str, Any]:
    torch.set_num_threads(1)
    split = random_split(*read_table(name, folder), seed)
    parts = split.x[:N_TRAIN], split.y[:N_TRAIN, 0], split.x_test, split.y_test[:, 0]
    began = time.perf_counter()
    with threadpool_limits(1):
        cell = measure_boosted(seed, *parts) if model == "boosted" else measure_fuzzy(model, seed, *parts)
    return {"set": name, "split": seed, "model": model, "seconds": time.perf_counter() - began, **cell}


Cells = dict[tuple[str, str], list[dict[str, Any]]]


def mean_of(cells: list[dict[str, Any]], read: Callable[[dict[str, Any]], float]) -> float:
    return float(np.mean([read(cell) for cell in cells]))


def tables(cells: list[dict[str, Any]], sets: list[str]) -> str:
    """Distributions and intervals by set and model, errors, and what follows from them in words."""
    by = {(s, m): [c for c in cells if c["set"] == s and c["model"] == m] for s in sets for m in MODELS}
    head = ["set", "method", "splits", "CRPS", "pinball"]
    head += [f"{what} {n:.0%}" for n in NOMINAL for what in ("PICP", "PINAW")]
    lines = []
    for name in sets:
        for model in NAMES:
            found = by[name, model]
            if not found:
                continue
            numbers = [f"{mean_of(found, lambda c, k=k: c[k]):.4f}" for k in ("crps", "pinball")]
            ends = ["-"] * 2 * len(NOMINAL)
            if "0.9" in found[0]:
                keys = [(str(n), k) for n in NOMINAL for k in ("picp", "pinaw")]
                ends = [f"{mean_of(found, lambda c, n=n, k=k: c[n][k]):.3f}" for n, k in keys]
            lines.append([name, NAMES[model], str(len(found)), *numbers, *ends])
    errors = []
    for name in sets:
        if by[name, "it2"] and by[name, "gt2"]:
            values = [mean_of(by[name, kind], rmse_of) for kind in ("it2", "gt2")]
            several = by[name, "gt2-several"]
            errors.append([name, *(f"{value:.4f}" for value in values), f"{100 * (values[1] / values[0] - 1):+.1f} %"])
            errors[-1].append(f"{mean_of(several, rmse_of):.4f}" if several else "-")
    error_head = ["set", "RMSE of IT2 with CQR", "GT2 quantiles", "difference", "8 systems of them"]
    return f"{markdown_table(head, lines)}\n\n{markdown_table(error_head, errors)}\n\n{verdict(by, sets)}"


def crisp_table(cells: list[dict[str, Any]], sets: list[str]) -> str:
    """Errors of crisp IT2 and GT2 systems on the splits that both have, their ratio, and whether it is small enough."""
    lines = []
    for name in sets:
        it2, gt2 = ({c["split"]: c["rmse"] for c in cells if key_of(c)[::2] == (name, model)} for model in CRISP)
        splits = sorted(it2.keys() & gt2.keys())
        if len(splits) < 2:  # no scatter, so nothing can be said
            continue
        logs = np.log([gt2[split] / it2[split] for split in splits])
        ratio, error = float(np.exp(logs.mean())), float(logs.std(ddof=1) / np.sqrt(len(logs)))
        within = "yes" if ratio <= MAX_RATIO else "within the error" if ratio - error <= MAX_RATIO else "NO"
        means = [f"{np.mean([of[split] for split in splits]):.4f}" for of in (it2, gt2)]
        lines.append([name, str(len(splits)), *means, f"{ratio:.3f}", f"{error:.3f}", within])
    head = ["set", "splits", "RMSE of IT2", "RMSE of GT2", "ratio", "standard error", f"at most {MAX_RATIO}"]
    return markdown_table(head, lines)


def rmse_of(cell: dict[str, Any]) -> float:
    return float(cell["rmse"])


def crps_of(cell: dict[str, Any]) -> float:
    return float(cell["crps"])


def verdict(by: Cells, sets: list[str]) -> str:
    """The comparisons that the tables are made for."""
    lines = []
    for model in ("gt2", "gt2-learned", "gt2-several", "gt2-several-learned"):
        both = [name for name in sets if by[name, model] and by[name, "boosted"]]
        ratios = {name: mean_of(by[name, model], crps_of) / mean_of(by[name, "boosted"], crps_of) for name in both}
        won = sum(ratio <= 1 for ratio in ratios.values())
        shown = ", ".join(f"{name} {ratio:.3f}" for name, ratio in ratios.items())
        lines.append(
            f"- CRPS of {NAMES[model]}, over that of boosted quantiles: {shown}; at most 1 on {won} of {len(both)}."
        )
    both = [name for name in sets if by[name, "gt2"] and by[name, "it2"]]
    ratios = {
        name: mean_of(by[name, "gt2"], lambda c: c["0.9"]["pinaw"]) / mean_of(by[name, "it2"], lambda c: c["0.9"]["pinaw"])
        for name in both
    }
    shown = ", ".join(f"{name} {ratio:.2f}" for name, ratio in ratios.items())
    won = sum(ratio <= 1.05 for ratio in ratios.values())
    lines.append(f"- PINAW at 90 % over that of IT2 with CQR: {shown}; at most 1.05 on {won} of {len(both)}.")
    for label, picp in (("PICP", lambda c, n: c[n]["picp"]), ("PICP over divisions", lambda c, n: c["divided"][n])):
        gaps = []
        for name in both:
            own = [100 * (mean_of(by[name, "gt2"], lambda c, n=n, picp=picp: picp(c, str(n))) - n) for n in NOMINAL]
            gaps.append(f"{name} {max(own, key=abs):+.1f}")
        words = f"Mean {label} of GT2 minus nominal in points, the farthest of the four coverages"
        lines.append(f"- {words}: {', '.join(gaps)}.")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = cell_parser(__doc__, tuple(N_TARGETS), MODELS, n_splits=3)
    parser.add_argument("--quick", action="store_true", help="boston and enb alone, one split")
    given = parser.parse_args(arguments)
    if given.quick:
        given.sets, given.splits = ["boston", "enb"], 1
    cells, complete = measured_cells(given, measure)
    # Crisp models that were not asked for are shown where they are finished.
    crisp = crisp_table(cells, given.sets)
    print(crisp)
    if given.markdown:
        intro = (
            f"{N_RULES} rules, {N_TRAIN:,} training rows at most, the first target, otherwise default settings, squared "
            "errors. RMSE in z-units of the target, mean over the splits; ratio: the geometric mean over the splits of the "
            "RMSE of GT2 over that of IT2, with its standard error."
        )
        command = f"distributions.py --data-dir DIR --models {','.join(CRISP)}"
        write_results(given.markdown, "distributions-crisp", "General and interval type-2, crisp", command, intro, crisp)
    if set(given.models) <= set(CRISP):
        return 0
    text = tables([cell for cell in cells if key_of(cell)[:2] in complete], given.sets)
    print(text)
    if given.markdown:
        intro = (
            f"{N_RULES} rules, {N_TRAIN:,} training rows at most, the first target, otherwise default settings, mean over "
            "the splits. CRPS is in z-units of the target, pinball the mean over 99 levels, PICP the share of test targets "
            "covered, PINAW the mean width over the range of the test targets. PICP over divisions is the mean over "
            f"{N_DIVISIONS} divisions of the calibration and test rows of one fit. docs/distributions.md explains when it "
            "pays."
        )
        write_results(given.markdown, "distributions", "Distributions", "distributions.py --data-dir DIR", intro, text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
