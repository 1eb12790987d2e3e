"""Rows, true values and names of inputs are accepted in every usual form; anything else is refused with a reason."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas as pd
import pytest

from deepfls import FLSRegressor
from deepfls.inspection import ResponseCurveDisplay, rules_of
from inspection_cases import LABELS, X, Y, classifier, regressor


def test_one_row_is_taken_in_every_shape() -> None:
    frame = pd.DataFrame(X, columns=["a", "b", "c", "d"])
    model = FLSRegressor(n_rules=3, epochs=2, random_state=0).fit(frame, Y[:, 0])
    wanted = model.explain(frame.iloc[[2]]).y
    for row in (frame.iloc[2], X[2], X[2:3], X[2].tolist()):
        np.testing.assert_array_equal(model.explain(row).y, wanted)


def test_several_rows_are_refused_where_one_is_needed() -> None:
    message = r"at must be one row of shape .* with features=4, got \(2, 4\)\."
    with pytest.raises(ValueError, match=message):
        ResponseCurveDisplay.from_estimator(regressor("km"), 0, at=X[:2])


def test_unknown_input_is_explained() -> None:
    assert np.isfinite(regressor("km").explain([1.0, np.nan, 2.0, 3.0]).y).all()


def test_row_to_hold_must_fit() -> None:
    with pytest.raises(ValueError, match=r"at must be one row of shape .* with features=4, got \(2,\)\."):
        ResponseCurveDisplay.from_estimator(regressor("km"), 0, at=[1.0, 2.0])


def test_unknown_input_is_refused() -> None:
    with pytest.raises(ValueError, match=r"features must be one of 'x0', 'x1', 'x2', 'x3', got 'x9'\."):
        regressor("km").plot_memberships(features=["x9"])
    with pytest.raises(ValueError, match=r"features must be between 0 and 3, got 4\."):
        regressor("km").plot_memberships(features=[4])


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (Y[:3], "X and y must have the same number of rows, got 150 and 3."),
        (Y[:, 0], "y must have 2 columns for this model, got shape (150,)."),
        (np.where(np.arange(300).reshape(150, 2) == 8, np.inf, 1.0), "y must be finite, got inf in row 4, column 0"),
        (np.full((150, 2), "a"), "y must hold numbers, got text"),
    ],
)
def test_true_values_of_a_regressor_are_checked(y: Any, message: str) -> None:
    model = regressor("km")
    for call in (model.explain_data, model.simplify, lambda x, y: rules_of(model, x, y, drop=True)):
        with pytest.raises(ValueError, match=re.escape(message)):
            call(X, y)


def test_rules_of_rows_far_away_are_given_where_numpy_raises() -> None:
    with np.errstate(all="raise"):
        assert rules_of(regressor("km"), 1e5 * X).render("text")


def test_true_classes_may_be_a_list() -> None:
    model = classifier()
    assert model.explain_data(X, LABELS.tolist()).to_dict() == model.explain_data(X, LABELS).to_dict()
    with pytest.raises(ValueError, match=r"X and y must have the same number of rows, got 150 and 2\."):
        model.explain_data(X, ["warm", "cold"])


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([None] * len(X), "y must have a class in every row, got none in row 0"),
        (X[:, 0], "y must hold classes, got numbers with fractions"),
        (np.arange(len(X)), "y must hold classes such as"),
    ],
    ids=["missing", "fractions", "numbers"],
)
def test_true_values_of_a_classifier_are_checked(y: Any, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}"):
        rules_of(classifier(), X, y, drop=True)
