"""What do readable rules cost? Sets within the data and shared terms beside free systems, on the same splits.

    python benchmarks/readability.py --data-dir DIR --splits 5 --json rows.json --markdown RESULTS.md

``DIR`` has ``uci/NAME.npz`` (x, y and the test rows of 20 splits) for the first question, ``ccpp.csv`` and ``enb.csv`` for
the second; wine is scikit-learn's. The errors are RMSE in units of the targets' spread, of probabilities for wine. All
models have ten rules and otherwise default settings; both models of a pair have the same split and seed. Sizes and limits
were chosen on other splits than these.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from _report import Row, Target, markdown_table, option_parser, positive, print_table, write_json, write_results
from deepfls import FLSClassifier, FLSRegressor
from deepfls.inspection.plain import PlainSystem

UCI = ("boston", "energy", "kin8nm", "naval", "power", "wine_red", "yacht")
TABLES = ("ccpp", "enb", "wine")
TERMS: dict[str, Any] = {"n_terms": 3, "max_conditions": 4}
_HEAD = ["work", "value", "unit", "target", "holds"]


def share_outside(model: FLSRegressor) -> float:
    """Share of the sets whose center lies outside the range of the training data."""
    s = PlainSystem.of(model)
    assert s.input_range is not None
    return float(((s.centers < s.input_range[0]) | (s.centers > s.input_range[1])).mean())


def ranges(name: str, data_dir: Path, n_splits: int) -> dict[str, float]:
    """Mean test RMSE with and without a range of the centers, and the shares outside."""
    with np.load(data_dir / "uci" / f"{name}.npz") as data:
        x, y, test = data["x"], data["y"], data["test"]
    found: dict[str, list[float]] = {}
    for split in range(n_splits):
        held = np.zeros(len(x), dtype=bool)
        held[test[split]] = True
        for within in ("free", "data"):
            model = FLSRegressor(random_state=split, n_rules=10, centers_within=within).fit(x[~held], y[~held])
            error = float(np.sqrt(np.mean(np.square(model.predict(x[held]) - y[held]))))
            found.setdefault(f"rmse_{within}", []).append(error)
            found.setdefault(f"outside_{within}", []).append(share_outside(model))
    return {key: float(np.mean(values)) for key, values in found.items()}


def table(name: str, data_dir: Path) -> tuple[Any, Any]:
    if name == "wine":
        from sklearn.datasets import load_wine

        return load_wine(return_X_y=True)
    values = np.loadtxt(data_dir / f"{name}.csv", delimiter=",", skiprows=1)
    n_targets = 2 if name == "enb" else 1
    return values[:, :-n_targets], values[:, -n_targets:]


def terms(name: str, data_dir: Path, n_splits: int) -> dict[str, float]:
    """Mean test errors of free systems and of those with three terms, and the readability of the latter."""
    x, y = table(name, data_dir)
    found: dict[str, list[float]] = {}
    for split in range(n_splits):
        order = np.random.default_rng(split).permutation(len(x))
        train, test = order[: int(0.7 * len(x))], order[int(0.7 * len(x)) :]
        for kind, options in (("free", {}), ("terms", TERMS)):
            if name == "wine":
                model: Any = FLSClassifier(random_state=split, n_rules=10, **options).fit(x[train], y[train])
                errors = model.predict_proba(x[test]) - (y[test][:, np.newaxis] == model.classes_)
            else:
                model = FLSRegressor(random_state=split, n_rules=10, **options).fit(x[train], y[train])
                errors = (model.predict(x[test]).reshape(len(test), -1) - y[test]) / y[train].std(axis=0)
            found.setdefault(f"error_{kind}", []).append(float(np.sqrt(np.mean(np.square(errors)))))
            card = model.complexity()
            found.setdefault(f"sets_{kind}", []).append(float(card.sets_per_input.max()))
            found.setdefault(f"conditions_{kind}", []).append(float(card.conditions_per_rule.max()))
    means = {key: float(np.mean(values)) for key, values in found.items()}
    return means | {key: max(found[key]) for key in found if key.startswith(("sets", "conditions"))}


def measured(sets: list[str], data_dir: Path, n_splits: int) -> Iterator[Row]:
    ratios = []
    for name in (name for name in UCI if name in sets):
        cell = ranges(name, data_dir, n_splits)
        ratios.append(cell["rmse_data"] / cell["rmse_free"])
        yield Row(f'{name}: RMSE of centers_within="data"', ratios[-1], "times free", Target("<=", 1.03))
        yield Row(f"{name}: centers outside the data", cell["outside_data"], "share", Target("<=", 0.0))
        yield Row(f"{name}: centers outside the data, free", cell["outside_free"], "share")
    if ratios:
        yield Row('mean: RMSE of centers_within="data"', float(np.mean(ratios)), "times free", Target("<=", 1.01))
    for name in (name for name in TABLES if name in sets):
        cell = terms(name, data_dir, n_splits)
        ratio = cell["error_terms"] / cell["error_free"]
        yield Row(f"{name}: error of n_terms=3, max_conditions=4", ratio, "times free", Target("<=", 1.15))
        yield Row(f"{name}: sets per input, at most", cell["sets_terms"], "sets", Target("<=", 3.0))
        yield Row(f"{name}: conditions per rule, at most", cell["conditions_terms"], "conditions", Target("<=", 4.0))


def main(arguments: list[str] | None = None) -> int:
    parser = option_parser(__doc__, "json", "markdown")
    parser.add_argument("--data-dir", type=Path, default=Path(), metavar="DIR", help="where the sets are")
    parser.add_argument("--sets", default=",".join((*UCI, *TABLES)), help="names, joined by commas")
    parser.add_argument("--splits", type=positive, default=5, help="splits of each set")
    given = parser.parse_args(arguments)
    rows: list[Row] = []
    with warnings.catch_warnings(), Console(stderr=True).status("readability") as status:
        warnings.simplefilter("ignore", UserWarning)  # about constant columns
        for row in measured(given.sets.split(","), given.data_dir, given.splits):
            rows.append(row)
            status.update(f"readability: {row.work}")
            if given.json:
                write_json(given.json, [row.as_json() | {"splits": given.splits} for row in rows])
    print_table(_HEAD, [row.cells() for row in rows], left=("work", "unit", "holds"))
    if given.markdown:
        method = f"Means over {given.splits} splits; both models of a pair have the same split and seed, and ten rules."
        lines = markdown_table(_HEAD, [row.cells() for row in rows])
        command = f"readability.py --data-dir DIR --splits {given.splits}"
        write_results(given.markdown, "readability", "What readable rules cost", command, method, lines)
    return 0


if __name__ == "__main__":
    sys.exit(main())
