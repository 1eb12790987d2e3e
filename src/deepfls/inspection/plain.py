"""A trained system as plain NumPy fields in the units of the data: what rules, plots, reports and exports are made from.

The scaling inside an estimator is affine, so it folds into the parameters: with z = (x - m) / s and y = t + u v,

    center c s + m,    width σ s,    slope a u / s,    intercept t + u (a₀ - Σ a m / s).

The folded system gives the predictions of the estimator up to the rounding of float64.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted

from deepfls._checks import check_finite_table, check_one_row
from deepfls.estimators.base import FLSEstimator
from deepfls.functional.karnik_mendel import karnik_mendel
from deepfls.nn.systems import IT2FLS

Array = np.ndarray[Any, np.dtype[Any]]


class RuleFiring(NamedTuple):
    """Lower and upper log-firing, each (rows, rules); equal for Type-1 systems."""

    log_lower: Array
    log_upper: Array


class Output(NamedTuple):
    """Ends of the type-reduced set and the crisp output, each (rows, outputs); all three equal for Type-1 systems."""

    y_left: Array
    y_right: Array
    y: Array


@dataclass(frozen=True)
class PlainSystem:
    """A Type-1 or Interval Type-2 TSK system without torch.

    Attributes
    ----------
    kind : {"t1", "it2"}
    tnorm : {"product", "htsk"}
    order : {0, 1}
    uncertainty : {"h", "s", "hs", ""}
        Empty for Type-1 systems.
    type_reduction : {"km", "nt", "bmm", "sm", ""}
        Empty for Type-1 systems.
    feature_names, output_names : tuple of str
        Outputs are the targets, or the classes of a classifier.
    classes : ndarray or None
        The classes of a classifier; its outputs are logits.
    centers, lower_sigmas, upper_sigmas, log_heights : ndarray, shape (rules, features)
        ``log_heights`` are 0 where the height is not uncertain.
    intercepts : ndarray, shape (rules, outputs)
    slopes : ndarray, shape (rules, outputs, features)
    mix : ndarray, shape (outputs,), or None
        α of the "bmm" reduction.
    input_range : ndarray, shape (2, features), or None
        Smallest and largest value in the training data.
    rule_shares : ndarray, shape (rules,), or None
        Share of the firing of every rule on the training data.
    """

    kind: str
    tnorm: str
    order: int
    uncertainty: str
    type_reduction: str
    feature_names: tuple[str, ...]
    output_names: tuple[str, ...]
    classes: Array | None
    centers: Array
    lower_sigmas: Array
    upper_sigmas: Array
    log_heights: Array
    intercepts: Array
    slopes: Array
    mix: Array | None
    input_range: Array | None
    rule_shares: Array | None

    @property
    def n_rules(self) -> int:
        return self.centers.shape[0]

    @property
    def n_features(self) -> int:
        return self.centers.shape[1]

    @property
    def n_outputs(self) -> int:
        return self.intercepts.shape[1]

    @classmethod
    def of(cls, estimator: FLSEstimator) -> PlainSystem:
        """The plain of a fitted estimator."""
        check_is_fitted(estimator, "system_")
        system = estimator.system_

        def array(value: torch.Tensor) -> Array:
            return value.detach().cpu().double().numpy().copy()

        shift, scale = estimator.x_scaling_.shift, estimator.x_scaling_.scale
        n_outputs = system.n_outputs
        # A classifier scales no logits; its one target is the index of the class.
        classes = getattr(estimator, "classes_", None)
        target_shift = np.zeros(n_outputs) if classes is not None else estimator.y_scaling_.shift
        target_scale = np.ones(n_outputs) if classes is not None else estimator.y_scaling_.scale
        slopes = array(system.slopes) / scale
        if isinstance(system, IT2FLS):
            own: dict[str, Any] = {
                "kind": "it2",
                "uncertainty": system.uncertainty,
                "type_reduction": system.type_reduction,
                "lower_sigmas": array(system.lower_sigmas) * scale,
                "upper_sigmas": array(system.upper_sigmas) * scale,
                "log_heights": array(system.antecedents.log_heights),
                "mix": None if system.mix is None else array(system.mix),
            }
        else:
            sigmas = array(system.sigmas) * scale
            own = {"kind": "t1", "uncertainty": "", "type_reduction": "", "mix": None}
            own |= {"lower_sigmas": sigmas, "upper_sigmas": sigmas, "log_heights": np.zeros_like(sigmas)}
        return cls(
            tnorm=system.tnorm,
            order=system.consequents.order,
            feature_names=_feature_names(estimator),
            output_names=_output_names(estimator),
            classes=classes,
            centers=array(system.centers) * scale + shift,
            intercepts=target_shift + target_scale * (array(system.intercepts) - slopes @ shift),
            slopes=slopes * target_scale[:, np.newaxis],
            input_range=getattr(estimator, "input_range_", None),
            rule_shares=getattr(estimator, "rule_shares_", None),
            **own,
        )

    def firing(self, x: Array) -> RuleFiring:
        """Log-firing of every rule for rows x (rows, features) in the units of the data."""
        share = 1.0 if self.tnorm == "product" else 1.0 / self.n_features

        def exponents(sigmas: Array) -> Array:
            # Rule by rule: differences taken before squaring lose no digits, and no (rows, rules, features) is built.
            rules = zip(self.centers, sigmas, strict=True)
            return np.stack([-0.5 * share * np.square((x - c) / s).sum(axis=1) for c, s in rules], axis=1)

        log_upper = exponents(self.upper_sigmas)
        if self.kind == "t1":
            return RuleFiring(log_upper, log_upper)
        # Equal sets may come out an ulp apart.
        log_lower = np.minimum(exponents(self.lower_sigmas) + share * self.log_heights.sum(axis=1), log_upper)
        return RuleFiring(log_lower, log_upper)

    def rule_outputs(self, x: Array) -> Array:
        """Consequents (rows, rules, outputs) for rows x (rows, features)."""
        return np.einsum("nm,pkm->npk", x, self.slopes) + self.intercepts

    def output(self, x: Array) -> Output:
        """Type-reduced set and crisp output for rows x (rows, features): logits for a classifier."""
        return self.reduced(*self.firing(x), self.rule_outputs(x))

    def reduced(self, log_lower: Array, log_upper: Array, consequents: Array) -> Output:
        """The same from log-firing, each (rows, rules), and consequents (rows, rules, outputs)."""
        peak = log_upper.max(axis=1, keepdims=True)
        lower, upper = np.exp(np.maximum(log_lower - peak, -600.0)), np.exp(np.maximum(log_upper - peak, -600.0))

        def average(weights: Array) -> Array:
            return np.einsum("np,npk->nk", weights / weights.sum(axis=1, keepdims=True), consequents)

        if self.kind == "t1":
            y = average(upper)
            return Output(y, y, y)
        ends = karnik_mendel(torch.from_numpy(lower), torch.from_numpy(upper), torch.from_numpy(consequents))
        y_left, y_right = (end.numpy() for end in ends)
        if self.type_reduction == "km":
            return Output(y_left, y_right, 0.5 * (y_left + y_right))
        if self.type_reduction == "nt":
            y = average(lower + upper)
        else:
            own_peak = np.exp(log_lower - log_lower.max(axis=1, keepdims=True))
            mix = 0.5 if self.mix is None else self.mix
            y = mix * average(own_peak) + (1.0 - mix) * average(upper)
        return Output(y_left, y_right, np.clip(y, y_left, y_right))


def one_row(estimator: FLSEstimator, name: str, x: Any) -> Array:
    """One row (features,) of numbers for a fitted estimator, from a row of a frame, a list or a table of one row."""
    row = check_one_row(name, x, estimator.system_.n_features)
    if isinstance(row, np.ndarray):
        # Numbers without names are taken in their order: nobody names the columns of a single row.
        values = row.astype(np.float64)
        check_finite_table(name, values)
        return values[0]
    return np.ascontiguousarray(estimator._validated_x(row, reset=False)[0])


def _feature_names(estimator: FLSEstimator) -> tuple[str, ...]:
    names = getattr(estimator, "feature_names_in_", None)
    if names is None:
        return tuple(f"x{m}" for m in range(estimator.system_.n_features))
    return tuple(str(name) for name in names)


def _output_names(estimator: FLSEstimator) -> tuple[str, ...]:
    classes = getattr(estimator, "classes_", None)
    if classes is not None:
        return tuple(str(c) for c in classes)
    table = getattr(estimator, "table_", None)
    return tuple(estimator.target_names_ if table is None else table["targets"])
