"""The calibrated interval of an estimator, in a form that C can hold.

Every calibration without groups is an affine function of the crisp output y and the ends l, r of the type-reduced set,

    y - gain (y - l) - reach s,    y + gain (r - y) + reach s,

limited so that it contains y. "cqr" has gain 1 and its offset as reach; with normalised scores gain and reach are
proportional to the radius. "split" has gain 0, and s is 1 or the local scale, whose logarithm is an output of a Type-1
system with the same sets.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np

from deepfls._checks.values import Array
from deepfls.estimators.calibration import Calibration
from deepfls.export.targets import refuse_form, with_finite_widths
from deepfls.inspection.plain import PlainSystem
from deepfls.inspection.plain_model import PlainModel
from deepfls.nn.general import GT2FLS

_REMEDY = "train with {}, or export with margin=None, where the interval is the type-reduced set"


@dataclass(frozen=True)
class CalibratedInterval:
    """Gains and reaches (outputs,) of an interval of ``coverage``.

    ``system`` computes y, l and r if the system of the predictions does not. If ``scaled``, its outputs are followed by as
    many logarithms of the local scale. If ``refitted``, the interval must also contain the prediction of the other system.
    """

    coverage: float
    method: str
    n_rows: int
    gain: Array
    reach: Array
    system: PlainModel | None
    scaled: bool
    refitted: bool

    @classmethod
    def of(cls, estimator: Any) -> CalibratedInterval | None:
        """The interval of a fitted estimator; None if it has none, an error if C has no form for it."""
        calibration: Calibration | None = getattr(estimator, "calibration_", None)
        if calibration is None or getattr(estimator, "classes_", None) is not None:
            return None
        if calibration.group_columns:
            refuse_form("A C header", "its intervals are calibrated by groups", _REMEDY.format("group_calibration=None"))
        if isinstance(estimator.system_, GT2FLS):
            refuse_form("A C header", "its intervals are planes", _REMEDY.format("kind='it2'") + " of the widest plane")
        refitted = getattr(estimator, "interval_model_", None) is not None
        source = estimator.interval_model_ if refitted else estimator
        system = with_finite_widths(PlainModel.of(source))
        n_outputs = system.n_outputs
        radius = np.zeros(n_outputs)
        if calibration.method != "none":
            radius = calibration.quantile(calibration.coverage, np.zeros((1, system.n_features)))[0]
        gain, reach = np.ones(n_outputs), radius
        scaled = False
        if calibration.method == "split":
            gain, reach = np.zeros(n_outputs), radius * np.asarray(source.y_scaling_.scale)
            if calibration.scale is not None:
                system, scaled = _with_log_scale(system, source, calibration.scale), True
        elif calibration.normalized:
            assert calibration.floor is not None
            gain, reach = radius, radius * calibration.floor
        return cls(
            coverage=calibration.coverage,
            method=calibration.method,
            n_rows=calibration.n_rows,
            gain=gain,
            reach=np.broadcast_to(reach, (n_outputs,)).astype(np.float64),
            system=system if refitted or scaled else None,
            scaled=scaled,
            refitted=refitted,
        )

    def margin(self) -> Array:
        """The margin (outputs,) of an interval that is only a margin around the type-reduced set; else an error."""
        if self.system is not None or self.scaled or not (np.isin(self.gain, (0.0, 1.0)).all() and (self.reach >= 0).all()):
            refuse_form(
                "A C header in fixed point",
                "its calibrated interval is more than a margin around what the system gives",
                _REMEDY.format("refit=False and normalized_scores=False"),
            )
        return self.reach

    @property
    def text(self) -> str:
        """What the interval is, for comments of a header."""
        if self.method == "none":
            return f"type-reduced set as trained for a coverage of {self.coverage:g}, not calibrated"
        return f"interval of coverage {self.coverage:g}, calibrated ({self.method}) on {self.n_rows:,} held-out rows"


def _with_log_scale(model: PlainModel, estimator: Any, coefficients: Array) -> PlainModel:
    """The Type-1 model with the logarithms of the local scale as further outputs; see ``intervals._local_scale``.

    The local scale is a system with the sets of the first one, so that its outputs in the others are 0.
    """
    if model.kind != "t1":
        refuse_form(
            "A C header",
            "the local scale of its intervals is another fuzzy system over both firings",
            _REMEDY.format("calibration='cqr' or normalized_scores=False"),
        )
    system = model.systems[0]
    n_rules, n_features = system.n_rules, system.n_features
    intercepts = coefficients[:n_rules] + coefficients[-1]
    slopes = np.zeros((n_rules, n_features, coefficients.shape[1]))
    if len(coefficients) > n_rules + 1:
        slopes = coefficients[n_rules:-1].reshape(n_rules, n_features, -1)
    # From scaled inputs to the units of the data.
    slopes = np.moveaxis(slopes, 1, 2) / estimator.x_scaling_.scale
    intercepts = intercepts - slopes @ estimator.x_scaling_.shift
    intercepts, slopes = intercepts / model.shares[0], slopes / model.shares[0]
    first = _with_outputs(system, intercepts, slopes)
    n_outputs = len(system.output_names)
    shapes = ((other, (other.n_rules, n_outputs)) for other in model.systems[1:])
    zeros = (_with_outputs(other, np.zeros(shape), np.zeros((*shape, n_features))) for other, shape in shapes)
    return dataclasses.replace(model, systems=(first, *zeros))


def _with_outputs(system: PlainSystem, intercepts: Array, slopes: Array) -> PlainSystem:
    return dataclasses.replace(
        system,
        order=int(bool(system.order or slopes.any())),
        output_names=(*system.output_names, *(f"log scale of {name}" for name in system.output_names)),
        intercepts=np.concatenate([system.intercepts, intercepts], axis=1),
        slopes=np.concatenate([system.slopes, slopes], axis=1),
    )
