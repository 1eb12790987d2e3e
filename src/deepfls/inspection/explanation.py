"""The explanation of one prediction: the contributions of all rules and the pushes of all inputs, with exact sums.

The push of an input is its Shapley value against a reference row. Move the inputs one after another from their reference
value to their actual one; the step of input m is the change of the output when m moves. The push of m is the mean of its
step over the orders in which the inputs can move. In any one order the steps add up to y(x) - y(reference) exactly, so
their means do too, for any number of orders. With few inputs all orders are averaged, by way of all subsets; with many
inputs, random orders and their reverses, whose means are estimates.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from deepfls.estimators.base import FLSEstimator
from deepfls.inspection.arguments import one_row
from deepfls.inspection.plain import Array, PlainOutput, PlainSystem, softmax
from deepfls.inspection.words import TextTable, number_text, rendered, share_text, shortened, signed_text

# Up to so many inputs all 2^inputs subsets are evaluated.
EXACT_INPUTS = 10
# Largest number of rows evaluated for random orders; at least one order and its reverse are evaluated.
_ROWS = 20_000
# Rules and inputs that a notebook shows.
_SHOWN = 10


@dataclass(frozen=True)
class Explanation:
    """The prediction of one row in two sums over its parts, in the units of the data; logits for a classifier.

    With several systems their rules stand one after another, each with its share of the mean.
    For each of ``y_left``, ``y_right`` and ``y``, the contributions of the rules add up to it, and so do its ``base`` and
    the pushes of the inputs. For a Type-1 system the three are equal.

    Attributes
    ----------
    feature_names, output_names : tuple of str
    classes : ndarray or None
    x, reference : ndarray, shape (features,)
        The row, and the row that the inputs move from.
    lower, upper : ndarray, shape (rules,)
        Firing strengths, in [0, 1].
    consequents : ndarray, shape (rules, outputs)
    output : PlainOutput
        (y_left, y_right, y), each (outputs,).
    weights : PlainOutput
        Weights of the rules in the three, each (rules, outputs); they add up to 1.
    contributions : PlainOutput
        Weights times consequents, each (rules, outputs); they add up to ``output``.
    left_upper, right_upper : ndarray of bool, shape (rules, outputs)
        Rules whose weight at an end is their upper firing: those beyond the Karnik-Mendel switch point.
    base : PlainOutput
        The three at the reference, each (outputs,).
    pushes : PlainOutput
        The push of every input, each (features, outputs); with ``base`` they add up to ``output``.
    exact_pushes : bool
        True if all orders of the inputs were averaged, False if random ones were; the sums are exact in both cases.
    """

    feature_names: tuple[str, ...]
    output_names: tuple[str, ...]
    classes: Array | None
    x: Array
    reference: Array
    lower: Array
    upper: Array
    consequents: Array
    output: PlainOutput
    weights: PlainOutput
    contributions: PlainOutput
    left_upper: Array
    right_upper: Array
    base: PlainOutput
    pushes: PlainOutput
    exact_pushes: bool

    @property
    def y(self) -> Array:
        """The crisp output, (outputs,)."""
        return self.output.y

    @property
    def probabilities(self) -> Array | None:
        """Probabilities of the classes, (classes,); None for a regressor."""
        return None if self.classes is None else softmax(self.y)

    def to_text(self, *, digits: int = 4, top: int = 10) -> str:
        """The sums as text: the ``top`` rules by weight and inputs by the size of their push, the others together."""
        parts = []
        for k in range(len(self.output_names)):
            parts.append(_output_line(self, k, digits))
            parts.append(_rules_table(self, k, digits, top).text())
            parts.append(_inputs_table(self, k, digits, top).text())
        return "\n\n".join([*parts, _orders_note(self)]) + "\n"

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON: one entry per output, with its rules and inputs."""
        return {
            "x": _named_values(self.feature_names, self.x),
            "reference": _named_values(self.feature_names, self.reference),
            "exact_pushes": self.exact_pushes,
            "outputs": [
                {
                    "name": name,
                    **_ends_at(self.output, k),
                    "probability": None if self.probabilities is None else float(self.probabilities[k]),
                    "rules": [
                        {
                            "rule": p + 1,
                            "lower": float(self.lower[p]),
                            "upper": float(self.upper[p]),
                            "consequent": float(self.consequents[p, k]),
                            "weights": _ends_at(self.weights, p, k),
                            "contributions": _ends_at(self.contributions, p, k),
                            "upper_at_left": bool(self.left_upper[p, k]),
                            "upper_at_right": bool(self.right_upper[p, k]),
                        }
                        for p in range(len(self.upper))
                    ],
                    "base": _ends_at(self.base, k),
                    "inputs": [
                        {"name": feature, "pushes": _ends_at(self.pushes, m, k)}
                        for m, feature in enumerate(self.feature_names)
                    ],
                }
                for k, name in enumerate(self.output_names)
            ],
        }

    def __str__(self) -> str:
        return self.to_text()

    def _repr_html_(self) -> str:
        parts = [
            (_output_line(self, k, 4), [_rules_table(self, k, 4, _SHOWN), _inputs_table(self, k, 4, _SHOWN)])
            for k in range(len(self.output_names))
        ]
        return rendered("tables.html", parts=parts, note=_orders_note(self))


