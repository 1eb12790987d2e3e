"""Rows unlike the training data: familiarity, and what predictions do beyond the range of the inputs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from deepfls import FLSClassifier, FLSRegressor, load
from deepfls.inspection.plain import PlainSystem
from deepfls.inspection.plain_model import outputs_of

RANDOM = np.random.default_rng(0)
X = RANDOM.uniform(-1, 1, size=(80, 2))
Y = X[:, 0] + X[:, 1] ** 2
FAR = np.array([[5.0, 0.0], [0.0, -9.0], [4.0, 4.0]])


@pytest.fixture(scope="module")
def clipped() -> FLSRegressor:
    return FLSRegressor(n_rules=3, epochs=5, extrapolation="clip", random_state=0).fit(X, Y)


def test_clip_holds_inputs_within_the_training_data(clipped: FLSRegressor) -> None:
    linear = FLSRegressor(n_rules=3, epochs=5, random_state=0).fit(X, Y)
    nearest = np.clip(FAR, X.min(axis=0), X.max(axis=0))
    np.testing.assert_allclose(clipped.predict(FAR), linear.predict(nearest), rtol=1e-12)
    np.testing.assert_array_equal(clipped.predict(X), linear.predict(X))
    assert abs(linear.predict(FAR) - linear.predict(nearest)).max() > 0.5


def test_classes_are_clipped_by_default() -> None:
    model = FLSClassifier(n_rules=3, epochs=5, random_state=0).fit(X, Y > 0.3)
    nearest = np.clip(FAR, X.min(axis=0), X.max(axis=0))
    np.testing.assert_array_equal(model.predict_proba(FAR), model.predict_proba(nearest))


def test_clip_travels_with_the_model(clipped: FLSRegressor, tmp_path: Path) -> None:
    clipped.save(tmp_path / "model.fls")
    np.testing.assert_array_equal(load(tmp_path / "model.fls").predict(FAR), clipped.predict(FAR))
    np.testing.assert_allclose(outputs_of(PlainSystem.of(clipped), FAR)[:, 0], clipped.predict(FAR), rtol=1e-9)
    found = clipped.explain(FAR[0])
    assert found.contributions.y.sum() == pytest.approx(clipped.predict(FAR[:1])[0])


def test_familiarity_is_low_for_rows_unlike_the_training_data(clipped: FLSRegressor) -> None:
    inside, outside = clipped.familiarity(X), clipped.familiarity(10 * FAR)
    assert inside.shape == (80,)
    assert np.median(inside) > 0.9
    assert outside.max() < 0.01
    assert ((inside >= 0) & (inside <= 1)).all()


def test_score_samples_is_the_logarithm_of_familiarity(clipped: FLSRegressor) -> None:
    rows = np.concatenate([X, 10 * FAR, 1e6 * FAR])
    scores = clipped.score_samples(rows)
    assert np.isfinite(scores).all()
    np.testing.assert_allclose(np.exp(scores), clipped.familiarity(rows), atol=1e-300)


def test_familiarity_falls_with_the_distance(clipped: FLSRegressor) -> None:
    found = clipped.familiarity(np.outer(np.linspace(1, 20, 30), [1.0, 1.0]))
    assert (np.diff(found) <= 0).all()


def test_extrapolation_must_be_known() -> None:
    with pytest.raises(ValueError, match=r"^extrapolation must be one of 'linear', 'clip', got 'flat'\.$"):
        FLSRegressor(extrapolation="flat").fit(X, Y)
