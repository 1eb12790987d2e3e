"""feature_importances_: what it measures, and that selections of scikit-learn take it."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.feature_selection import RFE, SelectFromModel

from deepfls import FLSClassifier, FLSRegressor, load
from deepfls.data.scaling import Scaling
from deepfls.estimators.prediction import ScaledSystem, feature_importances
from deepfls.nn import T1FLS

RNG = np.random.default_rng(0)
X = RNG.normal([50.0, -2.0, 0.0, 7.0], [10.0, 1.0, 0.1, 3.0], (200, 4))
Y = X[:, 3] + 2 * X[:, 1]
FAST = {"n_rules": 3, "epochs": 4, "random_state": 0}


def test_importances_of_a_linear_system_are_the_mean_absolute_terms() -> None:
    system = T1FLS(3, n_rules=1).double()
    system.slopes = [[[2.0, 0.0, -1.0]]]
    rows = RNG.normal(size=(60, 3))
    model = ScaledSystem(system, Scaling(np.zeros(3), np.ones(3)), Scaling(np.zeros(1), np.ones(1)))
    terms = np.abs(np.array([2.0, 0.0, -1.0]) * (rows - rows.mean(axis=0))).mean(axis=0)
    np.testing.assert_allclose(feature_importances(model, rows, classifies=False), terms / terms.sum(), atol=1e-12)


def test_importances_are_equal_for_a_system_without_effect() -> None:
    system = T1FLS(4, n_rules=2, order=0).double()
    system.intercepts = 1.0
    model = ScaledSystem(system, Scaling(np.zeros(4), np.ones(4)), Scaling(np.zeros(1), np.ones(1)))
    assert feature_importances(model, X[:5], classifies=False).tolist() == [0.25] * 4


@pytest.mark.parametrize("classifies", [False, True])
def test_importances_name_the_inputs_that_matter_and_travel_with_the_model(tmp_path, classifies: bool) -> None:
    model = FLSClassifier(**FAST).fit(X, X[:, 3] > 7) if classifies else FLSRegressor(**FAST).fit(X, Y)
    found = model.feature_importances_
    assert found.shape == (4,)
    assert found.sum() == pytest.approx(1.0)
    assert found.argmax() == 3
    model.save(tmp_path / "model.fls")
    assert (load(tmp_path / "model.fls").feature_importances_ == found).all()


def test_importances_of_many_inputs_need_few_rows() -> None:
    x = RNG.normal(size=(500, 100))
    model = FLSRegressor(n_rules=2, epochs=1, random_state=0).fit(x, x[:, 7])
    assert model.feature_importances_.argmax() == 7


def test_selections_of_scikit_learn_take_them() -> None:
    assert RFE(FLSRegressor(**FAST), n_features_to_select=2).fit(X, Y).support_.tolist() == [False, True, False, True]
    assert SelectFromModel(FLSRegressor(**FAST), threshold=0.1).fit(X, Y).get_support().tolist() == [
        False,
        True,
        False,
        True,
    ]
