"""Measures of predictions from chunks of rows, in any order, whose parts from several processes merge."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from deepfls._checks.samples import Array
from deepfls.data.scaling import Standardizer
from deepfls.training.distributed import Group


class NumberScores:
    """RMSE, MAE and R² of one target, from chunks of rows in any order; scores of several processes merge.

    Examples
    --------
    >>> import numpy as np
    >>> scores = NumberScores()
    >>> scores.update(np.array([1.0, 2.0]), np.array([1.0, 4.0]))
    >>> scores.update(np.array([3.0]), np.array([3.0]))
    >>> {name: round(value, 3) for name, value in scores.values().items()}
    {'rmse': 1.155, 'mae': 0.667, 'r2': -1.0}
    """

    def __init__(self) -> None:
        self._sums = np.zeros(3)  # rows, squared errors, absolute errors
        self._truth = Standardizer(1)

    def update(self, truth: Array, predicted: Array) -> None:
        error = truth - predicted
        self._sums += [len(error), float(error @ error), float(np.abs(error).sum())]
        self._truth.update(truth[:, None])

    def state(self) -> list[float]:
        return [*self._sums.tolist(), float(self._truth.mean[0]), float(self._truth.squares[0])]

    def merge_state(self, state: Sequence[float]) -> None:
        self._sums += state[:3]
        other = Standardizer(1)
        other.count, other.mean, other.squares = (np.array(state[place : place + 1]) for place in (0, 3, 4))
        self._truth.merge(other)

    def values(self) -> dict[str, float]:
        n_rows, squares, sizes = self._sums.tolist()
        spread = float(self._truth.squares[0])
        r2 = 1.0 - squares / spread if spread > 0 else (1.0 if squares == 0 else 0.0)
        return {"rmse": float(np.sqrt(squares / n_rows)), "mae": sizes / n_rows, "r2": r2}


class ClassScores:
    """Accuracy and log loss, from chunks of rows in any order; scores of several processes merge."""

    def __init__(self, classes: Array) -> None:
        self._classes = classes
        self._sums = np.zeros(3)  # rows, right ones, losses
        self.unknown: list[Any] = []

    def update(self, truth: Array, probabilities: Array) -> None:
        right = self._classes[probabilities.argmax(axis=1)] == truth
        # A class the model has never seen has probability 0, held at the smallest number whose logarithm is finite.
        of_truth = np.where(truth[:, None] == self._classes, probabilities, 0.0).sum(axis=1)
        losses = -np.log(np.maximum(of_truth, np.finfo(np.float64).tiny))
        self._sums += [len(truth), int(right.sum()), float(losses.sum())]
        for value in np.setdiff1d(truth, self._classes).tolist()[:5]:
            if value not in self.unknown and len(self.unknown) < 5:
                self.unknown.append(value)

    def state(self) -> list[Any]:
        return [*self._sums.tolist(), self.unknown]

    def merge_state(self, state: Sequence[Any]) -> None:
        self._sums += state[:3]
        self.unknown += [value for value in state[3] if value not in self.unknown]

    def values(self) -> dict[str, float]:
        n_rows, right, losses = self._sums.tolist()
        return {"accuracy": right / n_rows, "log_loss": losses / n_rows}


def merged_scores(scores: Mapping[str, Any], group: Group) -> None:
    """Add the scores of all other processes to those of this one."""
    if group.size == 1:
        return
    states = group.gathered_bytes(json.dumps({name: score.state() for name, score in scores.items()}).encode())
    for rank, content in enumerate(states):
        if rank != group.rank:
            for name, state in json.loads(content).items():
                scores[name].merge_state(state)
