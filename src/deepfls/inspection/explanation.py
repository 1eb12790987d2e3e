"""The explanation of predictions, top-down: what is predicted, the pushes of the inputs, the contributions of the rules.

Pushes (:mod:`deepfls.inspection.pushes`) and contributions are both sums that give the prediction exactly.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from deepfls._checks.values import Array, softmax
from deepfls.data.columns import Columns
from deepfls.inspection import plain_model, words
from deepfls.inspection.plain import PlainOutput
from deepfls.inspection.plain_model import PlainModel
from deepfls.inspection.pushes import input_pushes

if TYPE_CHECKING:
    from deepfls.estimators.base import FLSEstimator

# Rules of a smaller weight are shown in one line.
_LEAST_WEIGHT = 5e-4
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
    coverage : float or None
        Of the calibrated interval or set of classes; None for a model without one.
    interval : ndarray, shape (2, outputs), or None
        Ends of the calibrated interval of a regressor.
    class_set : ndarray of bool, shape (classes,), or None
        Classes in the calibrated set of a classifier.
    columns : Columns or None
        The columns of the table. In texts and tables the inputs of a category are one.
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
    coverage: float | None = None
    interval: Array | None = None
    class_set: Array | None = None
    columns: Columns | None = None

    @property
    def y(self) -> Array:
        """The crisp output, (outputs,)."""
        return self.output.y

    @property
    def probabilities(self) -> Array | None:
        """Probabilities of the classes, (classes,); None for a regressor."""
        return None if self.classes is None else softmax(self.y)

    def headline(self, digits: int = 4) -> str:
        """The prediction in one sentence: the class with its probability, or the numbers with their calibrated interval."""
        if self.probabilities is not None and self.classes is not None:
            best = int(self.probabilities.argmax())
            share = words.share_text(float(self.probabilities[best])).replace(">", "more than ")
            text = f"{words.shortened(self.output_names[best])}, with a probability of {share}"
            if self.class_set is not None and self.coverage is not None:
                names = words.listed([words.shortened(self.output_names[k]) for k in np.flatnonzero(self.class_set)])
                count, share = int(self.class_set.sum()), words.coverage_text(self.coverage)
                text += f"; the {share} set holds {names}" if count > 1 else ""
                text += f"; the {share} set holds this class alone" if count == 1 else ""
                text += f"; the {share} set is empty: no class fits well" if count == 0 else ""
            return f"{text}."
        parts = [
            f"{words.shortened(name)} is predicted to be {words.number_text(self.y[k], digits)}"
            for k, name in enumerate(self.output_names)
        ]
        if self.interval is not None and self.coverage is not None:
            lower, upper = ([words.number_text(value, digits) for value in ends] for ends in self.interval)
            share = words.coverage_text(self.coverage)
            parts = [f"{part} ({share} interval: {a} to {b})" for part, a, b in zip(parts, lower, upper, strict=True)]
            return "; ".join(parts) + "."
        return "; ".join(parts) + ". The model has no calibrated interval: coverage=0.9 in the fit gives one."

    def to_text(self, *, digits: int = 4, top: int = 10) -> str:
        """Headline, pushes and rules as text: the ``top`` inputs and rules, the others together."""
        tables = (f"{heading}\n{table.text()}" for heading, table in self._tables(digits, top))
        return "\n\n".join([self.headline(digits), *tables, *_notes(self, digits)]) + "\n"

    def _tables(self, digits: int, top: int) -> list[tuple[str, words.TextTable]]:
        """Pushes and rules with headings: of all targets, or of the classes in descending order of their probability."""
        shown = np.arange(len(self.output_names))
        if self.probabilities is not None:
            shown = np.argsort(-self.probabilities, kind="stable")
        found = []
        for k in shown.tolist():
            label = _output_label(self, k)
            found.append((f"What pushes {label} away from its value at the reference", _inputs_table(self, k, digits, top)))
            found.append((f"The rules whose average is {label}", _rules_table(self, k, digits, top)))
        return found

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON: one entry per output, with its rules and inputs."""
        return {
            "x": _named_values(self.feature_names, self.x),
            "reference": _named_values(self.feature_names, self.reference),
            "exact_pushes": self.exact_pushes,
            "headline": self.headline(),
            "coverage": self.coverage,
            "outputs": [
                {
                    "name": name,
                    **_ends_at(self.output, k),
                    "probability": None if self.probabilities is None else float(self.probabilities[k]),
                    "interval": None if self.interval is None else self.interval[:, k].tolist(),
                    "in_set": None if self.class_set is None else bool(self.class_set[k]),
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
        parts = [(self.headline(), []), *((heading, [table]) for heading, table in self._tables(4, _SHOWN))]
        return words.rendered("tables.html", parts=parts, note=" ".join(_notes(self, 4)))


def explain(estimator: FLSEstimator, x: Any, *, reference: Any = None) -> Explanation:
    """The explanation of one row; :meth:`FLSRegressor.explain` has the parameters."""
    model = PlainModel.of(estimator)
    row = plain_model.one_row(estimator, "x", x)
    start = plain_model.reference_row(estimator, model, reference)
    values = [s.rule_values(row[np.newaxis]) for s in model.systems]
    weights = [s.weights(*own) for s, own in zip(model.systems, values, strict=True)]
    pushes = [input_pushes(s, row, start) for s in model.systems]
    consequents = [own.consequents[0] for own in values]

    def by_share(parts: Iterable[Sequence[Array]]) -> Iterator[list[Array]]:
        """What the systems have for each of y_left, y_right and y, times their shares."""
        for ends in zip(*parts, strict=True):
            yield [share * end for share, end in zip(model.shares, ends, strict=True)]

    contributions = ([end[0] * own for end in w[:3]] for w, own in zip(weights, consequents, strict=True))
    calibration = plain_model.calibration_of(estimator)
    calibrated = None if calibration is None else plain_model.calibrated_rows(estimator, row[np.newaxis])[0]
    return Explanation(
        feature_names=model.feature_names,
        output_names=model.output_names,
        classes=model.classes,
        x=row,
        reference=start,
        lower=np.concatenate([np.exp(own.log_lower[0]) for own in values]),
        upper=np.concatenate([np.exp(own.log_upper[0]) for own in values]),
        consequents=np.concatenate(consequents),
        output=PlainOutput(*(end[0] for end in model.output(row[np.newaxis]))),
        weights=PlainOutput(*map(np.concatenate, by_share([end[0] for end in w[:3]] for w in weights))),
        contributions=PlainOutput(*map(np.concatenate, by_share(contributions))),
        left_upper=np.concatenate([w.left_upper[0] for w in weights]),
        right_upper=np.concatenate([w.right_upper[0] for w in weights]),
        base=plain_model.weighted_mean(model.shares, [own.base for own in pushes]),
        pushes=plain_model.weighted_mean(model.shares, [own.pushes for own in pushes]),
        exact_pushes=pushes[0].exact,
        coverage=None if calibration is None else calibration.coverage,
        interval=None if model.classes is not None else calibrated,
        class_set=None if model.classes is None else calibrated,
        columns=model.columns,
    )


def _output_label(e: Explanation, k: int) -> str:
    return f"{'' if e.classes is None else 'the score of '}{words.shortened(e.output_names[k])}"


def _rules_table(e: Explanation, k: int, digits: int, top: int) -> words.TextTable:
    """Firing, consequents and contributions of the rules of largest weight in output k."""
    interval = bool((e.lower != e.upper).any()) or bool((e.weights.y_left != e.weights.y_right).any())
    order = np.argsort(-e.weights.y[:, k], kind="stable")
    top = int(np.clip((e.weights.y[:, k] >= _LEAST_WEIGHT).sum(), 1, top))
    firing = [e.lower, e.upper] if interval else [e.upper]
    ends = ("y", "y_left", "y_right") if interval else ("y",)
    contributions, sums = ([getattr(group, end) for end in ends] for group in (e.contributions, e.output))
    head = ["rule", *(["lower", "upper"] if interval else ["firing"]), "says", "weight"]
    head += ["weight times it", "at y_left", "at y_right"] if interval else ["weight times it"]
    # The same decimals in all rows, so that a reader can add up a column.
    decimals = words.decimals_of([end[k] for end in sums], digits)
    said = words.decimals_of(e.consequents[order[:top], k], digits)

    def row(name: str, chosen: Array, consequent: str) -> list[str]:
        strengths = [_strength_text(f[chosen].max()) for f in firing]
        weight = words.share_text(float(e.weights.y[chosen, k].sum()))
        return [name, *strengths, consequent, weight, *(_fixed_text(c[chosen, k].sum(), decimals) for c in contributions)]

    rows = [row(str(p + 1), np.array([p]), _fixed_text(e.consequents[p, k], said)) for p in order[:top].tolist()]
    rest = order[top:]
    if len(rest):
        rows.append(row(f"{len(rest)} other{'s' * (len(rest) > 1)}", rest, ""))
    blank = [""] * (len(head) - 1 - len(sums))
    return words.TextTable(head, [*rows, ["sum", *blank, *(_fixed_text(end[k], decimals) for end in sums)]])


def _fixed_text(value: float, decimals: int, sign: str = "") -> str:
    """A number with fixed decimals; a number that rounds to 0 has no sign of its own."""
    return f"{round(float(value), decimals) + 0.0:{sign}.{decimals}f}"


def _strength_text(firing: float) -> str:
    return "<0.001" if 0.0 < firing < 0.0005 else f"{firing:.3f}"


def _inputs_table(e: Explanation, k: int, digits: int, top: int) -> words.TextTable:
    """Values of the inputs, and their pushes on output k."""
    inputs = words.read_inputs(e.feature_names, e.columns)
    pushes = np.array([e.pushes.y[first:end, k].sum() for _, first, end, _ in inputs])
    order = np.argsort(-np.abs(pushes), kind="stable")
    # The same decimals in all rows, one digit fewer than a number alone would have.
    decimals = words.decimals_of(pushes if pushes.any() else e.output.y[k], max(digits - 1, 1))
    rows = [["reference", "", "", _fixed_text(e.base.y[k], decimals)]]
    for place in order[:top].tolist():
        name, first, end, column = inputs[place]
        if column is None:
            known = (row[first] for row in (e.x, e.reference))
            values = ["unknown" if np.isnan(value) else words.number_text(value, digits) for value in known]
        else:
            values = [words.shortened(column.category(e.x[first:end])), "mean of all"]
        rows.append([words.shortened(name), *values, _fixed_text(pushes[place], decimals, "+")])
    rest = order[top:]
    if len(rest):
        rows.append([f"{len(rest)} other{'s' * (len(rest) > 1)}", "", "", _fixed_text(pushes[rest].sum(), decimals, "+")])
    rows.append(["sum", "", "", _fixed_text(e.output.y[k], decimals)])
    return words.TextTable(["input", "value", "reference", "pushes by"], rows)


def _notes(e: Explanation, digits: int) -> list[str]:
    """How the pushes were computed and, for an interval system, what its type-reduced set is."""
    orders = "all orders of the inputs" if e.exact_pushes else "random orders of the inputs and their reverses"
    notes = [f"Pushes: steps from the reference to the row, averaged over {orders}."]
    if bool((e.output.y_left < e.output.y_right).any()):
        ends = ([words.number_text(value, digits) for value in end] for end in (e.output.y_left, e.output.y_right))
        sets = "; ".join(f"{_output_label(e, k)} {a} to {b}" for k, (a, b) in enumerate(zip(*ends, strict=True)))
        notes.append(
            f"Type-reduced set: {sets}. It is what the uncertainty of the sets allows the output to be, not an interval "
            "for the true value."
        )
    return notes


def _ends_at(group: PlainOutput, *index: int) -> dict[str, float]:
    return {name: float(values[index]) for name, values in group._asdict().items()}


def _named_values(names: Sequence[str], values: Array) -> list[dict[str, Any]]:
    """Names and values for JSON, as a list because names may be equal."""
    return [{"name": name, "value": float(value)} for name, value in zip(names, values, strict=True)]