def explain(estimator: FLSEstimator, x: Any, *, reference: Any = None) -> Explanation:
    """The explanation of one row; :meth:`FLSEstimator.explain` has the parameters."""
    systems = PlainSystem.all_of(estimator)
    row = one_row(estimator, "x", x)
    start = reference_row(estimator, systems[0]) if reference is None else one_row(estimator, "reference", reference)
    parts = [_system_explanation(s, row, start) for s in systems]
    return parts[0] if len(parts) == 1 else _mean_explanation(parts)


def _mean_explanation(parts: Sequence[Explanation]) -> Explanation:
    """The explanation of the mean of several systems; their rules stand one after another."""

    def joined(name: str) -> Array:
        return np.concatenate([getattr(part, name) for part in parts])

    def shares(name: str) -> PlainOutput:
        ends = zip(*(getattr(part, name) for part in parts), strict=True)
        return PlainOutput(*(np.concatenate(end) / len(parts) for end in ends))

    def means(name: str) -> PlainOutput:
        ends = zip(*(getattr(part, name) for part in parts), strict=True)
        return PlainOutput(*(np.mean(end, axis=0) for end in ends))

    return replace(
        parts[0],
        lower=joined("lower"),
        upper=joined("upper"),
        consequents=joined("consequents"),
        left_upper=joined("left_upper"),
        right_upper=joined("right_upper"),
        weights=shares("weights"),
        contributions=shares("contributions"),
        output=means("output"),
        base=means("base"),
        pushes=means("pushes"),
    )


def _system_explanation(s: PlainSystem, row: Array, start: Array) -> Explanation:
    """The explanation of one system."""
    values = s.rule_values(row[np.newaxis])
    weights = s.weights(*values)
    consequents = values.consequents[0]
    base, pushes, exact = input_pushes(s, row, start)
    return Explanation(
        feature_names=s.feature_names,
        output_names=s.output_names,
        classes=s.classes,
        x=row,
        reference=start,
        lower=np.exp(values.log_lower[0]),
        upper=np.exp(values.log_upper[0]),
        consequents=consequents,
        output=PlainOutput(*(end[0] for end in s.reduced(*values))),
        weights=PlainOutput(*(w[0] for w in weights[:3])),
        contributions=PlainOutput(*(w[0] * consequents for w in weights[:3])),
        left_upper=weights.left_upper[0],
        right_upper=weights.right_upper[0],
        base=base,
        pushes=pushes,
        exact_pushes=exact,
    )


def reference_row(estimator: FLSEstimator, plain: PlainSystem) -> Array:
    """The mean of the training data if the scaling has it, else the middle of its range, else the mean of the centers."""
    if estimator.scaling == "standard":
        return estimator.x_scaling_.shift
    if plain.input_range is not None:
        return np.asarray(plain.input_range.mean(axis=0))
    return np.asarray(plain.centers.mean(axis=0))


def _output_line(e: Explanation, k: int, digits: int) -> str:
    """The prediction of output k in a line."""
    left, right, y = (number_text(end[k], digits) for end in e.output)
    text = f"{'' if e.classes is None else 'score of '}{shortened(e.output_names[k])} = {y}"
    if e.output.y_left[k] < e.output.y_right[k]:
        text += f", type-reduced set {left} to {right}"
    if e.probabilities is not None:
        text += f", probability {e.probabilities[k]:.4f}"
    return text


def _rules_table(e: Explanation, k: int, digits: int, top: int) -> TextTable:
    """Firing, consequents and contributions of the rules of largest weight in output k."""
    interval = bool((e.lower != e.upper).any()) or bool((e.weights.y_left != e.weights.y_right).any())
    order = np.argsort(-e.weights.y[:, k], kind="stable")
    firing = [e.lower, e.upper] if interval else [e.upper]
    contributions, sums = ([*e.contributions], [*e.output]) if interval else ([e.contributions.y], [e.output.y])
    head = ["rule", *(["lower", "upper"] if interval else ["firing"]), "says", "weight"]
    head += ["adds to y_left", "to y_right", "to y"] if interval else ["adds"]

    def row(name: str, chosen: Array, consequent: str) -> list[str]:
        strengths = [f"{f[chosen].max():.3g}" for f in firing]
        weight = share_text(float(e.weights.y[chosen, k].sum()))
        return [name, *strengths, consequent, weight, *(number_text(c[chosen, k].sum(), digits) for c in contributions)]

    rows = [row(str(p + 1), np.array([p]), number_text(e.consequents[p, k], digits)) for p in order[:top].tolist()]
    rest = order[top:]
    if len(rest):
        rows.append(row(f"{len(rest)} others", rest, ""))
    blank = [""] * (len(head) - 1 - len(sums))
    return TextTable(head, [*rows, ["sum", *blank, *(number_text(end[k], digits) for end in sums)]])


