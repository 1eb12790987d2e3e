"""What do readable rules cost? Sets within the data and shared terms beside free systems, on the same splits.

    python benchmarks/readability.py --data-dir DIR --splits 10 --json rows.json --markdown RESULTS.md

``DIR`` has ``uci/NAME.npz`` (x, y and the test rows of 20 splits) for the first question, ``ccpp.csv`` and ``enb.csv`` for
the second; wine is scikit-learn's. The errors are RMSE in units of the targets' spread, of probabilities for wine. All
models have ten rules and otherwise default settings; both models of a pair have the same split and seed. The value of a
set is the mean error of the one kind divided by that of the other, with the standard error from the differences of the
pairs: single splits scatter by up to 20 % on sets with few rows or little noise (yacht, enb, naval), so ten splits are the
default, and naval and yacht have twice as many. The JSON has the errors of every split.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from _report import Row, Target, markdown_table, option_parser, positive, print_table, write_json, write_results
from deepfls import FLSClassifier, FLSRegressor
from deepfls.inspection.plain import PlainSystem

UCI = ("boston", "energy", "kin8nm", "naval", "power", "wine_red", "yacht")
TABLES = ("ccpp", "enb", "wine")
# Sets with twice as many splits, because their targets have nearly no noise: ratios of single splits run from .6 to 1.3.
DOUBLED = ("naval", "yacht")
TERMS: dict[str, Any] = {"n_terms": 3, "max_conditions": 4}
_HEAD = ["work", "value", "±", "unit", "target", "holds"]


@dataclass(frozen=True)
class Measured:
    """A row beside its target, with the standard error of a ratio and the errors of the pairs it was made from."""

    row: Row
    standard_error: float | None = None
    pairs: tuple[tuple[float, float], ...] = ()

    @classmethod
    def ratio(cls, work: str, free: list[float], other: list[float], limit: float) -> Measured:
        """Mean of ``other`` divided by the mean of ``free``."""
        a, b = np.array(free), np.array(other)
        value = float(b.mean() / a.mean())
        scatter = float(np.std(b - value * a, ddof=1) / a.mean() / np.sqrt(len(a))) if len(a) > 1 else None
        return cls(Row(work, value, "times free", Target("<=", limit)), scatter, tuple(zip(free, other, strict=True)))

    def cells(self) -> list[str]:
        work, value, *rest = self.row.cells()
        return [work, value, "" if self.standard_error is None else f"{self.standard_error:.3f}", *rest]

    def as_json(self) -> dict[str, Any]:
        return self.row.as_json() | {"standard_error": self.standard_error, "pairs": self.pairs}


def share_outside(model: FLSRegressor) -> float:
    """Share of the sets whose center lies outside the range of the training data."""
    s = PlainSystem.of(model)
    assert s.input_range is not None
    return float(((s.centers < s.input_range[0]) | (s.centers > s.input_range[1])).mean())


def ranges(name: str, data_dir: Path, n_splits: int) -> dict[str, list[float]]:
    """Test RMSE of each split with and without a range of the centers, and the shares outside."""
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
    return found


def table(name: str, data_dir: Path) -> tuple[Any, Any]:
    if name == "wine":
        from sklearn.datasets import load_wine

        return load_wine(return_X_y=True)
    values = np.loadtxt(data_dir / f"{name}.csv", delimiter=",", skiprows=1)
    n_targets = 2 if name == "enb" else 1
    return values[:, :-n_targets], values[:, -n_targets:]


def terms(name: str, data_dir: Path, n_splits: int) -> dict[str, list[float]]:
    """Test errors of each split of free systems and of those with three terms, and the readability of the latter."""
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
    return found


def measured(sets: list[str], data_dir: Path, n_splits: int) -> Iterator[Measured]:
    ratios = []
    for name in (name for name in UCI if name in sets):
        cell = ranges(name, data_dir, n_splits * (2 if name in DOUBLED else 1))
        work = f'{name}: RMSE of centers_within="data"'
        found = Measured.ratio(work, cell["rmse_free"], cell["rmse_data"], 1.03)
        ratios.append(found)
        yield found
        outside, outside_free = (float(np.mean(cell[key])) for key in ("outside_data", "outside_free"))
        yield Measured(Row(f"{name}: centers outside the data", outside, "share", Target("<=", 0.0)))
        yield Measured(Row(f"{name}: centers outside the data, free", outside_free, "share"))
    if ratios:
        yield mean_of(ratios)
    for name in (name for name in TABLES if name in sets):
        cell = terms(name, data_dir, n_splits)
        work = f"{name}: error of n_terms=3, max_conditions=4"
        yield Measured.ratio(work, cell["error_free"], cell["error_terms"], 1.15)
        sets_, conditions = max(cell["sets_terms"]), max(cell["conditions_terms"])
        yield Measured(Row(f"{name}: sets per input, at most", sets_, "sets", Target("<=", 3.0)))
        yield Measured(Row(f"{name}: conditions per rule, at most", conditions, "conditions", Target("<=", 4.0)))


def mean_of(ratios: list[Measured]) -> Measured:
    """Mean over the sets; the sets are independent, so that the squares of their standard errors add up."""
    values = [found.row.value for found in ratios if found.row.value is not None]
    row = Row('mean: RMSE of centers_within="data"', float(np.mean(values)), "times free", Target("<=", 1.01))
    errors = [found.standard_error for found in ratios if found.standard_error is not None]
    return Measured(row, float(np.sqrt(np.sum(np.square(errors)))) / len(ratios) if errors else None)


def main(arguments: list[str] | None = None) -> int:
    parser = option_parser(__doc__, "json", "markdown")
    parser.add_argument("--data-dir", type=Path, default=Path(), metavar="DIR", help="where the sets are")
    parser.add_argument("--sets", default=",".join((*UCI, *TABLES)), help="names, joined by commas")
    parser.add_argument("--splits", type=positive, default=10, help="splits of each set, at most 10")
    given = parser.parse_args(arguments)
    rows: list[Measured] = []
    with warnings.catch_warnings(), Console(stderr=True).status("readability") as status:
        warnings.simplefilter("ignore", UserWarning)  # about constant columns
        for row in measured(given.sets.split(","), given.data_dir, given.splits):
            rows.append(row)
            status.update(f"readability: {row.row.work}")
            if given.json:
                write_json(given.json, [row.as_json() | {"splits": given.splits} for row in rows])
    print_table(_HEAD, [row.cells() for row in rows], left=("work", "unit", "holds"))
    if given.markdown:
        method = (
            f"Means over {given.splits} splits, {2 * given.splits} for {' and '.join(DOUBLED)}; ± is the standard error. "
            "Both models of a pair have the same split and seed, and ten rules."
        )
        lines = markdown_table(_HEAD, [row.cells() for row in rows])
        command = f"readability.py --data-dir DIR --splits {given.splits}"
        write_results(given.markdown, "readability", "What readable rules cost", command, method, lines)
    return 0


if __name__ == "__main__":
    sys.exit(main())
