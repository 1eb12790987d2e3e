"""How good are the default settings? Test errors in the paper's protocol, beside a linear model, an MLP and boosted trees.

``python benchmarks/recipe.py --data-dir DIR --seeds 10 --markdown RESULTS.md``

The fuzzy systems have 30 rules and otherwise default settings; the others are scikit-learn's with theirs (the MLP with two
hidden layers of 64). Same splits for all, z-units, one thread.

``--starts 20000:300,5000:25`` measures instead what a larger sample and more rounds of k-means are worth where tables are
large: ROWS:ROUNDS of each start, compared with the first on the same splits and seeds.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from rich.console import Console
from rich.progress import track
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LinearRegression
from sklearn.metrics import root_mean_squared_error
from sklearn.multioutput import MultiOutputRegressor
from sklearn.neural_network import MLPRegressor
from threadpoolctl import threadpool_limits

from deepfls import FLSRegressor, initialize
from deepfls.cli.sections import hardware, markdown_table, write_section
from deepfls.data.datasets import load_dataset
from deepfls.experiment import SETS, protocol_split
from intervals import read_set  # the script beside this one

N_RULES = 30
# Sets of --starts, whose training rows are more than k-means looks at; of the 112 million rows of turbidity these many.
LARGE_SETS = ("california", "gas_turbine", "turbidity")
TURBIDITY_ROWS = 50_000
# Settings given by --setting, to try others than the defaults.
SETTINGS: dict[str, Any] = {}

MODELS: dict[str, Callable[[int], Any]] = {
    "linear": lambda seed: LinearRegression(),
    "MLP 64-64": lambda seed: MLPRegressor(hidden_layer_sizes=(64, 64), max_iter=500, random_state=seed),
    "boosted trees": lambda seed: MultiOutputRegressor(HistGradientBoostingRegressor(random_state=seed)),
    "T1": lambda seed: FLSRegressor(kind="t1", n_rules=N_RULES, random_state=seed, **SETTINGS),
    "IT2": lambda seed: FLSRegressor(kind="it2", n_rules=N_RULES, random_state=seed, **SETTINGS),
}


def measure(dataset: str, model: str, seeds: range, data_dir: str | None) -> dict[str, Any]:
    """Mean and spread of the test errors per output, and mean training seconds."""
    data = load_dataset(dataset, data_dir=data_dir)
    errors, seconds = [], []
    for seed in seeds:
        split = protocol_split(data, seed)
        estimator = MODELS[model](seed)
        y = split.y[:, 0] if split.y.shape[1] == 1 and model != "boosted trees" else split.y
        began = time.perf_counter()
        with threadpool_limits(1), warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # of the MLP
            estimator.fit(split.x, y)
        seconds.append(time.perf_counter() - began)
        predicted = estimator.predict(split.x_test).reshape(split.y_test.shape)
        errors.append(np.sqrt(np.mean((predicted - split.y_test) ** 2, axis=0)))
    return {
        "dataset": dataset,
        "model": model,
        "outputs": list(data.target_names),
        "rmse_mean": np.mean(errors, axis=0).tolist(),
        "rmse_std": np.std(errors, axis=0, ddof=1 if len(seeds) > 1 else 0).tolist(),
        "seconds": float(np.mean(seconds)),
        "seeds": len(seeds),
    }


def table(rows: list[dict[str, Any]]) -> tuple[list[str], list[list[str]]]:
    head = ["set", "output", "model", "RMSE", "± seeds", "seconds"]
    lines = []
    for row in rows:
        for place, output in enumerate(row["outputs"]):
            mean, spread = f"{row['rmse_mean'][place]:.4f}", f"{row['rmse_std'][place]:.3f}"
            lines.append([row["dataset"], output, row["model"], mean, spread, f"{row['seconds']:.1f}"])
    return head, lines


@contextmanager
def kmeans_start(sample: int, rounds: int) -> Iterator[list[float]]:
    """Fits within start from k-means of ``sample`` rows in ``rounds`` rounds; gives the list of the seconds they take."""
    seconds: list[float] = []
    start_centers = initialize.start_centers

    def timed(*arguments: Any) -> Any:
        began = time.perf_counter()
        centers = start_centers(*arguments)
        seconds.append(time.perf_counter() - began)
        return centers

    with patch.multiple(initialize, _KMEANS_SAMPLE=sample, _KMEANS_ROUNDS=rounds, start_centers=timed):
        yield seconds


def read_large(name: str, data_dir: str | None) -> tuple[Any, Any]:
    """Inputs and targets, the targets in z-units of the whole set or sample."""
    if name != "turbidity":
        return read_set(name, Path(data_dir or "."))
    data = load_dataset(name, data_dir=data_dir, n_rows=TURBIDITY_ROWS)
    return data.x, (data.y - data.y.mean(axis=0)) / data.y.std(axis=0, ddof=1)


def measure_starts(
    dataset: str, model: str, starts: list[tuple[int, int]], seeds: int, data_dir: str | None
) -> dict[str, Any]:
    """Test errors, seconds of the fits and of their k-means, each (seeds, starts)."""
    x, y = read_large(dataset, data_dir)
    cells = []
    for seed in range(seeds):
        order = np.random.default_rng(seed).permutation(len(x))
        train, test = np.split(order, [round(0.7 * len(x))])
        for start in starts:
            began = time.perf_counter()
            with threadpool_limits(1), kmeans_start(*start) as seconds:
                fitted = MODELS[model](seed).fit(x[train], y[train])
            took = time.perf_counter() - began
            cells.append((root_mean_squared_error(y[test], fitted.predict(x[test])), took, seconds[0]))
    errors, fits, kmeans = np.reshape(cells, (seeds, len(starts), 3)).transpose(2, 0, 1).tolist()
    return {"dataset": dataset, "model": model, "starts": starts, "rmse": errors, "seconds": fits, "kmeans_seconds": kmeans}


def table_of_starts(rows: list[dict[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """Mean errors, and the differences from the first start on the same splits with their spread and standard error."""
    head = ["set", "model", "rows", "rounds", "RMSE", "difference", "± seeds", "± mean", "k-means, s", "of the fit"]
    lines = []
    for row in rows:
        errors, fits, kmeans = (np.array(row[key]) for key in ("rmse", "seconds", "kmeans_seconds"))
        percent = 100 * (errors - errors[:, :1]) / errors[:, 0].mean()
        for place, (sample, rounds) in enumerate(row["starts"]):
            spread = percent[:, place].std(ddof=1 if len(percent) > 1 else 0)
            compared = [f"{percent[:, place].mean():+.2f} %", f"{spread:.2f}", f"{spread / len(percent) ** 0.5:.2f}"]
            took = [f"{kmeans[:, place].mean():.3f}", f"{kmeans[:, place].sum() / fits[:, place].sum():.1%}"]
            start = [f"{sample:,}", str(rounds), f"{errors[:, place].mean():.4f}"]
            lines.append([row["dataset"], row["model"], *start, *(compared if place else ["-"] * 3), *took])
    return head, lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=0, help="for splits nobody looked at before")
    parser.add_argument("--sets", help=f"default {','.join(SETS)}; of --starts {','.join(LARGE_SETS)}")
    parser.add_argument("--models", help=f"default {','.join(MODELS)}; of --starts T1,IT2")
    parser.add_argument("--setting", action="append", default=[], metavar="NAME=VALUE", help="another one of T1 and IT2")
    parser.add_argument("--starts", metavar="ROWS:ROUNDS,...", help="starts of k-means to compare on large tables")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--markdown", type=Path)
    arguments = parser.parse_args()
    for setting in arguments.setting:
        name, text = setting.split("=", 1)
        SETTINGS[name] = float(text) if "." in text else int(text) if text.isdigit() else text
    sets = arguments.sets.split(",") if arguments.sets else LARGE_SETS if arguments.starts else SETS
    models = arguments.models.split(",") if arguments.models else ("T1", "IT2") if arguments.starts else tuple(MODELS)
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    cells = track([(name, model) for name in sets for model in models], console=Console(stderr=True))
    if arguments.starts:
        starts = [(int(rows), int(rounds)) for rows, rounds in (start.split(":") for start in arguments.starts.split(","))]
        rows = [measure_starts(*cell, starts, arguments.seeds, arguments.data_dir) for cell in cells]
        section, (head, lines) = "recipe-start", table_of_starts(rows)
        intro = (
            "## K-means of a sample\n\nWritten by `python benchmarks/recipe.py --data-dir DIR --starts "
            f"{arguments.starts} --markdown RESULTS.md`: {N_RULES} rules and otherwise default settings, mean over "
            f"{arguments.seeds} seeds and splits, one thread, test RMSE in z-units over all targets. K-means of tables "
            f"beyond {initialize._KMEANS_ROWS:,} rows looks at a random sample of so many rows at most, for so many rounds "
            f"at most; the defaults are {initialize._KMEANS_SAMPLE:,} and {initialize._KMEANS_ROUNDS}. The difference is "
            "that of the RMSE from the first start on the same splits and seeds, in percent of it, with its standard "
            "deviation over the seeds and the standard error of its mean. turbidity is a sample "
            f"of {TURBIDITY_ROWS:,} rows."
        )
    else:
        seeds = range(arguments.first_seed, arguments.first_seed + arguments.seeds)
        rows = [measure(*cell, seeds, arguments.data_dir) for cell in cells]
        section, (head, lines) = "recipe", table(rows)
        intro = (
            "## The default settings\n\nWritten by `python benchmarks/recipe.py --data-dir DIR --markdown RESULTS.md`: "
            f"{N_RULES} rules and otherwise default settings in the paper's protocol, mean over {arguments.seeds} seeds, "
            "in z-units, beside scikit-learn's models on the same splits. docs/recipe.md tells how they "
            "were chosen: most of them on these same splits."
        )
    torch.set_num_threads(before)
    text = markdown_table(head, lines)
    print(text)
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    if arguments.markdown:
        write_section(arguments.markdown, section, f"{intro}\n\n{text}\n\n{hardware()}")


if __name__ == "__main__":
    main()
