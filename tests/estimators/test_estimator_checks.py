"""scikit-learn's own checks of its estimator contract, all of them, with no expected failures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from deepfls import FLSClassifier, FLSRegressor

# Fewer epochs than the defaults, which the checks do not need: they take minutes otherwise.
EPOCHS = 25


# The checks fit tables of one row, one class and constant columns, which are told in warnings.
@pytest.mark.filterwarnings("ignore::UserWarning")
@parametrize_with_checks(
    [FLSRegressor(epochs=EPOCHS), FLSClassifier(epochs=EPOCHS), FLSRegressor(kind="t1", epochs=EPOCHS)]
)
def test_estimator_follows_scikit_learn(estimator: Any, check: Callable[[Any], None]) -> None:
    check(estimator)
