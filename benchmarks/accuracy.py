"""How accurate are the default settings beside linear models, boosted trees, EBM and an MLP?

    python benchmarks/accuracy.py --data-dir DIR --store FILE --markdown RESULTS.md --figure docs/figures/accuracy.png

Regression: the seven UCI sets of DIR/uci with their published splits of 90 % and 10 %, and tables of DIR/extra, 70 % and
30 %. Classification: sets of scikit-learn and the quality of red wine, 70 % and 30 % of every class. Fuzzy systems have 30
rules and otherwise default settings; the others have their defaults. The others run in an environment of their own, which
``--python`` names, or which is made in the user's cache folder (needs a network).

Every fit is appended to the store. A run skips what is there, so it can be stopped and started at any time, and sets and
splits can be added later. ``--report`` writes the tables of a store without a fit.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import track

from _accuracy_worker import MODELS as OTHERS
from _protocol import Array, Split, random_split, read_table
from _report import markdown_table, names_among, new_file, option_parser, positive, write_results
from _timing import threads
from deepfls import FLSClassifier, FLSRegressor
from deepfls._files import cache_folder

WORKER = Path(__file__).with_name("_accuracy_worker.py")
PACKAGES = ("scikit-learn", "xgboost", "lightgbm", "catboost", "interpret-core")
N_RULES = 30
OURS: dict[str, dict[str, Any]] = {
    "T1": {"kind": "t1"},
    "IT2": {"kind": "it2"},
    "8 T1": {"kind": "t1", "n_systems": 8},
    "8 IT2": {"kind": "it2", "n_systems": 8},
}
UCI = ("yacht", "boston", "energy", "wine_red", "power", "kin8nm", "naval")
TABLES = ("california", "gas_turbine")
CLASSES = ("iris", "wine", "breast_cancer", "digits", "moons", "flipped", "wine_quality")
# No setting was chosen with a look at these.
UNSEEN = ("kin8nm", "naval", "gas_turbine")


def split_of(name: str, number: int, folder: Path) -> Split:
    """A split of a set by its number; classes are places from 0 on."""
    if name in CLASSES:
        return _class_split(name, number, folder)
    if name in UCI:
        with np.load(folder / "uci" / f"{name}.npz") as data:
            x, y, test = data["x"], data["y"], data["test"][number]
        train = np.setdiff1d(np.arange(len(y)), test)
        return Split(x[train], y[train], x[test], y[test])
    x, y = read_table(name, folder)
    return random_split(x, y[:, -1], number)


def _class_split(name: str, number: int, folder: Path) -> Split:
    from sklearn import datasets
    from sklearn.model_selection import train_test_split

    if name == "moons":
        x, y = datasets.make_moons(600, noise=0.5, random_state=0)
    elif name == "flipped":
        x, y = datasets.make_classification(1_000, 12, n_informative=4, n_classes=3, flip_y=0.3, random_state=0)
    elif name == "wine_quality":
        with np.load(folder / "uci" / "wine_red.npz") as data:
            x, y = data["x"], np.clip(data["y"], 4, 7)
    else:
        x, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    _, y = np.unique(y, return_inverse=True)
    x, x_test, y, y_test = train_test_split(x, y, test_size=0.3, stratify=y, random_state=number)
    return Split(x, y, x_test, y_test)


def environment(given: Path | None) -> Path:
    """The interpreter of the other models, made where none is given."""
    if given is not None:
        return given
    folder = cache_folder() / "accuracy"
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if not (folder / "installed").exists():
        print(f"making an environment of the other models in {folder}, once per machine ...", file=sys.stderr, flush=True)
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", *PACKAGES], check=True)
        (folder / "installed").touch()
    return python


def other_predictions(model: str, split: Split, seed: int, python: Path, *, classifies: bool) -> tuple[Array, float]:
    """Predictions and seconds of the fit of a model that is not ours."""
    single = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    with tempfile.TemporaryDirectory() as folder:
        data, result = Path(folder) / "data.npz", Path(folder) / "result.npz"
        np.savez(data, x=split.x, y=split.y, x_test=split.x_test, classifies=classifies)
        command = [str(python), str(WORKER), model, str(data), str(result), str(seed)]
        subprocess.run(command, check=True, env={**os.environ, **single}, stdout=subprocess.DEVNULL)
        with np.load(result) as found:
            return found["predicted"], float(found["seconds"])


def measure(name: str, model: str, number: int, folder: Path, python: Path | None) -> dict[str, Any]:
    """Errors and seconds of one fit."""
    split, classifies = split_of(name, number, folder), name in CLASSES
    row: dict[str, Any] = {"set": name, "model": model, "split": number}
    if model in OURS:
        estimator: Any = (FLSClassifier if classifies else FLSRegressor)(
            n_rules=N_RULES, random_state=number, **OURS[model]
        )
        began = time.perf_counter()
        with threads(1):
            estimator.fit(split.x, split.y)
        seconds = time.perf_counter() - began
        predicted = estimator.predict_proba(split.x_test) if classifies else estimator.predict(split.x_test)
        row |= {"rules": estimator.system_.n_rules * OURS[model].get("n_systems", 1), "chosen": estimator.chosen_}
    else:
        assert python is not None
        predicted, seconds = other_predictions(model, split, number, python, classifies=classifies)
    row["seconds"] = seconds
    if not classifies:
        return row | {"rmse": float(np.sqrt(np.mean((predicted - split.y_test) ** 2)))}
    of_truth = np.maximum(predicted[np.arange(len(predicted)), split.y_test], 1e-15)
    right = predicted.argmax(axis=1) == split.y_test
    return row | {"accuracy": float(right.mean()), "log_loss": float(-np.log(of_truth).mean())}


# Tables


def common_splits(rows: Sequence[dict[str, Any]], name: str) -> set[int]:
    """The splits of a set that all of its models have."""
    own = [row for row in rows if row["set"] == name]
    return set.intersection(*({row["split"] for row in own if row["model"] == model["model"]} for model in own))


def means(rows: Sequence[dict[str, Any]], measure: str) -> dict[tuple[str, str], float]:
    """Mean of a measure by set and model, over the splits that all models of the set have."""
    found: dict[tuple[str, str], float] = {}
    for name in dict.fromkeys(row["set"] for row in rows if measure in row):
        common = common_splits(rows, name)
        own = [row for row in rows if row["set"] == name and row["split"] in common]
        for model in dict.fromkeys(row["model"] for row in own):
            found[name, model] = float(np.mean([row[measure] for row in own if row["model"] == model]))
    return found


def table_of(rows: Sequence[dict[str, Any]], measure: str, *, largest: bool = False) -> str:
    """A Markdown table of sets and models; the last row is the mean rank."""
    found = means(rows, measure)
    models = [model for model in (*OURS, *OTHERS) if any(key[1] == model for key in found)]
    lines, ranks = [], []
    for name in dict.fromkeys(key[0] for key in found):
        values = np.array([found.get((name, model), np.nan) for model in models])
        order = -values if largest else values
        ranks.append([np.nan if np.isnan(v) else 1 + np.sum(order < v) for v in order])
        best = np.nanmin(order)
        cells = ["-" if np.isnan(v) else f"**{abs(v):.4g}**" if v == best else f"{abs(v):.4g}" for v in order]
        lines.append([f"{name}{' †' if name in UNSEEN else ''} ({len(common_splits(rows, name))})", *cells])
    lines.append(["mean rank", *(f"{rank:.1f}" for rank in np.nanmean(ranks, axis=0))])
    return markdown_table(["set (splits)", *models], lines)


def draw(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """Errors of all models beside the best of each set, as dots."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    found = means(rows, "rmse")
    names = list(dict.fromkeys(key[0] for key in found))
    figure, ax = plt.subplots(figsize=(7.5, 0.5 * len(names) + 1.2), layout="constrained")
    for model in (*OURS, *OTHERS):
        places = [k for k, name in enumerate(names) if (name, model) in found]
        if not places:
            continue
        best = [min(v for (other, _), v in found.items() if other == names[k]) for k in places]
        values = [found[names[k], model] / low for k, low in zip(places, best, strict=True)]
        style = {"marker": "D", "s": 46, "zorder": 3} if model in OURS else {"marker": "o", "s": 26, "alpha": 0.7}
        ax.scatter(values, places, label=model, **style)
    ax.set(xscale="log", xlabel="test RMSE / that of the best model", yticks=range(len(names)), yticklabels=names)
    ticks = [1, 2, 5, 10, 20, 50]
    ax.set_xticks(ticks, map(str, ticks))
    ax.minorticks_off()
    ax.invert_yaxis()
    ax.legend(ncols=4, fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.15 - 0.6 / len(names)))
    figure.savefig(path, dpi=150)
    plt.close(figure)


