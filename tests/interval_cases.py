"""A table whose noise has a shape, and small estimators for it, that the tests of intervals share."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from deepfls import FLSClassifier, FLSRegressor

RANDOM = np.random.default_rng(0)
X = RANDOM.uniform(-2, 2, size=(900, 2))
# Noise that grows with the first input, so that widths have something to follow.
NOISE = 0.05 + 0.3 * np.abs(X[:, 0])
Y = np.sin(2 * X[:, 0]) + X[:, 1] + NOISE * RANDOM.normal(size=900)
TRAIN, TEST = slice(500), slice(500, 900)
LABELS = np.where(Y > 1.0, "high", np.where(Y > -0.5, "middle", "low"))
CALIBRATED: dict[str, dict[str, Any]] = {
    "cqr": {},
    "cqr, same for all": {"normalized_scores": False},
    "split": {"calibration": "split"},
    "split, same for all": {"calibration": "split", "normalized_scores": False},
    "split of T1": {"kind": "t1", "calibration": "split"},
}
every_calibration = pytest.mark.parametrize("options", list(CALIBRATED.values()), ids=list(CALIBRATED))


def regressor(**options: Any) -> FLSRegressor:
    return FLSRegressor(**{"n_rules": 4, "epochs": 20, "random_state": 0, "coverage": 0.9, "refit": False, **options})


def classifier(**options: Any) -> FLSClassifier:
    return FLSClassifier(**{"n_rules": 3, "epochs": 15, "random_state": 0, "coverage": 0.9, "refit": False, **options})
