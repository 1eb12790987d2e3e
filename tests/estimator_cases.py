"""A small table and two small estimators that the tests of estimators share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from deepfls import FLSClassifier, FLSRegressor

RANDOM = np.random.RandomState(0)
X = RANDOM.normal(size=(48, 3))
Y = np.sin(2.0 * X[:, 0]) + X[:, 1] * X[:, 2] + 5.0
LABELS = np.where(Y > 5.5, "high", np.where(Y > 4.5, "middle", "low"))
NAMES = ["heat", "flow", "load"]


def regressor(**options: Any) -> FLSRegressor:
    return FLSRegressor(**{"n_rules": 4, "epochs": 3, "random_state": 0, **options})


def classifier(**options: Any) -> FLSClassifier:
    return FLSClassifier(**{"n_rules": 4, "epochs": 3, "random_state": 0, **options})


ESTIMATORS: dict[str, tuple[Callable[..., Any], np.ndarray]] = {
    "regressor": (regressor, Y),
    "classifier": (classifier, LABELS),
}
both = pytest.mark.parametrize(("make", "y"), list(ESTIMATORS.values()), ids=list(ESTIMATORS))
