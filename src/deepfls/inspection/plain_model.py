"""A trained model, its rows and true values as NumPy arrays; and back from arrays to a torch system.

A model is the mean of one or several systems, each with rules of its own.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted

from deepfls._checks.arguments import check_count, check_option, counted
from deepfls._checks.labels import class_labels
from deepfls._checks.values import Array, check_finite_table, check_number_targets, check_same_length
from deepfls.data.frames import as_table, raw_table
from deepfls.estimators.calibration import Calibration
from deepfls.functional.constants import MAX_SIGMA, MIN_RATIO, MIN_SIGMA
from deepfls.inspection.plain import PlainOutput, PlainSystem, RuleValues, RuleWeights, firing_shares
from deepfls.nn.general import GT2FLS
from deepfls.nn.systems import IT2FLS, T1FLS

if TYPE_CHECKING:
    from deepfls.estimators.base import FLSEstimator

# Rows that are evaluated at a time.
_CHUNK = 16_384


def _of_first(name: str) -> Any:
    """A property that all systems of a model share."""
    return property(lambda self: getattr(self.systems[0], name))


@dataclass(frozen=True)
class PlainModel:
    """Systems with the same inputs and outputs; outputs and ends are their means, weighted by ``shares`` that add up to 1.

    Numbers of rules, t-norms and sets may differ between the systems.
    """

    systems: tuple[PlainSystem, ...]
    shares: tuple[float, ...]

    @classmethod
    def of(cls, estimator: FLSEstimator) -> PlainModel:
        """The model of a fitted estimator in the units of the data."""
        check_is_fitted(estimator, "system_")
        numbers = range(len(estimator.systems_))
        return cls(
            tuple(PlainSystem.of(estimator, number=number) for number in numbers), tuple(estimator._model.shares.tolist())
        )

    @property
    def kind(self) -> str:
        """That of the systems; "it2" or "gt2" if one of them is."""
        return next((s.kind for s in self.systems if s.kind != "t1"), "t1")

    feature_names = _of_first("feature_names")
    output_names = _of_first("output_names")
    classes = _of_first("classes")
    columns = _of_first("columns")
    missing = _of_first("missing")
    bounds = _of_first("bounds")
    input_range = _of_first("input_range")
    n_features = _of_first("n_features")
    n_outputs = _of_first("n_outputs")

    @property
    def n_rules(self) -> int:
        """Rules of all systems."""
        return sum(s.n_rules for s in self.systems)

    @property
    def centers(self) -> Array:
        """Those of all systems one after another, (rules, features)."""
        return np.concatenate([s.centers for s in self.systems])

    @property
    def upper_sigmas(self) -> Array:
        """Those of all systems one after another, (rules, features)."""
        return np.concatenate([s.upper_sigmas for s in self.systems])

    def input_span(self, feature: int) -> tuple[float, float]:
        """Range of an input for axes; never empty."""
        lows, highs = zip(*(s.input_span(feature) for s in self.systems), strict=True)
        return min(lows), max(highs)

    def plane(self, alpha: float) -> PlainModel:
        """The mean of one plane of General Type-2 systems."""
        return PlainModel(tuple(s.plane(alpha) for s in self.systems), self.shares)

    def output(self, x: Array) -> PlainOutput:
        """Type-reduced set and crisp output for rows x (rows, features): logits for a classifier."""
        return weighted_mean(self.shares, [s.output(x) for s in self.systems])


# What has ``systems`` and their ``shares``; a PlainSystem is a model of one.
AnyModel = PlainModel | PlainSystem


def weighted_mean(shares: tuple[float, ...], outputs: list[PlainOutput]) -> PlainOutput:
    """The mean of the outputs of systems."""
    if len(outputs) == 1:
        return outputs[0]
    ends = zip(*outputs, strict=True)
    return PlainOutput(*(np.asarray(sum(share * v for share, v in zip(shares, end, strict=True))) for end in ends))


def outputs_of(model: AnyModel, x: Array) -> Array:
    """Crisp outputs (rows, outputs), a chunk of rows at a time."""
    return np.concatenate([model.output(x[start : start + _CHUNK]).y for start in range(0, len(x), _CHUNK)])


def shares_of(plain: PlainSystem, x: Array) -> Array:
    """Share of every rule in the firing, (rules,): the mean of :func:`firing_shares` over rows x."""
    total = np.zeros(plain.n_rules)
    for start in range(0, len(x), _CHUNK):
        total += firing_shares(*plain.firing(x[start : start + _CHUNK])).sum(axis=0)
    return total / len(x)


def input_terms(s: PlainSystem, values: Array, feature: int) -> RuleValues:
    """The terms of one input in the log-firing and consequents of the rules, for its values (rows,).

    An input that is not known has grade 1, and the consequent of a rule takes the center of its set.
    """
    values = values if s.bounds is None else np.clip(values, *s.bounds[:, feature])
    centers, unknown = s.centers[:, feature], np.isnan(values)
    filled = np.where(unknown[:, np.newaxis], centers, values[:, np.newaxis])  # (rows, rules)
    lower, upper = (
        -0.5 * s.grade_power * np.square((filled - centers) / sigmas[:, feature])
        for sigmas in (s.lower_sigmas, s.upper_sigmas)
    )
    if s.kind != "gt2":
        lower[unknown] -= s.grade_power * s.log_heights[:, feature]
    return RuleValues(lower, upper, filled[:, :, np.newaxis] * s.slopes[:, :, feature])


def rule_overlaps(shares: Array) -> Array:
    """Overlap of every rule with those after it, (rules, rules), from shares of the firing (rows, rules).

    The overlap of two rules is Σ min(f_p, f_q) / Σ max(f_p, f_q) over the rows; 0 for two rules that never fire.
    """
    n_rules = shares.shape[1]
    overlaps = np.zeros((n_rules, n_rules))
    for p in range(n_rules - 1):
        one, others = shares[:, p : p + 1], shares[:, p + 1 :]
        common, either = np.minimum(one, others).sum(axis=0), np.maximum(one, others).sum(axis=0)
        overlaps[p, p + 1 :] = common / np.where(either > 0, either, 1.0)
    return overlaps


def rule_weights(plain: PlainSystem, x: Array) -> RuleWeights:
    """Weights of the rules for rows in the units of the data.

    Parameters
    ----------
    plain : PlainSystem
    x : ndarray, shape (rows, features)

    Returns
    -------
    RuleWeights
        Named tuple (left, right, crisp, left_upper, right_upper), each (rows, rules, outputs).

    Examples
    --------
    >>> import numpy as np
    >>> from deepfls import FLSRegressor
    >>> X = np.linspace(-1, 1, 50).reshape(-1, 1)
    >>> model = FLSRegressor(n_rules=3, epochs=2, random_state=0).fit(X, X[:, 0])
    >>> weights = rule_weights(PlainSystem.of(model), X)
    >>> weights.crisp.shape, bool(np.allclose(weights.crisp.sum(axis=1), 1.0))
    ((50, 3, 1), True)
    """
    return plain.weights(*plain.rule_values(x))


def system_at(estimator: FLSEstimator, number: int) -> tuple[PlainSystem, str]:
    """One of the systems of an estimator, and which of several it is, for titles."""
    check_is_fitted(estimator, "system_")
    count = len(estimator.systems_)
    check_count("system", number, 0, count - 1)
    return PlainSystem.of(estimator, number=number), f"system {number + 1} of {count}" if count > 1 else ""


def estimator_with(estimator: FLSEstimator, s: PlainSystem, numbers: Sequence[str], x: Array) -> FLSEstimator:
    """A copy of an estimator with the rules of a PlainSystem in scaled units.

    ``numbers`` are those of its rules in the original, from 1; rows x are in the units of the data.
    """
    fewer = copy.copy(estimator)
    fewer.__dict__ = {name: copy.copy(value) for name, value in vars(estimator).items() if name != "initial_sets_"}
    fewer.n_rules = s.n_rules
    fewer._structure_ = replace(estimator._structure_, n_rules=s.n_rules)
    # "auto" was decided when the system was made.
    system = replace(fewer._structure_, tnorm=estimator.system_.tnorm).new_system()
    system.to(device=estimator.system_.centers.device, dtype=torch.float64)
    system.missing = estimator.system_.missing
    if estimator.system_.antecedents.terms is not None:
        _take_sets(system, estimator.system_, s, [int(number) - 1 for number in numbers])
    else:
        bounds = estimator.system_.antecedents.bounds
        if bounds is not None:
            system.antecedents.bounds = bounds[:, :1].expand(-1, system.antecedents.n_sets, -1).clone()
        fill_system(system, s)
    fewer.system_ = system.requires_grad_(False)
    fewer.rule_shares_ = shares_of(s, estimator.x_scaling_.apply(x))
    return fewer


def _take_sets(system: T1FLS | IT2FLS, original: T1FLS | IT2FLS, s: PlainSystem, rules: list[int]) -> None:
    """Give a system the sets of some rules of another one whose rules choose theirs, where they are still conditions."""
    old, new = original.antecedents, system.antecedents
    assert old.terms is not None
    shared = old.n_sets != original.n_rules or new.n_sets == old.n_sets
    kept = slice(None) if shared else rules
    chosen = old.terms[rules].cpu().numpy()
    if not shared:
        chosen = np.where(chosen >= 0, np.arange(len(rules))[:, np.newaxis], -1)
    new.share_terms(np.where(np.isfinite(s.upper_sigmas), chosen, -1), new.n_sets)
    if old.bounds is not None:
        new.bounds = old.bounds[:, kept].clone()
    own = dict(new.named_parameters())
    with torch.no_grad():
        for name, parameter in old.named_parameters():
            own[name].copy_(parameter[kept])
    _fill_outputs(system, s)


def fill_system(system: T1FLS | IT2FLS, s: PlainSystem) -> None:
    """Assign the values of a PlainSystem to a torch system of the same settings."""

    def tensor(values: Array) -> torch.Tensor:
        return torch.from_numpy(np.ascontiguousarray(values)).to(system.centers)

    # Rounding may move merged widths and heights out of their range, and assignment checks the range.
    least, largest = MIN_SIGMA, MAX_SIGMA
    centers = s.centers
    bounds, limits = system.antecedents.bounds, system.antecedents.width_limits
    if bounds is not None and limits is not None:
        centers = np.clip(centers, *bounds[:2].cpu().numpy())
        least, largest = limits.cpu().numpy()
    upper = np.clip(s.upper_sigmas, least * (1 + 1e-12), largest * (1 - 1e-12))
    system.centers = tensor(centers)
    if isinstance(system, GT2FLS):
        primary = np.clip(s.lower_sigmas, least * (1 + 1e-12), largest * (1 - 1e-12))
        upper_spreads = np.clip(1.0 - np.square(s.lower_sigmas / s.upper_sigmas), 0.0, 1.0 - MIN_RATIO)
        lower_spreads = np.clip(1.0 - np.exp(s.log_heights), 0.0, 1.0 - 1e-12)
        if system.shared_spread:
            lower_spreads, upper_spreads = lower_spreads.mean(), upper_spreads.mean()
        system.sigmas, system.lower_spreads, system.upper_spreads = map(tensor, (primary, lower_spreads, upper_spreads))
    elif isinstance(system, IT2FLS):
        ratio = np.clip(s.lower_sigmas / s.upper_sigmas, MIN_RATIO * (1 + 1e-12), 1.0)
        system.set_sigmas(tensor(upper if s.uncertainty == "h" else upper * ratio), tensor(upper))
        system.heights = tensor(np.exp(np.clip(s.log_heights, -79.9, 0.0)))
    else:
        system.sigmas = tensor(upper)
    _fill_outputs(system, s)


def _fill_outputs(system: T1FLS | IT2FLS, s: PlainSystem) -> None:
    """Assign consequents and, for "bmm", the mix."""
    system.intercepts = torch.from_numpy(np.ascontiguousarray(s.intercepts)).to(system.intercepts)
    if s.order == 1:
        system.slopes = torch.from_numpy(np.ascontiguousarray(s.slopes)).to(system.slopes)
    if s.mix is not None and isinstance(system, IT2FLS):
        system.mix = torch.from_numpy(s.mix).to(system.intercepts)


def one_row(estimator: FLSEstimator, name: str, x: Any) -> Array:
    """One row (features,) of numbers for a fitted estimator, from a row of a frame, a list or a table of one row."""
    n_columns = estimator.n_features_in_
    if hasattr(x, "to_frame") and getattr(x, "ndim", 0) == 1:  # a row of a data frame
        x = x.to_frame().T.infer_objects()
    if hasattr(x, "toarray") or isinstance(x, np.ma.MaskedArray):  # of which an array of objects has other values
        x = as_table(x)
    given = tuple(x.shape) if hasattr(x, "shape") else np.shape(x)  # an array of all columns may not exist
    shape = (1, *given) if len(given) == 1 else given
    if shape != (1, n_columns):
        raise ValueError(
            f"{name} must be one row of shape (features,) or (1, features) with features={n_columns}, got {given}."
        )
    if hasattr(x, "columns") or hasattr(x, "column_names"):
        return np.ascontiguousarray(estimator._known_x(x)[0])
    # scikit-learn's warning about missing column names is left out: a single row is commonly given as a list.
    values = np.reshape(np.asarray(x, dtype=object), shape)
    row = estimator.columns_.encoded(raw_table(values, estimator.columns_.names))
    check_finite_table(name, row, missing=estimator.missing == "auto")
    return row[0]


def calibration_of(estimator: FLSEstimator) -> Calibration | None:
    """The calibration of an estimator; None without one, and for intervals that were trained for a coverage alone."""
    calibration: Calibration | None = getattr(estimator, "calibration_", None)
    return None if calibration is None or calibration.method == "none" else calibration


def calibrated_rows(estimator: FLSEstimator, x: Array) -> Array:
    """Calibrated intervals (rows, 2, outputs) of a regressor, or sets of classes (rows, classes), boolean."""
    model = estimator._calibrated
    return model.class_set(x) if estimator._classifies else np.stack(model.interval(x), axis=1)


def gain_and_reach(calibration: Calibration, model: AnyModel) -> tuple[Array, Array]:
    """Of ends y - gain (y - y_left) - reach and y + gain (y_right - y) + reach, each (outputs,), without groups of rows."""
    radius = np.zeros(model.n_outputs)
    if calibration.method != "none":
        anywhere = np.zeros((1, model.n_features))
        radius = np.broadcast_to(calibration.quantile(calibration.coverage, anywhere)[0], radius.shape)
    if calibration.floor is None:
        return np.ones(model.n_outputs), radius
    return radius, radius * calibration.floor


def reference_row(estimator: FLSEstimator, plain: AnyModel, given: Any = None) -> Array:
    """The row (features,) from which pushes are measured.

    It is the one given, else the mean of the training data if the scaling has it, else the middle of their range, else the
    mean of the centers.
    """
    if given is not None:
        return one_row(estimator, "reference", given)
    if estimator.scaling == "standard":
        mean, spread = estimator.x_scaling_.shift, estimator.x_scaling_.scale
        return np.where(np.abs(mean) < 1e-12 * spread, 0.0, mean)  # centred columns have means of rounding errors
    if plain.input_range is not None:
        return np.asarray(plain.input_range.mean(axis=0))
    return np.asarray(plain.centers.mean(axis=0))


def rows_given(estimator: FLSEstimator, X: Any, y: Any) -> Array | None:
    """Inputs (rows, features) of the rows X, which must be given where true values y are; None without."""
    if X is None and y is not None:
        raise ValueError("X must be given with y, got y alone.")
    return None if X is None else estimator._known_x(X)


def true_values(plain: AnyModel, x: Array, y: Any) -> Array:
    """True values for rows x: classes (rows,) of a classifier, finite numbers (rows, outputs) of a regressor."""
    if y is None:
        raise ValueError("y must be given: the true values of the rows of X.")
    if plain.classes is not None:
        labels = class_labels(y)
        check_same_length(x, labels)
        if isinstance(labels[0], str) != isinstance(plain.classes[0], str):
            raise ValueError(f"y must hold classes such as {plain.classes[0]!s}, got {labels[0]!s}.")
        return labels
    values = check_number_targets(y)
    check_same_length(x, values)
    check_finite_table("y", values)
    if values.size != len(x) * plain.n_outputs:
        raise ValueError(f"y must have {counted(plain.n_outputs, 'column')} for this model, got shape {values.shape}.")
    return values.reshape(len(x), plain.n_outputs)


def index_of(name: int | str, names: Sequence[str], argument: str) -> int:
    """The index of an input or output that is given by index or name."""
    if isinstance(name, str):
        return list(names).index(check_option(argument, name, tuple(names)))
    return check_count(argument, name, 0, len(names) - 1)


def most_important(estimator: FLSEstimator, count: int) -> list[int]:
    """The ``count`` most important inputs in order; the first ones of a model that has no record of their importance."""
    importances = getattr(estimator, "feature_importances_", None)
    if importances is None:
        return list(range(min(count, estimator.n_features_in_)))
    # The inputs of a category have the importance of their column.
    of_inputs = np.repeat(importances, [column.width for column in estimator.columns_.columns])
    return np.argsort(-of_inputs, kind="stable")[:count].tolist()