def cells_of(given: Any) -> Iterator[tuple[str, str, int]]:
    """Sets, models and splits, the splits of a set in turn, so that a run that is stopped has whole rows."""
    for name in given.sets:
        large = name in (*TABLES, "power", "kin8nm", "naval")
        for number in range(given.large_splits if large else given.splits):
            for model in given.models:
                yield name, model, number


def main(arguments: Sequence[str] | None = None) -> int:
    parser = option_parser(__doc__, "markdown")
    add = parser.add_argument
    add("--data-dir", type=Path, required=True, metavar="DIR", help="folder with the tables")
    add("--store", type=new_file, required=True, metavar="FILE", help="JSON lines of all fits, continued")
    add("--sets", type=names_among((*UCI, *TABLES, *CLASSES)), default=[*UCI, *TABLES, *CLASSES])
    add("--models", type=names_among((*OURS, *OTHERS)), default=[*OURS, *OTHERS])
    add("--splits", type=positive, default=10, help="splits of the small sets")
    add("--large-splits", type=positive, default=3, help="splits of sets of more than 2,000 rows")
    add("--python", type=Path, metavar="FILE", help="interpreter with scikit-learn and the packages of the others")
    add("--figure", type=new_file, metavar="FILE")
    add("--note", default="", metavar="TEXT", help="ends the section of --markdown")
    add("--report", action="store_true", help="no fits")
    given = parser.parse_args(arguments)
    rows = [json.loads(line) for line in given.store.read_text().splitlines()] if given.store.exists() else []
    known = {(row["set"], row["model"], row["split"]) for row in rows}
    missing = [] if given.report else [cell for cell in cells_of(given) if cell not in known]
    python = environment(given.python) if any(model in OTHERS for _, model, _ in missing) else None
    for cell in track(missing, console=Console(stderr=True), disable=not sys.stderr.isatty()):
        rows.append(measure(*cell, given.data_dir, python))
        with given.store.open("a", encoding="utf-8") as file:
            file.write(json.dumps(rows[-1]) + "\n")
    rows = [row for row in rows if row["set"] in given.sets and row["model"] in given.models]
    tables = [("Test RMSE in the units of the target (z-scores for california and gas_turbine).", "rmse", False)]
    tables += [("Accuracy.", "accuracy", True), ("Log loss.", "log_loss", False), ("Seconds of a fit.", "seconds", False)]
    parts = []
    for title, name, largest in tables:
        if any(name in row for row in rows):
            parts += [title, table_of(rows, name, largest=largest)]
    print("\n\n".join(parts))
    if given.figure:
        draw(rows, given.figure)
    if given.markdown:
        intro = (
            f"Fuzzy systems of {N_RULES} rules (8 T1 and 8 IT2: the mean of eight), otherwise default settings; the others "
            "with their defaults. Means over the splits that all models of a set have; one thread each. † no setting was "
            "chosen with a look at this set. `docs/recipe.md` has how the settings were chosen."
        )
        command = "accuracy.py --data-dir DIR --store FILE"
        write_results(given.markdown, "accuracy", "Accuracy beside other models", command, intro, *parts, foot=given.note)
    return 0


if __name__ == "__main__":
    sys.exit(main())
