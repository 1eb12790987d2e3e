"""How good are the default settings? Test errors in the paper's protocol, beside a linear model, an MLP and boosted trees.

``python benchmarks/recipe.py --data-dir DIR --seeds 10 --markdown RESULTS.md``

The fuzzy systems have 30 rules and otherwise default settings; the others are scikit-learn's with theirs (the MLP with two
hidden layers of 64). Same splits for all, z-units, one thread.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.progress import track
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LinearRegression
from sklearn.multioutput import MultiOutputRegressor
from sklearn.neural_network import MLPRegressor
from threadpoolctl import threadpool_limits

from deepfls import FLSRegressor
from deepfls.cli.sections import hardware, markdown_table, write_section
from deepfls.data.datasets import load_dataset
from deepfls.experiment import SETS, protocol_split

N_RULES = 30
# Settings given by --setting, to try others than the defaults.
SETTINGS: dict[str, Any] = {}

MODELS: dict[str, Callable[[int], Any]] = {
    "linear": lambda seed: LinearRegression(),
    "MLP 64-64": lambda seed: MLPRegressor(hidden_layer_sizes=(64, 64), max_iter=500, random_state=seed),
    "boosted trees": lambda seed: MultiOutputRegressor(HistGradientBoostingRegressor(random_state=seed)),
    "T1": lambda seed: FLSRegressor(kind="t1", n_rules=N_RULES, random_state=seed, **SETTINGS),
    "IT2": lambda seed: FLSRegressor(kind="it2", n_rules=N_RULES, random_state=seed, **SETTINGS),
}


def measure(dataset: str, model: str, seeds: int, data_dir: str | None) -> dict[str, Any]:
    """Mean and spread of the test errors per output, and mean training seconds."""
    data = load_dataset(dataset, data_dir=data_dir)
    errors, seconds = [], []
    for seed in range(seeds):
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
        "rmse_std": np.std(errors, axis=0, ddof=1 if seeds > 1 else 0).tolist(),
        "seconds": float(np.mean(seconds)),
        "seeds": seeds,
    }


def table(rows: list[dict[str, Any]]) -> tuple[list[str], list[list[str]]]:
    head = ["set", "output", "model", "RMSE", "± seeds", "seconds"]
    lines = []
    for row in rows:
        for place, output in enumerate(row["outputs"]):
            mean, spread = f"{row['rmse_mean'][place]:.4f}", f"{row['rmse_std'][place]:.3f}"
            lines.append([row["dataset"], output, row["model"], mean, spread, f"{row['seconds']:.1f}"])
    return head, lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--setting", action="append", default=[], metavar="NAME=TEXT", help="of T1 and IT2, to try another")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--markdown", type=Path)
    arguments = parser.parse_args()
    SETTINGS.update(setting.split("=", 1) for setting in arguments.setting)
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    cells = [(name, model) for name in arguments.sets.split(",") for model in arguments.models.split(",")]
    rows = [measure(*cell, arguments.seeds, arguments.data_dir) for cell in track(cells, console=Console(stderr=True))]
    torch.set_num_threads(before)
    head, lines = table(rows)
    text = markdown_table(head, lines)
    print(text)
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    if arguments.markdown:
        intro = (
            "## The default settings\n\nWritten by `python benchmarks/recipe.py --data-dir DIR --markdown RESULTS.md`: "
            f"{N_RULES} rules and otherwise default settings in the paper's protocol, mean over {arguments.seeds} seeds, "
            "in z-units, beside scikit-learn's models on the same splits. docs/recipe.md tells how they "
            "were chosen: on these same splits."
        )
        write_section(arguments.markdown, "recipe", f"{intro}\n\n{text}\n\n{hardware()}")


if __name__ == "__main__":
    main()
