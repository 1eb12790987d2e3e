"""What the data say about sets: the limits of their centers and widths, and the conditions that rules need."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from deepfls.estimators.vocabulary import rule_numbers
from deepfls.training.start import SPACING_ROWS, width_limits
from deepfls.training.terms import SAMPLE_ROWS, ConditionRevision

if TYPE_CHECKING:
    from deepfls._checks.samples import Array
    from deepfls.data.arrays import Samples, TrainingData
    from deepfls.estimators.settings import Settings
    from deepfls.estimators.structure import Structure
    from deepfls.nn.systems import IT2FLS, T1FLS
    from deepfls.training.batches import Rows


def desired_outputs(rows: Rows, data: TrainingData) -> torch.Tensor:
    """The targets; for classes logits of +2 for the class and -2 / (classes - 1) for the others."""
    if data.classes is None:
        return rows.target
    n = len(data.classes)
    logits = 2.0 * (np.eye(n) * n - 1.0) / max(n - 1, 1)
    return torch.from_numpy(logits).to(rows.x)[rows.target[:, 0].long()]


def measured_sample(data: TrainingData) -> Samples:
    """Training rows, evenly spaced, on which conditions are revised."""
    return data.measured.take(slice(0, None, -(-data.measured.n_rows // SAMPLE_ROWS)))


def condition_revision(
    system: T1FLS | IT2FLS, settings: Settings, structure: Structure, data: TrainingData, rows: Rows
) -> ConditionRevision:
    """What revises the conditions of the rules of a system with terms while it trains; rows are in scaled units."""
    fixed = np.zeros(structure.n_rules, dtype=bool)
    fixed[rule_numbers(settings.frozen_rules, structure.n_rules)] = True
    return ConditionRevision(
        system,
        rows.x,
        desired_outputs(rows, data),
        n_terms=structure.terms_per_input,
        max_conditions=structure.max_conditions,
        frozen=fixed,
    )


def joined_range(first: Array, second: Array) -> Array:
    """The range that holds both, (2, features)."""
    return np.stack([np.minimum(first[0], second[0]), np.maximum(first[1], second[1])])


def set_range(system: T1FLS | IT2FLS, structure: Structure, data: TrainingData, earlier: T1FLS | IT2FLS | None) -> None:
    """Hold the sets of a system within the range of the training data, in scaled units, if its structure asks for it."""
    if structure.n_terms is not None or structure.centers_within != "data":
        return  # terms have limits of their own
    centers = data.x_scaling.apply(data.input_range)
    some = data.measured.x[:: -(-data.measured.n_rows // SPACING_ROWS)]
    widths = width_limits(data.x_scaling.apply(some), centers)
    before = None if earlier is None else earlier.antecedents.width_limits
    if before is not None:
        # An earlier fit may have had wider limits, and an imported system sets of any width.
        limits = before.cpu().numpy()
        widths = joined_range(widths, np.stack([limits[0].min(axis=0), limits[1].max(axis=0)]))
    system.antecedents.set_range(*centers, *widths)
