"""Linear models of scaled rows."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge

from deepfls.training.line import class_lines, regression_lines

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(60, 3))
Y = X @ np.array([[1.0, 0.0], [-2.0, 0.5], [0.0, 0.3]]) + 0.5 + 0.1 * RANDOM.normal(size=(60, 2))
WEIGHT = RANDOM.uniform(0.5, 1.5, size=60)


def test_ridge_lines_begin_with_least_squares_and_grow_flatter() -> None:
    lines = regression_lines(X, Y, None, constant=False)
    np.testing.assert_allclose(lines[0](X), LinearRegression().fit(X, Y).predict(X), atol=1e-5)
    norms = [np.square(line.slopes).sum() for line in lines]
    assert norms == sorted(norms, reverse=True)


def test_ridge_line_equals_that_of_scikit_learn_with_weights() -> None:
    line = regression_lines(X, Y, WEIGHT, constant=False)[3]
    other = Ridge(alpha=0.1 * WEIGHT.sum()).fit(X, Y, sample_weight=WEIGHT)
    np.testing.assert_allclose(line(X), other.predict(X), rtol=1e-8)


def test_constant_line_is_the_mean() -> None:
    (line,) = regression_lines(X, Y, WEIGHT, constant=True)
    np.testing.assert_allclose(line(X[:2]), [np.average(Y, axis=0, weights=WEIGHT)] * 2)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_class_line_gives_the_probabilities_of_logistic_regression(n_classes: int) -> None:
    labels = np.argmax(X[:, :n_classes] + 0.3 * RANDOM.normal(size=(60, n_classes)), axis=1)
    odds = np.exp(class_lines(X, labels, None, n_classes, constant=False)[0](X))
    expected = LogisticRegression().fit(X, labels).predict_proba(X)
    np.testing.assert_allclose(odds / odds.sum(axis=1, keepdims=True), expected, atol=1e-3)


def test_class_without_rows_is_the_least_probable() -> None:
    labels = np.where(X[:, 0] > 0, 2, 0)
    assert (class_lines(X, labels, None, 3, constant=False)[0](X).argmin(axis=1) == 1).mean() > 0.9


def test_constant_logits_are_the_shares_of_the_classes() -> None:
    (line,) = class_lines(X, np.repeat([0, 1], [45, 15]), None, 2, constant=True)
    assert np.exp(line.intercepts) == pytest.approx([45.5 / 61, 15.5 / 61])
