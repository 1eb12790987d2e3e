"""How good are the default settings? Test errors in the paper's protocol, beside a linear model, an MLP and boosted trees.

    python benchmarks/recipe.py --data-dir DIR --seeds 10 --markdown RESULTS.md

The fuzzy systems have 30 rules and otherwise default settings; the others are scikit-learn's with theirs (the MLP with two
hidden layers of 64). All models have the same splits, z-units and one thread.

``--starts 20000:300,5000:25`` measures instead the effect of a larger sample and of more rounds of k-means on large tables:
ROWS:ROUNDS of each start, compared with the first on the same splits and seeds.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from rich.console import Console
from rich.progress import track
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LinearRegression
from sklearn.multioutput import MultiOutputRegressor
from sklearn.neural_network import MLPRegressor
from threadpoolctl import threadpool_limits

from _protocol import SETS, protocol_split, random_split, read_table, z_scores
from _report import markdown_table, names_among, option_parser, positive, write_json, write_results
from _timing import threads
from deepfls import FLSRegressor
from deepfls.data.datasets import load_dataset
from deepfls.training import partition, start

N_RULES = 30
# Sets of --starts, which have more training rows than k-means uses; of turbidity a sample of this number of rows.
LARGE_SETS = ("ccpp", "california", "gas_turbine", "turbidity")
TURBIDITY_ROWS = 50_000
# Settings given by --setting instead of the defaults.
SETTINGS: dict[str, Any] = {}

MODELS: dict[str, Callable[[int], Any]] = {
    "linear": lambda seed: LinearRegression(),
    "MLP 64-64": lambda seed: MLPRegressor(hidden_layer_sizes=(64, 64), max_iter=500, random_state=seed),
    "boosted trees": lambda seed: MultiOutputRegressor(HistGradientBoostingRegressor(random_state=seed)),
    "T1": lambda seed: FLSRegressor(kind="t1", n_rules=N_RULES, random_state=seed, **SETTINGS),
    "IT2": lambda seed: FLSRegressor(kind="it2", n_rules=N_RULES, random_state=seed, **SETTINGS),
    "8 T1": lambda seed: FLSRegressor(kind="t1", n_rules=N_RULES, n_systems=8, random_state=seed, **SETTINGS),
    "8 IT2": lambda seed: FLSRegressor(kind="it2", n_rules=N_RULES, n_systems=8, random_state=seed, **SETTINGS),
}


def measure(dataset: str, model: str, seeds: range, data_dir: Path | None) -> dict[str, Any]:
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


def table(rows: list[dict[str, Any]]) -> str:
    head = ["set", "output", "model", "RMSE", "± seeds", "seconds"]
    lines = []
    for row in rows:
        for place, output in enumerate(row["outputs"]):
            mean, spread = f"{row['rmse_mean'][place]:.4f}", f"{row['rmse_std'][place]:.3f}"
            lines.append([row["dataset"], output, row["model"], mean, spread, f"{row['seconds']:.1f}"])
    return markdown_table(head, lines)


@contextmanager
def kmeans_start(sample: int, rounds: int) -> Iterator[list[float]]:
    """Fits inside start from k-means of ``sample`` rows in ``rounds`` rounds; yields the list of its seconds."""
    seconds: list[float] = []
    start_centers = start.start_centers

    def timed(*arguments: Any) -> Any:
        began = time.perf_counter()
        centers = start_centers(*arguments)
        seconds.append(time.perf_counter() - began)
        return centers

    sizes = {"_KMEANS_SAMPLE": sample, "_KMEANS_ROWS_PER_RULE": 1, "_KMEANS_ROUNDS": rounds}
    with patch.object(start, "start_centers", timed), patch.multiple(partition, **sizes):
        yield seconds


def measure_starts(
    dataset: str, model: str, starts: list[tuple[int, int]], seeds: int, data_dir: Path | None
) -> dict[str, Any]:
    """Test errors, seconds of the fits and of their k-means, each (seeds, starts)."""
    if dataset == "turbidity":
        data = load_dataset(dataset, data_dir=data_dir, n_rows=TURBIDITY_ROWS)
        x, y = data.x, z_scores(data.y)
    else:
        x, y = read_table(dataset, data_dir or Path())
    cells = []
    for seed in range(seeds):
        split = random_split(x, y, seed)
        for given in starts:
            began = time.perf_counter()
            with threadpool_limits(1), kmeans_start(*given) as seconds:
                fitted = MODELS[model](seed).fit(split.x, split.y)
            took = time.perf_counter() - began
            errors = fitted.predict(split.x_test).reshape(split.y_test.shape) - split.y_test
            cells.append((np.sqrt(np.mean(errors**2)), took, seconds[0]))
    errors, fits, kmeans = np.reshape(cells, (seeds, len(starts), 3)).transpose(2, 0, 1).tolist()
    return {"dataset": dataset, "model": model, "starts": starts, "rmse": errors, "seconds": fits, "kmeans_seconds": kmeans}


def table_of_starts(rows: list[dict[str, Any]]) -> str:
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
            given = [f"{sample:,}", str(rounds), f"{errors[:, place].mean():.4f}"]
            lines.append([row["dataset"], row["model"], *given, *(compared if place else ["-"] * 3), *took])
    return markdown_table(head, lines)


def rows_and_rounds(text: str) -> list[tuple[int, int]]:
    """Option type: ROWS:ROUNDS, separated by commas."""
    pairs = [[positive(number) for number in pair.split(":")] for pair in text.split(",")]
    if any(len(pair) != 2 for pair in pairs):
        raise argparse.ArgumentTypeError(f"must be ROWS:ROUNDS separated by commas, got {text!r}.")
    return [(rows, rounds) for rows, rounds in pairs]


def setting(text: str) -> tuple[str, Any]:
    """Option type: NAME=VALUE, the value a number where it reads as one."""
    name, _, value = text.partition("=")
    return name, float(value) if "." in value else int(value) if value.isdigit() else value


def main(arguments: Sequence[str] | None = None) -> int:
    parser = option_parser(__doc__, "json", "markdown")
    add = parser.add_argument
    add("--data-dir", type=Path, metavar="DIR", help="folder with the tables")
    add("--seeds", type=positive, default=10)
    add("--first-seed", type=int, default=0, help="first seed, for splits that no choice was based on")
    add("--sets", type=names_among((*SETS, *LARGE_SETS)), help=f"{','.join(SETS)}; of --starts {','.join(LARGE_SETS)}")
    add("--models", type=names_among(tuple(MODELS)), help=f"{','.join(MODELS)}; of --starts T1,IT2")
    add("--setting", type=setting, action="append", default=[], metavar="NAME=VALUE", help="setting of T1 and IT2")
    add("--starts", type=rows_and_rounds, metavar="ROWS:ROUNDS,...", help="starts of k-means to compare on large tables")
    given = parser.parse_args(arguments)
    SETTINGS.update(given.setting)
    sets = given.sets or (LARGE_SETS if given.starts else SETS)
    models = given.models or (("T1", "IT2") if given.starts else tuple(MODELS))
    cells = [(name, model) for name in sets for model in models]
    with threads(1):
        shown = track(cells, console=Console(stderr=True), disable=not sys.stderr.isatty())
        if given.starts:
            rows = [measure_starts(*cell, given.starts, given.seeds, given.data_dir) for cell in shown]
        else:
            seeds = range(given.first_seed, given.first_seed + given.seeds)
            rows = [measure(*cell, seeds, given.data_dir) for cell in shown]
    text = table_of_starts(rows) if given.starts else table(rows)
    print(text)
    if given.json:
        write_json(given.json, rows)
    if given.markdown and given.starts:
        command = f"recipe.py --data-dir DIR --starts {','.join(f'{rows}:{rounds}' for rows, rounds in given.starts)}"
        intro = (
            f"{N_RULES} rules and otherwise default settings, mean over {given.seeds} seeds and splits, one thread, test "
            "RMSE in z-units over all targets. K-means uses a random sample of at most so many rows for at most so many "
            "rounds; docs/recipe.md has the defaults. The difference is that of the RMSE from the first start on the same "
            "splits and seeds, in percent of it, with its standard deviation over the seeds and the standard error of its "
            f"mean. turbidity is a sample of {TURBIDITY_ROWS:,} rows."
        )
        write_results(given.markdown, "recipe-start", "K-means of a sample", command, intro, text)
    elif given.markdown:
        intro = (
            f"{N_RULES} rules and otherwise default settings in the paper's protocol, mean over {given.seeds} seeds, in "
            "z-units, beside scikit-learn's models on the same splits. docs/recipe.md explains how the settings were "
            "chosen: most of them on these same splits."
        )
        write_results(given.markdown, "recipe", "The default settings", "recipe.py --data-dir DIR", intro, text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
