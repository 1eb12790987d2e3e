"""Importance of the inputs: how far each pushes the outputs, on average over training rows.

The inputs of a row move one after another from a reference, the mean of the rows, to their values. The push of an input is
the change of the output at its step, averaged over a few random orders and their reverses, as in an explanation of one row.
"""

from __future__ import annotations

import numpy as np

from deepfls._checks.samples import Array, known_mean
from deepfls.estimators.prediction import ScaledSystem

# Rows, evenly spaced, and orders of each, every one with its reverse. Where inputs are many there are fewer rows, but not
# fewer than the last, so that about this many numbers are evaluated.
_ROWS, _ORDERS, _NUMBERS, _FEWEST = 128, 2, 1_000_000, 8


def feature_importances(model: ScaledSystem, x: Array, *, classifies: bool, random_state: int = 0) -> Array:
    """Mean absolute push of every input on the outputs, as shares that add up to 1, (features,).

    Outputs are in scaled units, so that several targets count alike; those of a classifier are probabilities.

    Parameters
    ----------
    model : ScaledSystem
    x : ndarray, shape (rows, features)
        Training rows in the units of the data.
    classifies : bool
    random_state : int
        Of the orders.
    """
    random = np.random.default_rng(random_state)
    n_features = x.shape[1]
    numbers = 2 * _ORDERS * n_features * (n_features + 1)  # of one row
    rows = x[:: -(-len(x) // int(np.clip(_NUMBERS // numbers, _FEWEST, _ROWS)))]
    reference = known_mean(rows)
    totals = np.zeros(n_features)
    n_chunk = max(1, _NUMBERS // numbers)
    for first in range(0, len(rows), n_chunk):
        chunk = rows[first : first + n_chunk]
        pushes = np.zeros((len(chunk), n_features, model.system.n_outputs))
        for _ in range(_ORDERS):
            orders = random.permuted(np.tile(np.arange(n_features), (len(chunk), 1)), axis=1)
            for sequences in (orders, orders[:, ::-1]):
                pushes += _steps(model, chunk, reference, sequences, classifies)
        totals += np.abs(pushes).sum(axis=(0, 2))
    total = totals.sum()
    # Where the output changes by rounding alone, no input is more important than another.
    return totals / total if total > 1e-12 * len(rows) else np.full(n_features, 1.0 / n_features)


def _steps(model: ScaledSystem, rows: Array, reference: Array, sequences: Array, classifies: bool) -> Array:
    """Changes of the outputs as the inputs of rows move in the order of their sequence, (rows, features, outputs)."""
    n_rows, n_features = rows.shape
    turns = np.argsort(sequences, axis=1)  # when each input moves
    moved = turns[:, np.newaxis, :] < np.arange(n_features + 1)[:, np.newaxis]
    path = np.where(moved, rows[:, np.newaxis, :], reference)
    outputs = model.outputs(path.reshape(-1, n_features))
    if classifies:
        odds = np.exp(outputs - outputs.max(axis=1, keepdims=True))
        outputs = odds / odds.sum(axis=1, keepdims=True)
    steps = np.diff(outputs.reshape(n_rows, n_features + 1, -1), axis=1)
    return np.take_along_axis(steps, turns[:, :, np.newaxis], axis=1)
