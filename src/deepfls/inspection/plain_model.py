"""A trained model as NumPy arrays: the mean of one or several systems, each with rules of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from deepfls.inspection.plain import Array, PlainOutput, PlainSystem

if TYPE_CHECKING:
    from deepfls.data.columns import Columns
    from deepfls.estimators.base import FLSEstimator

# Rows that are evaluated at a time.
_CHUNK = 16_384


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

    @property
    def feature_names(self) -> tuple[str, ...]:
        return self.systems[0].feature_names

    @property
    def output_names(self) -> tuple[str, ...]:
        return self.systems[0].output_names

    @property
    def classes(self) -> Array | None:
        return self.systems[0].classes

    @property
    def columns(self) -> Columns | None:
        return self.systems[0].columns

    @property
    def missing(self) -> bool:
        return self.systems[0].missing

    @property
    def bounds(self) -> Array | None:
        return self.systems[0].bounds

    @property
    def input_range(self) -> Array | None:
        return self.systems[0].input_range

    @property
    def n_features(self) -> int:
        return self.systems[0].n_features

    @property
    def n_outputs(self) -> int:
        return self.systems[0].n_outputs

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
    return PlainOutput(*(_mean(shares, end) for end in zip(*outputs, strict=True)))


def _mean(shares: tuple[float, ...], values: Any) -> Array:
    return np.asarray(sum(share * value for share, value in zip(shares, values, strict=True)))


def outputs_of(model: AnyModel, x: Array) -> Array:
    """Crisp outputs (rows, outputs), a chunk of rows at a time."""
    return np.concatenate([model.output(x[start : start + _CHUNK]).y for start in range(0, len(x), _CHUNK)])
