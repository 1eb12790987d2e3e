"""Why one row gets its prediction: what every rule and every input added to it, adding up exactly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from deepfls.estimators.base import FLSEstimator
from deepfls.inspection import explanation_text as show
from deepfls.inspection.plain import Array, Output, PlainSystem, one_row
from deepfls.inspection.pushes import input_pushes
from deepfls.inspection.weights import rule_weights


@dataclass(frozen=True)
class Explanation:
    """The prediction of one row in two sums over its parts, in the units of the data; logits for a classifier.

    For each of ``y_left``, ``y_right`` and ``y``, the contributions of the rules add up to it, and so do its ``base`` and
    the pushes of the inputs. For a Type-1 system the three are equal.

    Attributes
    ----------
    feature_names, output_names : tuple of str
    classes : ndarray or None
    x, reference : ndarray, shape (features,)
        The row, and the one that the inputs are pushed from.
    lower, upper : ndarray, shape (rules,)
        Firing strengths, in [0, 1].
    consequents : ndarray, shape (rules, outputs)
        What every rule says.
    output : Output
        (y_left, y_right, y), each (outputs,).
    weights : Output
        Weights of the rules in the three, each (rules, outputs); they add up to 1.
    contributions : Output
        Weights times consequents, each (rules, outputs); they add up to ``output``.
    left_upper, right_upper : ndarray of bool, shape (rules, outputs)
        Rules that weigh their upper firing at an end: those beyond the Karnik-Mendel switch point.
    base : Output
        The three at the reference, each (outputs,).
    pushes : Output
        What every input added, each (features, outputs); with ``base`` they add up to ``output``.
    exact_pushes : bool
        Whether all orders of the inputs were averaged, rather than some; the sums are exact in both cases.
    """

    feature_names: tuple[str, ...]
    output_names: tuple[str, ...]
    classes: Array | None
    x: Array
    reference: Array
    lower: Array
    upper: Array
    consequents: Array
    output: Output
    weights: Output
    contributions: Output
    left_upper: Array
    right_upper: Array
    base: Output
    pushes: Output
    exact_pushes: bool

    @property
    def y(self) -> Array:
        """The crisp output, (outputs,)."""
        return self.output.y

    @property
    def probabilities(self) -> Array | None:
        """Probabilities of the classes, (classes,); None for a regressor."""
        if self.classes is None:
            return None
        odds = np.exp(self.y - self.y.max())
        return np.asarray(odds / odds.sum())

    def to_text(self, *, digits: int = 4, top: int = 10) -> str:
        """The sums as text: the ``top`` rules and inputs by the size of what they added, the others together."""
        return show.explanation_text(self, digits, top)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return show.explanation_content(self)

    def __str__(self) -> str:
        return self.to_text()

    def _repr_html_(self) -> str:
        return show.explanation_html(self)


def explain(estimator: FLSEstimator, x: Any, *, reference: Any = None) -> Explanation:
    """The explanation of one row; :meth:`FLSEstimator.explain` has the parameters."""
    s = PlainSystem.of(estimator)
    row = one_row(estimator, "x", x)[np.newaxis]
    start = reference_row(estimator, s) if reference is None else one_row(estimator, "reference", reference)
    weights = rule_weights(s, row)
    consequents = s.rule_outputs(row)
    log_lower, log_upper = s.firing(row)
    contributions = Output(*(w[0] * consequents[0] for w in weights[:3]))
    base, pushes, exact = input_pushes(s, row[0], start)
    return Explanation(
        feature_names=s.feature_names,
        output_names=s.output_names,
        classes=s.classes,
        x=row[0],
        reference=start,
        lower=np.exp(log_lower[0]),
        upper=np.exp(log_upper[0]),
        consequents=consequents[0],
        output=Output(*(end[0] for end in s.output(row))),
        weights=Output(*(w[0] for w in weights[:3])),
        contributions=contributions,
        left_upper=weights.left_upper[0],
        right_upper=weights.right_upper[0],
        base=base,
        pushes=pushes,
        exact_pushes=exact,
    )


def reference_row(estimator: FLSEstimator, plain: PlainSystem) -> Array:
    """The mean of the training data where the scaling knows it, else the middle of its range, else of the sets."""
    if estimator.scaling == "standard":
        return estimator.x_scaling_.shift
    if plain.input_range is not None:
        return np.asarray(plain.input_range.mean(axis=0))
    return np.asarray(plain.centers.mean(axis=0))
