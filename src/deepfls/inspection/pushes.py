"""Pushes of the inputs, as numbers, table and plot: Shapley values of the outputs against a reference row.

Move the inputs one after another from their reference value to their actual one; the step of input m is the change of the
output when m moves. The push of m is the mean of its step over the orders in which the inputs can move. In any one order
the steps add up to y(x) - y(reference) exactly, so their means do too, for any number of orders. With few inputs all orders
are averaged, by way of all subsets; with many inputs, random orders and their reverses, whose means are estimates.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from deepfls._checks.arguments import check_count
from deepfls._checks.values import Array, evenly_spaced
from deepfls.inspection.display import GREY, Display, label, new_axes
from deepfls.inspection.plain import PlainOutput, PlainSystem
from deepfls.inspection.plain_model import AnyModel, PlainModel, index_of, input_terms, reference_row, rule_weights
from deepfls.inspection.words import output_name, read_inputs

if TYPE_CHECKING:
    import pyarrow as pa
    from matplotlib.axes import Axes
    from typing_extensions import Self

    from deepfls.data.columns import Column
    from deepfls.estimators.base import FLSEstimator

# Largest number of inputs for which all 2^inputs subsets are evaluated.
EXACT_INPUTS = 10
# Largest number of rows evaluated for the random orders of one row; at least one order and its reverse are evaluated.
_ROWS = 20_000
# Numbers of one chunk of these rows.
_CHUNK_ELEMENTS = 2**16
# Largest number of rows whose pushes are drawn, and the colour of values that are not known or have no order.
_MOST_ROWS, _NO_ORDER = 400, "#999999"
# Rows evaluated for all rows of a table together, about, and the least for one of them.
_TABLE_ROWS, _LEAST_ROWS = 2_000_000, 256


class Pushes(NamedTuple):
    """Outputs at the reference, and the push of every input on the way to x.

    ``base`` holds three arrays (outputs,) and ``pushes`` three arrays (features, outputs), each for y_left, y_right and y.
    ``exact`` is True if all orders were averaged.
    """

    base: PlainOutput
    pushes: PlainOutput
    exact: bool


def input_pushes(plain: PlainSystem, x: Array, reference: Array, random_state: int = 0, n_evaluated: int = _ROWS) -> Pushes:
    """Pushes of the inputs of a row on the outputs.

    Parameters
    ----------
    plain : PlainSystem
    x, reference : ndarray, shape (features,)
        The row, and the row from which its inputs move, in the units of the data.
    random_state : int
        Seed of the orders where not all of them are averaged.
    n_evaluated : int
        Rows that may be evaluated, about.

    Returns
    -------
    Pushes
        Named tuple (base, pushes, exact): outputs at the reference, each (outputs,), and pushes, each (features, outputs).

    Examples
    --------
    >>> import numpy as np
    >>> from deepfls import FLSRegressor
    >>> X = np.random.default_rng(0).normal(size=(50, 2))
    >>> plain = PlainSystem.of(FLSRegressor(n_rules=3, epochs=2, random_state=0).fit(X, X[:, 0]))
    >>> base, pushes, exact = input_pushes(plain, X[0], X[1])
    >>> bool(np.allclose(base.y + pushes.y.sum(axis=0), plain.output(X[:1]).y)), exact
    (True, True)
    """
    # The push of an input that is at its reference is 0 in every order.
    moved = np.flatnonzero(x != reference)
    base = plain.output(reference[np.newaxis])
    exact = len(moved) <= EXACT_INPUTS and 2 ** len(moved) <= n_evaluated
    if exact:
        found = _by_subsets(plain, x, reference, moved)
    else:
        found = _by_orders(plain, x, reference, moved, random_state, n_evaluated)
    pushes = []
    for values in found:
        column = np.zeros((plain.n_features, plain.n_outputs))
        column[moved] = values
        pushes.append(column)
    return Pushes(PlainOutput(*(end[0] for end in base)), PlainOutput(*pushes), exact)


def pushes_of_rows(model: AnyModel, x: Array, reference: Array) -> tuple[list[tuple[str, int, int, Column | None]], Array]:
    """Inputs as they are shown, and their pushes on the crisp outputs of rows x, (rows, inputs, outputs)."""
    n_evaluated = int(np.clip(_TABLE_ROWS // max(len(x), 1), _LEAST_ROWS, _ROWS))
    total = np.zeros((len(x), model.n_features, model.n_outputs))
    for share, plain in zip(model.shares, model.systems, strict=True):
        for place, row in enumerate(x):
            total[place] += share * input_pushes(plain, row, reference, n_evaluated=n_evaluated).pushes.y
    inputs = read_inputs(model.feature_names, model.columns)
    return inputs, np.stack([total[:, first:end].sum(axis=1) for _, first, end, _ in inputs], axis=1)


def _by_subsets(plain: PlainSystem, x: Array, reference: Array, moved: Array) -> list[Array]:
    count = len(moved)
    subsets = (np.arange(2**count)[:, np.newaxis] >> np.arange(count)) & 1
    rows = np.repeat(reference[np.newaxis], len(subsets), axis=0)
    rows[:, moved] = np.where(subsets, x[moved], reference[moved])
    sizes = subsets.sum(axis=1)
    # Share of the orders in which exactly a given subset of the other inputs moves before an input.
    shares = np.array([1.0 / (count * math.comb(count - 1, size)) for size in range(count)] or [0.0])
    found = []
    for values in plain.output(rows):
        pushes = []
        for m in range(count):
            before = np.flatnonzero(subsets[:, m] == 0)
            steps = values[before | (1 << m)] - values[before]
            pushes.append(shares[sizes[before]] @ steps)
        found.append(np.array(pushes).reshape(count, plain.n_outputs))
    return found


def _by_orders(
    plain: PlainSystem, x: Array, reference: Array, moved: Array, random_state: int, n_evaluated: int
) -> list[Array]:
    random = np.random.default_rng(random_state)
    n_pairs = max(1, n_evaluated // (2 * len(moved)))
    first, last = (_joined_values(plain, row) for row in (reference, x))
    steps = _joined_terms(plain, x, moved) - _joined_terms(plain, reference, moved)
    orders = np.stack([random.permutation(len(moved)) for _ in range(n_pairs)])
    totals = [np.zeros((len(moved), plain.n_outputs)) for _ in PlainOutput._fields]
    n_chunk = max(1, _CHUNK_ELEMENTS // first.size // (len(moved) + 1))
    for sequences in np.array_split(np.concatenate([orders, orders[:, ::-1]]), -(-2 * n_pairs // n_chunk)):
        # In row k the first k inputs of a sequence have moved. A cumulative sum adds one term per row, not k.
        rows = np.concatenate([np.broadcast_to(first, (len(sequences), *first.shape)), steps[sequences]], axis=1)
        rows = np.cumsum(rows, axis=1)
        rows[:, -1] = last[0]  # without the rounding of the sum
        places = np.argsort(sequences, axis=1)
        for total, values in zip(totals, _reduced(plain, rows.reshape(-1, first.size)), strict=True):
            by_step = np.diff(values.reshape(len(sequences), -1, plain.n_outputs), axis=1)
            total += np.take_along_axis(by_step, places[..., np.newaxis], axis=1).sum(axis=0)
    return [total / (2 * n_pairs) for total in totals]


def _joined_values(plain: PlainSystem, row: Array) -> Array:
    """Lower log-firing, upper log-firing and consequents of a row, side by side, (1, rules * (2 + outputs))."""
    return np.concatenate([values.reshape(1, -1) for values in plain.rule_values(row[np.newaxis])], axis=1)


def _joined_terms(plain: PlainSystem, row: Array, inputs: Array) -> Array:
    """The terms of the given inputs in :func:`_joined_values`, (inputs, rules * (2 + outputs))."""
    found = [input_terms(plain, row[m : m + 1], m) for m in inputs.tolist()]
    return np.stack([np.concatenate([values.ravel() for values in terms]) for terms in found])


def _reduced(plain: PlainSystem, rows: Array) -> PlainOutput:
    n = plain.n_rules
    lower, upper, consequents = rows[:, :n], rows[:, n : 2 * n], rows[:, 2 * n :].reshape(len(rows), n, -1)
    return plain.reduced(np.minimum(lower, upper), upper, consequents)


# Many rows as a table


def explained_rows(estimator: FLSEstimator, X: Any, *, reference: Any = None) -> dict[str, Any]:
    """The pushes of every input in every row as columns; :meth:`FLSRegressor.explain` names them."""
    s = PlainModel.of(estimator)
    x = estimator._known_x(X)
    inputs, pushes = pushes_of_rows(s, x, reference_row(estimator, s, reference))
    # The rules of several systems follow one another.
    parts = zip(s.shares, s.systems, strict=True)
    weights = np.concatenate([share * rule_weights(system, x).crisp.mean(axis=2) for share, system in parts], axis=1)
    strongest = weights.argmax(axis=1) + 1
    familiarity = estimator.familiarity(X)
    values: list[Array] = [
        x[:, first] if column is None else np.array([column.category(row[first:end]) for row in x], dtype=object)
        for _, first, end, column in inputs
    ]
    n_rows, n_inputs, n_outputs = pushes.shape
    names = np.array([name for name, *_ in inputs], dtype=object)
    columns: dict[str, Any] = {"row": np.repeat(np.arange(n_rows), n_inputs * n_outputs)}
    if n_outputs > 1:
        columns["output"] = np.tile(np.repeat(np.array(s.output_names, dtype=object), n_inputs), n_rows)
    return columns | {
        "input": np.tile(names, n_rows * n_outputs),
        "value": np.repeat(np.stack(values, axis=1)[:, np.newaxis], n_outputs, axis=1).ravel(),
        "push": pushes.transpose(0, 2, 1).ravel(),
        "strongest_rule": np.repeat(strongest, n_inputs * n_outputs),
        "familiarity": np.repeat(familiarity, n_inputs * n_outputs),
    }


def frame_of(columns: dict[str, Any]) -> Any:
    """A pandas frame of columns, or a pyarrow table where pandas is not installed."""
    try:
        import pandas as pd
    except ImportError:
        return arrow_table(columns)
    return pd.DataFrame(columns)


def arrow_table(columns: dict[str, Any]) -> pa.Table:
    """A pyarrow table of columns; those that hold texts and numbers become texts."""
    import pyarrow as pa

    return pa.table({name: list(map(str, v)) if v.dtype == object else pa.array(v) for name, v in columns.items()})


@dataclass
class PushesDisplay(Display):
    """The pushes of the inputs on the predictions of many rows: a dot for each row, the most important input at the top.

    Dots are coloured by the value of their input, from its least (blue) to its largest (red), or grey: see ``values``.

    Parameters
    ----------
    names : list of str
        The inputs.
    pushes, values : ndarray, shape (rows, features)
        Values are NaN where they are not known or have no order.
    output : str
    """

    names: Sequence[str]
    pushes: Array
    values: Array
    output: str = "y"

    @classmethod
    def from_estimator(
        cls, estimator: FLSEstimator, X: Any, *, output: int | str = 0, top: int = 10, ax: Axes | None = None
    ) -> Self:
        """Pushes for rows X, of which at most 400 are used, on one output: for a classifier on the score of a class."""
        s = PlainModel.of(estimator)
        x = estimator._known_x(X)
        x = x[evenly_spaced(len(x), _MOST_ROWS)]
        k = index_of(output, s.output_names, "output")
        inputs, pushes = pushes_of_rows(s, x, reference_row(estimator, s))
        values = [x[:, first] if column is None else np.full(len(x), np.nan) for _, first, _, column in inputs]
        return cls([one for one, *_ in inputs], pushes[:, :, k], np.stack(values, axis=1), output_name(s, k)).plot(
            ax, top=top
        )

    def plot(self, ax: Axes | None = None, *, top: int = 10) -> Self:
        """Draw the pushes of the ``top`` inputs, a point for every row."""
        order = np.argsort(-np.abs(self.pushes).mean(axis=0), kind="stable")[: check_count("top", top)]
        ax = new_axes(ax, 6.0, 1.2 + 0.35 * len(order))
        ax.axvline(0.0, color=GREY, linewidth=1, linestyle=":")
        for place, m in enumerate(order):
            pushes, values = self.pushes[:, m], self.values[:, m]
            known = np.isfinite(values)
            least, largest = (values[known].min(), values[known].max()) if known.any() else (0.0, 0.0)
            shade = (values[known] - least) / (largest - least) if largest > least else np.full(known.sum(), 0.5)
            heights = place + _spread(pushes)
            ax.scatter(pushes[~known], heights[~known], color=_NO_ORDER, s=7, linewidths=0)
            dots = ax.scatter(pushes[known], heights[known], c=shade, cmap="coolwarm", vmin=0, vmax=1, s=7, linewidths=0)
        ax.set_yticks(range(len(order)), [label(self.names[m], 24) for m in order])
        ax.invert_yaxis()
        shown = "" if len(order) == len(self.names) else f", {len(order)} of {len(self.names):,} inputs shown"
        bar = ax.figure.colorbar(dots, ax=ax, ticks=[0, 1], label="value of the input", aspect=30)
        bar.ax.set_yticklabels(["least", "largest"])
        return self._finish(ax, xlabel=f"push on {label(self.output)}", ylabel=f"input{shown}")


def _spread(values: Array) -> Array:
    """Offsets within ±0.35 that keep dots of nearly equal values apart: those of a bin in turn above and below."""
    bins = np.floor(60 * (values - values.min()) / (np.ptp(values) or 1.0))
    offsets = np.zeros(len(values))
    for number in np.unique(bins):
        chosen = np.flatnonzero(bins == number)
        steps = (np.arange(len(chosen)) + 1) // 2 * np.where(np.arange(len(chosen)) % 2, 1, -1)
        offsets[chosen] = steps
    return 0.35 * offsets / max(float(np.abs(offsets).max()), 4.0)
