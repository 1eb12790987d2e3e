"""A trained system as NumPy arrays in the units of the data: the source of rules, plots, reports and exports.

The scaling inside an estimator is affine, so it folds into the parameters: with z = (x - m) / s and y = t + u v,

    center c s + m,    width σ s,    slope a u / s,    intercept t + u (a₀ - Σ a m / s).

The folded system gives the predictions of the estimator up to the rounding of float64.

Every output is a weighted mean of the consequents, y = Σ_p w_p y_p with Σ_p w_p = 1:

    Type-1        w = f / Σ f
    y_left        w = f̄ where y_p <= y_left, else f̲, over its sum; y_right the other way round
    "km"          the mean of the weights at both ends
    "nt"          w = (f̲ + f̄) / Σ (f̲ + f̄)
    "bmm", "sm"   w = α f̲ / Σ f̲ + (1 - α) f̄ / Σ f̄
    "gt2"         the mean of the weights of "km" over its planes, by their levels; ends are those of the widest plane

The numerical constants are those of :mod:`deepfls.functional.constants`; the report page and the C code receive the same.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted

from deepfls._checks.values import Array
from deepfls.data.columns import Columns
from deepfls.functional.constants import LOG_FLOOR, MIN_LOGIT, SMALLEST_ALPHA, TOLERANCE
from deepfls.functional.firing import share_of
from deepfls.functional.karnik_mendel import karnik_mendel
from deepfls.functional.reduction import check_alphas, plane_width
from deepfls.nn.general import GT2FLS
from deepfls.nn.systems import IT2FLS

if TYPE_CHECKING:
    from deepfls.estimators.base import FLSEstimator


class RuleValues(NamedTuple):
    """Log-firing, each (rows, rules), and consequents (rows, rules, outputs) of the rules for the same rows."""

    log_lower: Array
    log_upper: Array
    consequents: Array


class PlainOutput(NamedTuple):
    """Ends of the type-reduced set and the crisp output, each (rows, outputs); all three equal for Type-1 systems."""

    y_left: Array
    y_right: Array
    y: Array


class RuleWeights(NamedTuple):
    """Weights of the rules in both ends and in the crisp output, each (rows, rules, outputs), adding up to 1 over rules.

    ``left_upper`` and ``right_upper`` mark the rules whose weight at an end is their upper firing: those beyond the switch
    point.
    """

    left: Array
    right: Array
    crisp: Array
    left_upper: Array
    right_upper: Array


@dataclass(frozen=True)
class PlainSystem:
    """A Type-1, Interval Type-2 or General Type-2 TSK system without torch.

    Widths and heights of a General Type-2 system are those of its widest plane; the lower widths are the primary ones.
    """

    kind: str  # "t1", "it2" or "gt2"
    tnorm: str  # "product" or "htsk"
    order: int  # 0 or 1
    uncertainty: str  # "h", "s" or "hs"; empty for Type-1 systems
    type_reduction: str  # "km", "nt", "bmm" or "sm"; empty for Type-1 systems
    feature_names: tuple[str, ...]
    output_names: tuple[str, ...]  # the targets, or the classes of a classifier
    classes: Array | None  # of a classifier, whose outputs are logits
    centers: Array  # (rules, features)
    lower_sigmas: Array  # (rules, features)
    upper_sigmas: Array  # (rules, features)
    log_heights: Array  # (rules, features): 0 where the height is not uncertain
    intercepts: Array  # (rules, outputs)
    slopes: Array  # (rules, outputs, features)
    mix: Array | None  # (outputs,): α of the "bmm" reduction
    input_range: Array | None  # (2, features): smallest and largest value in the training data
    rule_shares: Array | None  # (rules,): share of the firing of every rule on the training data
    alphas: Array | None = None  # (planes,): levels of the planes of a General Type-2 system, the widest first
    columns: Columns | None = None  # what the inputs come from; numbers where it is None
    missing: bool = False  # whether the system was trained with unknown inputs
    bounds: Array | None = None  # (2, features): inputs beyond are clipped; None where none is
    terms: Array | None = None  # (rules, features): the term of every rule where they share them, -1 for none
    words: tuple[tuple[str, ...], ...] = ()  # of the terms of every input

    @property
    def systems(self) -> tuple[PlainSystem, ...]:
        """Itself: a model of one system."""
        return (self,)

    @property
    def shares(self) -> tuple[float, ...]:
        """Its share in the output of the model."""
        return (1.0,)

    @property
    def n_rules(self) -> int:
        return self.centers.shape[0]

    @property
    def n_features(self) -> int:
        return self.centers.shape[1]

    @property
    def n_outputs(self) -> int:
        return self.intercepts.shape[1]

    @property
    def grade_power(self) -> float:
        """Power of each grade in the firing: 1 for the product, 1 / features for the geometric mean ("htsk")."""
        return share_of(self.tnorm, self.n_features)

    @property
    def half_widths(self) -> tuple[Array, Array]:
        """Distances from the center, of lower and upper sets, each (rules, features), at which grades fall to a half.
        As they act in the firing: under "htsk" √features times those of the sets alone. Infinite for a set left out."""
        factor = math.sqrt(2.0 * math.log(2.0) / self.grade_power)
        return self.lower_sigmas * factor, self.upper_sigmas * factor

    @property
    def acting_heights(self) -> Array:
        """Heights of the lower sets as they act in the firing, (rules, features)."""
        return np.asarray(np.exp(self.grade_power * self.log_heights))

    @classmethod
    def of(cls, estimator: FLSEstimator, *, scaled: bool = False, number: int | None = None) -> PlainSystem:
        """The system of a fitted estimator in the units of the data, or in the scaled units of training.

        ``number`` from 0 on is the place of one of several systems; without it there must be one.
        :class:`~deepfls.inspection.plain_model.PlainModel` holds all of them.
        """
        check_is_fitted(estimator, "system_")
        n_systems, place = len(estimator.systems_), number or 0
        if number is None and n_systems > 1:
            raise ValueError(
                f"n_systems must be 1 for this, which takes one system, and the model is the mean of {n_systems}: train it "
                "again with n_systems=1."
            )
        system, alphas = estimator.systems_[place], None
        ranges, chosen = system.antecedents.bounds, system.antecedents.terms
        if isinstance(system, GT2FLS):
            alphas, system = system.alphas.cpu().double().numpy(), system.plane_system(SMALLEST_ALPHA)
        x_scaling, input_range = estimator.x_scaling_, getattr(estimator, "input_range_", None)
        classes, rule_shares = getattr(estimator, "classes_", None), getattr(estimator, "rule_shares_", None)
        outputs = getattr(estimator, "table_", {}).get("targets") if classes is None else classes
        x_shift, x_scale = np.zeros(system.n_features), np.ones(system.n_features)
        y_shift, y_scale = np.zeros(system.n_outputs), np.ones(system.n_outputs)
        if not scaled:
            x_shift, x_scale = x_scaling.shift, x_scaling.scale
            if classes is None:  # the logits of a classifier are not scaled
                y_shift, y_scale = estimator.y_scaling_.shift, estimator.y_scaling_.scale

        def array(value: torch.Tensor) -> Array:
            return value.detach().cpu().double().numpy().copy()

        slopes = array(system.slopes) / x_scale
        centers = array(system.centers) * x_scale + x_shift
        if ranges is not None:  # the change of units may round a center at an end of its range past it
            ends = array(ranges[:2])
            low, high = ends[0].min(axis=0) * x_scale + x_shift, ends[1].max(axis=0) * x_scale + x_shift
            if input_range is not None and not scaled:
                low, high = np.maximum(low, input_range[0]), np.minimum(high, input_range[1])
            centers = np.clip(centers, low, high)
        if isinstance(system, IT2FLS):
            own: dict[str, Any] = {
                "kind": "it2" if alphas is None else "gt2",
                "uncertainty": system.uncertainty,
                "type_reduction": system.type_reduction,
                "lower_sigmas": array(system.lower_sigmas) * x_scale,
                "upper_sigmas": array(system.upper_sigmas) * x_scale,
                "log_heights": array(system.antecedents.log_heights),
                "mix": None if system.mix is None else array(system.mix),
            }
        else:
            sigmas = array(system.sigmas) * x_scale
            own = {"kind": "t1", "uncertainty": "", "type_reduction": "", "mix": None}
            own |= {"lower_sigmas": sigmas, "upper_sigmas": sigmas, "log_heights": np.zeros_like(sigmas)}
        if chosen is not None:  # rules choose their sets: widths are infinite where a rule has none
            terms = chosen.cpu().numpy().copy()
            own |= {name: np.where(terms < 0, np.inf, own[name]) for name in ("lower_sigmas", "upper_sigmas")}
            words = estimator._structure_.term_words(estimator.words, estimator.columns_.input_names)
            if words:
                own |= {"terms": terms, "words": tuple(map(tuple, words))}
        if rule_shares is not None:
            first = sum(other.n_rules for other in estimator.systems_[:place])
            rule_shares = rule_shares[first : first + system.n_rules] / estimator._model.shares[place]
        return cls(
            tnorm=system.tnorm,
            order=system.consequents.order,
            feature_names=tuple(estimator.columns_.input_names),
            columns=estimator.columns_,
            missing=system.missing,
            bounds=None if x_scaling.low is None or scaled else np.array([x_scaling.low, x_scaling.high]),
            output_names=tuple(estimator.target_names_) if outputs is None else tuple(map(str, outputs)),
            classes=classes,
            centers=centers,
            intercepts=y_shift + y_scale * (array(system.intercepts) - slopes @ x_shift),
            slopes=slopes * y_scale[:, np.newaxis],
            input_range=input_range,
            rule_shares=rule_shares,
            alphas=alphas,
            **own,
        )

    def plane(self, alpha: float) -> PlainSystem:
        """One plane of a General Type-2 system as a system of its own: Interval Type-2, or Type-1 for α = 1."""
        if self.kind != "gt2":
            raise ValueError(f"plane must come with kind='gt2', which has planes, got kind={self.kind!r}.")
        (level,) = check_alphas(alpha, torch.zeros(1, dtype=torch.float64, device="cpu"))
        t = float(plane_width(level))
        if t == 0.0:
            own: dict[str, Any] = {"kind": "t1", "uncertainty": "", "type_reduction": "", "upper_sigmas": self.lower_sigmas}
            return replace(self, **own, log_heights=np.zeros_like(self.log_heights), alphas=None)
        known = np.isfinite(self.upper_sigmas)  # sets that were left out of a rule have infinite widths
        ratio = np.divide(self.lower_sigmas, self.upper_sigmas, out=np.ones_like(self.centers), where=known)
        upper = self.lower_sigmas / np.sqrt(1.0 - min(t, 1.0) * (1.0 - np.square(ratio)))
        heights = np.maximum(t * self.log_heights, MIN_LOGIT)
        return replace(self, kind="it2", alphas=None, upper_sigmas=upper, log_heights=heights)

    def plane_shares(self) -> list[tuple[float, float]]:
        """Share in the crisp output and width t of every plane of a General Type-2 system, the widest first."""
        assert self.alphas is not None
        widths = plane_width(torch.from_numpy(self.alphas))
        return list(zip((self.alphas / self.alphas.sum()).tolist(), widths.tolist(), strict=True))

    def planes(self) -> list[tuple[float, PlainSystem]]:
        """Every plane with its share in the crisp output, the widest first; the system itself if it has none."""
        if self.alphas is None:
            return [(1.0, self)]
        levels = zip(self.plane_shares(), self.alphas.tolist(), strict=True)
        return [(share, self.plane(alpha)) for (share, _), alpha in levels]

    def _firing_of_planes(self, log_lower: Array, log_upper: Array) -> list[tuple[float, Array, Array]]:
        """Share in the crisp output and relative firing, lower and upper, of every plane, the widest first."""
        if self.alphas is None:
            return [(1.0, *relative_firing(log_lower, log_upper))]
        log_firing = log_lower - self.grade_power * self.log_heights.sum(axis=1)
        found = []
        for share, t in self.plane_shares():
            lower, upper = (log_firing + t * (bound - log_firing) for bound in (log_lower, log_upper))
            found.append((share, *relative_firing(lower, upper)))
        return found

    def clipped(self, x: Array) -> Array:
        """Rows within the bounds."""
        return x if self.bounds is None else np.clip(x, *self.bounds)

    def firing(self, x: Array) -> tuple[Array, Array]:
        """Lower and upper log-firing, each (rows, rules), for rows x (rows, features); equal for Type-1 systems."""
        x = self.clipped(x)
        power = self.grade_power

        def exponents(sigmas: Array) -> Array:
            # Rule by rule: differences taken before squaring lose no digits, and no (rows, rules, features) is built.
            rules = zip(self.centers, sigmas, strict=True)
            return np.stack([-0.5 * power * total(np.square((x - c) / s), axis=1) for c, s in rules], axis=1)

        # NaN is an input that is not known, of grade 1 in every rule.
        unknown = np.isnan(x)
        total: Any = np.nansum if unknown.any() else np.sum

        log_upper = exponents(self.upper_sigmas)
        if self.kind == "t1":
            return log_upper, log_upper
        # Equal sets may come out an ulp apart.
        # The height of a plane of a General Type-2 system belongs to the rule, so an unknown input does not change it.
        dropped = 0.0 if self.kind == "gt2" else unknown @ self.log_heights.T
        heights = power * (self.log_heights.sum(axis=1) - dropped)
        return np.minimum(exponents(self.lower_sigmas) + heights, log_upper), log_upper

    def rule_outputs(self, x: Array) -> Array:
        """Consequents (rows, rules, outputs) for rows x (rows, features)."""
        x = self.clipped(x)
        unknown = np.isnan(x)
        if not unknown.any():
            return np.einsum("nm,pkm->npk", x, self.slopes) + self.intercepts
        # A rule takes the center of its set in place of an unknown input.
        outputs = np.einsum("nm,pkm->npk", np.where(unknown, 0.0, x), self.slopes) + self.intercepts
        return outputs + np.einsum("nm,pkm->npk", unknown.astype(np.float64), self.slopes * self.centers[:, None])

    def rule_values(self, x: Array) -> RuleValues:
        """Log-firing and consequents for rows x (rows, features)."""
        return RuleValues(*self.firing(x), self.rule_outputs(x))

    def output(self, x: Array) -> PlainOutput:
        """Type-reduced set and crisp output for rows x (rows, features): logits for a classifier."""
        return self.reduced(*self.rule_values(x))

    def reduced(self, log_lower: Array, log_upper: Array, consequents: Array) -> PlainOutput:
        """The same from log-firing, each (rows, rules), and consequents (rows, rules, outputs)."""
        lower, upper = relative_firing(log_lower, log_upper)
        if self.type_reduction == "km":
            planes = self._firing_of_planes(log_lower, log_upper)
            ends = [end_points(low, up, consequents) for _, low, up in planes]
            y = sum(0.5 * share * (left + right) for (share, _, _), (left, right) in zip(planes, ends, strict=True))
            return PlainOutput(*ends[0], np.asarray(y))
        weights = np.broadcast_to(self._closed_form_weights(log_lower, lower, upper), consequents.shape)
        y = np.einsum("npk,npk->nk", weights, consequents)
        if self.kind == "t1":
            return PlainOutput(y, y, y)
        y_left, y_right = end_points(lower, upper, consequents)
        return PlainOutput(y_left, y_right, np.clip(y, y_left, y_right))

    def weights(self, log_lower: Array, log_upper: Array, consequents: Array) -> RuleWeights:
        """Weights of the rules from log-firing, each (rows, rules), and consequents (rows, rules, outputs)."""
        lower, upper = relative_firing(log_lower, log_upper)
        if self.kind == "t1":
            weights = np.broadcast_to(self._closed_form_weights(log_lower, lower, upper), consequents.shape)
            everywhere = np.ones(consequents.shape, dtype=bool)
            return RuleWeights(weights, weights, weights, everywhere, everywhere)
        planes = self._firing_of_planes(log_lower, log_upper)
        at_ends = [weights_at_ends(low, up, consequents) for _, low, up in planes]
        if self.type_reduction == "km":
            middles = (share * weights.crisp for (share, _, _), weights in zip(planes, at_ends, strict=True))
            crisp = np.asarray(sum(middles))
        else:
            crisp = np.broadcast_to(self._closed_form_weights(log_lower, lower, upper), consequents.shape)
        return at_ends[0]._replace(crisp=crisp)

    def _closed_form_weights(self, log_lower: Array, lower: Array, upper: Array) -> Array:
        """Weights that do not depend on the consequents, (rows, rules, 1 or outputs): all but those of "km"."""
        if self.kind == "t1":
            return normalized(upper)[:, :, np.newaxis]
        if self.type_reduction == "nt":
            return normalized(lower + upper)[:, :, np.newaxis]
        # Relative to its own peak: all lower firing may vanish beside the upper firing.
        own, _ = relative_firing(log_lower, log_lower)
        mix = 0.5 if self.mix is None else self.mix
        return mix * normalized(own)[:, :, np.newaxis] + (1.0 - mix) * normalized(upper)[:, :, np.newaxis]

    def input_span(self, feature: int) -> tuple[float, float]:
        """Range of an input for axes: that of the training data, else that of the sets; never empty."""
        if self.input_range is not None:
            low, high = self.input_range[:, feature].tolist()
        else:
            centers, widths = self.centers[:, feature], np.nan_to_num(self.upper_sigmas[:, feature], posinf=1.0)
            low, high = float((centers - widths).min()), float((centers + widths).max())
        if high > low:
            return low, high
        margin = max(abs(low), 1.0) * 0.1  # an input of one value
        return low - margin, high + margin


def normalized(firing: Array) -> Array:
    """Firing (rows, rules, ...) as shares that add up to 1 over the rules."""
    return firing / firing.sum(axis=1, keepdims=True)


def relative_firing(log_lower: Array, log_upper: Array) -> tuple[Array, Array]:
    """Lower and upper firing relative to the largest upper firing of each row, held above the common floor."""
    peak = log_upper.max(axis=1, keepdims=True)
    return np.exp(np.maximum(log_lower - peak, LOG_FLOOR)), np.exp(np.maximum(log_upper - peak, LOG_FLOOR))


def end_points(lower: Array, upper: Array, consequents: Array) -> tuple[Array, Array]:
    """Ends of the type-reduced set, each (rows, outputs), from relative firing, each (rows, rules)."""
    low, up, values = (torch.from_numpy(np.ascontiguousarray(part)) for part in (lower, upper, consequents))
    y_left, y_right = karnik_mendel(low, up, values)
    return y_left.numpy(), y_right.numpy()


def weights_at_ends(lower: Array, upper: Array, consequents: Array) -> RuleWeights:
    """Weights of the rules in both ends and in their middle, from relative firing, each (rows, rules)."""
    y_left, y_right = (end[:, np.newaxis] for end in end_points(lower, upper, consequents))
    # A rule whose consequent equals an end up to rounding may carry all the weight: it counts as beyond the end.
    slack = TOLERANCE * np.finfo(np.float64).eps * np.abs(consequents).sum(axis=1, keepdims=True)
    left_upper, right_upper = consequents <= y_left + slack, consequents >= y_right - slack
    low, up = lower[:, :, np.newaxis], upper[:, :, np.newaxis]
    left, right = (normalized(np.where(beyond, up, low)) for beyond in (left_upper, right_upper))
    return RuleWeights(left, right, 0.5 * (left + right), left_upper, right_upper)


def firing_shares(log_lower: Array, log_upper: Array) -> Array:
    """Share of every rule in the firing of a row, (rows, rules): f̲ + f̄ over its sum."""
    peak = log_upper.max(axis=1, keepdims=True)
    with np.errstate(under="ignore"):  # an error where NumPy is set to raise
        return np.asarray(normalized(np.exp(log_lower - peak) + np.exp(log_upper - peak)))