def _inputs_table(e: Explanation, k: int, digits: int, top: int) -> TextTable:
    """Values of the inputs, and their pushes on output k."""
    pushes = e.pushes.y[:, k]
    order = np.argsort(-np.abs(pushes), kind="stable")
    rows = [["reference", "", "", number_text(e.base.y[k], digits)]]
    for m in order[:top].tolist():
        numbers = (number_text(value, digits) for value in (e.x[m], e.reference[m]))
        rows.append([shortened(e.feature_names[m]), *numbers, signed_text(pushes[m], digits)])
    rest = order[top:]
    if len(rest):
        rows.append([f"{len(rest)} others", "", "", signed_text(pushes[rest].sum(), digits)])
    rows.append(["sum", "", "", number_text(e.output.y[k], digits)])
    return TextTable(["input", "value", "reference", "pushes y by"], rows)


def _orders_note(e: Explanation) -> str:
    orders = "all orders of the inputs" if e.exact_pushes else "random orders of the inputs and their reverses"
    return f"Pushes: steps from the reference to the row, averaged over {orders}."


def _ends_at(group: PlainOutput, *index: int) -> dict[str, float]:
    return {name: float(values[index]) for name, values in group._asdict().items()}


def _named_values(names: Sequence[str], values: Array) -> list[dict[str, Any]]:
    """A list rather than an object, because names may be equal."""
    return [{"name": name, "value": float(value)} for name, value in zip(names, values, strict=True)]


class Pushes(NamedTuple):
    """Outputs at the reference, and the push of every input on the way to x.

    ``base`` holds three arrays (outputs,) and ``pushes`` three arrays (features, outputs), each for y_left, y_right and y.
    ``exact`` is True if all orders were averaged.
    """

    base: PlainOutput
    pushes: PlainOutput
    exact: bool


def input_pushes(plain: PlainSystem, x: Array, reference: Array, random_state: int = 0) -> Pushes:
    """Pushes for a row x (features,) from a reference row (features,), both in the units of the data."""
    # The push of an input that is at its reference is 0 in every order.
    moved = np.flatnonzero(x != reference)
    base = plain.output(reference[np.newaxis])
    exact = len(moved) <= EXACT_INPUTS
    found = _by_subsets(plain, x, reference, moved) if exact else _by_orders(plain, x, reference, moved, random_state)
    pushes = []
    for values in found:
        column = np.zeros((plain.n_features, plain.n_outputs))
        column[moved] = values
        pushes.append(column)
    return Pushes(PlainOutput(*(end[0] for end in base)), PlainOutput(*pushes), exact)


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


def _by_orders(plain: PlainSystem, x: Array, reference: Array, moved: Array, random_state: int) -> list[Array]:
    random = np.random.default_rng(random_state)
    n_pairs = max(1, _ROWS // (2 * len(moved)))
    first, last = (_joined_values(plain, row) for row in (reference, x))
    steps = _input_terms(plain, x, moved) - _input_terms(plain, reference, moved)
    totals = [np.zeros((len(moved), plain.n_outputs)) for _ in PlainOutput._fields]
    for _ in range(n_pairs):
        order = random.permutation(len(moved))
        for sequence in (order, order[::-1]):
            # In row k the first k inputs of the sequence have moved. A cumulative sum adds one term per row, not k.
            rows = np.concatenate([first, first + np.cumsum(steps[sequence], axis=0)])
            rows[-1] = last[0]  # without the rounding of the sum
            for total, values in zip(totals, _reduced(plain, rows), strict=True):
                total[sequence] += np.diff(values, axis=0)
    return [total / (2 * n_pairs) for total in totals]


def _joined_values(plain: PlainSystem, row: Array) -> Array:
    """Lower log-firing, upper log-firing and consequents of a row, side by side, (1, rules * (2 + outputs))."""
    return np.concatenate([values.reshape(1, -1) for values in plain.rule_values(row[np.newaxis])], axis=1)


def _input_terms(plain: PlainSystem, row: Array, inputs: Array) -> Array:
    """The terms of the given inputs in :func:`_joined_values`, (inputs, rules * (2 + outputs))."""
    s, values = plain, row[inputs]
    lower, upper = (
        -0.5 * s.grade_power * np.square((values - s.centers[:, inputs]) / sigmas[:, inputs]).T
        for sigmas in (s.lower_sigmas, s.upper_sigmas)
    )
    consequents = (s.slopes[:, :, inputs] * values).transpose(2, 0, 1).reshape(len(inputs), -1)
    return np.concatenate([lower, upper, consequents], axis=1)


def _reduced(plain: PlainSystem, rows: Array) -> PlainOutput:
    n = plain.n_rules
    lower, upper, consequents = rows[:, :n], rows[:, n : 2 * n], rows[:, 2 * n :].reshape(len(rows), n, -1)
    return plain.reduced(np.minimum(lower, upper), upper, consequents)
