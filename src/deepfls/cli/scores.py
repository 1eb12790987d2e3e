"""Measures of a model on rows, for tables and for JSON."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from deepfls.cli.models import Model
from deepfls.cli.output import Output, finite, name_cell
from deepfls.data.layout import Array
from deepfls.data.tables import listed

Scores = dict[str, dict[str, float]]
# Shares, whose unit is known: no digits to be chosen by their size.
_SHARES = {"R²": 4, "accuracy": 4}
HEADINGS = {"rmse": "RMSE", "mae": "MAE", "r2": "R²", "accuracy": "accuracy", "log_loss": "log loss"}


def scores_of(model: Model, x: Any, y: Array) -> Scores:
    """Measures by target: RMSE, MAE and R² of numbers, accuracy and log loss of classes."""
    import numpy as np
    from sklearn.metrics import accuracy_score, mean_absolute_error, r2_score, root_mean_squared_error

    from deepfls.metrics import log_loss

    estimator, classes = model.estimator, model.classes
    if classes is not None:
        unknown = np.setdiff1d(y, classes)
        if unknown.size:
            warnings.warn(
                f"The model does not know the class {listed(unknown.tolist())}: rows of it count as wrong.", stacklevel=2
            )
        probabilities = estimator.predict_proba(x)
        measured = {
            "accuracy": accuracy_score(y, classes[probabilities.argmax(axis=1)]),
            "log_loss": log_loss(y, probabilities, classes),
        }
        return {model.target_names[0]: measured}
    truth = y.reshape(len(y), -1)
    predicted = estimator.predict(x).reshape(len(y), -1)
    return {
        name: {
            "rmse": root_mean_squared_error(truth[:, place], predicted[:, place]),
            "mae": mean_absolute_error(truth[:, place], predicted[:, place]),
            "r2": r2_score(truth[:, place], predicted[:, place]),
        }
        for place, name in enumerate(model.target_names)
    }


def print_scores(output: Output, groups: Sequence[tuple[str, Scores]]) -> None:
    """A table of measures: one row per target and group of rows, such as train and test."""
    measures = list(next(iter(groups[0][1].values())))
    rows: list[list[Any]] = []
    for target in groups[0][1]:
        for place, (group, scores) in enumerate(groups):
            name = name_cell(target) if place == 0 else ""
            rows.append([name, *([group] if group else []), *(scores[target][measure] for measure in measures)])
    grouped = bool(groups[0][0])
    output.table(["target", *(["rows"] if grouped else []), *(HEADINGS[measure] for measure in measures)], rows, _SHARES)


def json_scores(scores: Scores) -> Mapping[str, Mapping[str, float | None]]:
    """The measures as JSON takes them."""
    return {target: {name: finite(value) for name, value in measured.items()} for target, measured in scores.items()}
