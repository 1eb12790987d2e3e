"""Tables of little use, and single values that would ruin a fit."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from deepfls import FLSClassifier, FLSRegressor, load
from deepfls.data import frames
from deepfls.inspection.plain import PlainSystem

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(300, 3))
Y = X[:, 0] + 0.5 * X[:, 1] + 0.01 * RANDOM.normal(size=300)
QUICK = {"n_rules": 3, "epochs": 5, "random_state": 0}


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (X[:1], Y[:1], "The table has 1 row: the model gives its target for every input."),
        (X, np.full(300, 2.5), "The target is 2.5 in every row: the model gives it for every input."),
        (
            X,
            (Y > 0).astype(int),
            "The target is 0 or 1 in every row: FLSClassifier (--task classification) learns classes.",
        ),
        (X[:2], Y[:2], "n_rules=3 is more than the 2 rows to learn from: the model has 2 rules."),
    ],
    ids=["one row", "constant", "classes", "rules"],
)
def test_table_of_little_use_is_told(x: np.ndarray, y: np.ndarray, message: str) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = FLSRegressor(**QUICK).fit(x, y)
    assert (message, __file__) in [(str(warning.message), warning.filename) for warning in caught]
    assert np.isfinite(model.predict(x)).all()
    assert model.system_.n_rules <= max(len(x), 1)


@pytest.mark.parametrize("place", ["x", "y"])
def test_wild_value_does_not_ruin_a_fit(place: str, tmp_path: object) -> None:
    x, y = X[:200].copy(), Y[:200].copy()
    if place == "x":
        x[7, 1] = 1e6
    else:
        y[7] = 1e6
    with pytest.warns(UserWarning, match=r"^1 value of '(x1|y)' is far beyond all others and left out of training \(1 row"):
        model = FLSRegressor(**QUICK).fit(x, y)
    assert model.score(X[200:], Y[200:]) > 0.98
    model.save(f"{tmp_path}/m.fls")
    wild = np.array([[0.0, 1e6, 0.0], [0.0, -1e6, np.nan]])
    assert np.isfinite(model.predict(wild)).all()
    np.testing.assert_array_equal(load(f"{tmp_path}/m.fls").predict(wild), model.predict(wild))
    np.testing.assert_allclose(PlainSystem.of(model).output(wild).y[:, 0], model.predict(wild), rtol=1e-9)
    if place == "x":
        np.testing.assert_array_equal(model.predict(wild[:1]), model.predict([[0.0, np.delete(x[:, 1], 7).max(), 0.0]]))
    kept = FLSRegressor(**QUICK, outliers="keep").fit(x, y)
    assert kept.x_scaling_.low is None


def test_long_tails_are_not_wild() -> None:
    x = np.exp(2.0 * X)
    assert FLSRegressor(**QUICK).fit(x, Y).x_scaling_.low is None


def test_sparse_tables_are_learned_from() -> None:
    table = np.where(np.abs(X) > 1, X, 0.0)
    model = FLSRegressor(**QUICK).fit(sparse.csr_matrix(table), Y)
    np.testing.assert_array_equal(model.predict(sparse.csc_matrix(table)), model.predict(table))
    frame = pd.DataFrame(table, columns=["a", "b", "c"])
    model = FLSRegressor(**QUICK).fit(frame.astype({"a": pd.SparseDtype(float, 0.0), "b": pd.SparseDtype(float, 0.0)}), Y)
    np.testing.assert_array_equal(model.predict(frame.astype(pd.SparseDtype(float, 0.0))), model.predict(frame))


def test_sparse_or_masked_row_is_explained_as_the_row_it_means() -> None:
    table = np.where(np.abs(X) > 1, X, 0.0)
    model = FLSRegressor(**QUICK).fit(table, Y)
    for form in (sparse.csr_matrix, sparse.csr_array):
        np.testing.assert_array_equal(model.explain(form(table)[:1]).pushes.y, model.explain(table[0]).pushes.y)
    masked = np.ma.MaskedArray(table[0], [False, True, False])
    for row in (masked, masked[np.newaxis]):
        np.testing.assert_array_equal(model.explain(row).pushes.y, model.explain([table[0, 0], None, table[0, 2]]).pushes.y)


def test_sparse_frames_too_large_to_be_made_dense_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "MAX_DENSE", 899)
    message = r"^X must have at most 899 values in sparse form, which are made dense, got 900; choose fewer columns"
    with pytest.raises(ValueError, match=message):
        FLSRegressor(**QUICK).fit(pd.DataFrame(X).astype(pd.SparseDtype(float, 0.0)), Y)


def test_eval_set_is_measured_and_changes_nothing() -> None:
    plain = FLSRegressor(**QUICK).fit(X[:200], Y[:200])
    model = FLSRegressor(**QUICK).fit(X[:200], Y[:200], eval_set=(X[200:], Y[200:]))
    np.testing.assert_array_equal(model.predict(X), plain.predict(X))
    curve = [row["validation_loss"] for row in model.history_]
    error = np.mean(np.square(model.predict(X[200:]) - Y[200:])) / model.y_scaling_.scale[0] ** 2
    assert curve[-1] == pytest.approx(error, rel=1e-3)
    with pytest.raises(ValueError, match=r"^eval_set must be \(X, y\), or a list of one such pair\.$"):
        FLSRegressor(**QUICK).fit(X, Y, eval_set=X)
    stopped = FLSRegressor(**{**QUICK, "epochs": 50}, patience=1).fit(X[:200], Y[:200], eval_set=(X[200:], Y[200:]))
    assert len(stopped.history_) <= 50


def test_categories_are_grades_in_rules_and_in_importances() -> None:
    colour = np.resize(["red", "blue", "green"], 300)
    frame = pd.DataFrame({"size": X[:, 0], "colour": colour, "kind": np.resize(["a", "b"], 300)})
    model = FLSRegressor(**QUICK).fit(frame, Y + 5.0 * (colour == "red"))
    assert len(model.feature_importances_) == model.n_features_in_ == 3
    assert model.system_.n_features == 5
    rules = model.rules_as_text()
    assert "colour is " in rules
    assert "colour=red is" not in rules
    assert "(1.0)" in rules
    assert "0 to" not in rules
    row = model.explain(frame.iloc[0])
    assert row is not None
    assert FLSClassifier(**QUICK).fit(frame, colour).score(frame, colour) > 0.9


def test_warnings_name_the_line_of_the_user() -> None:
    table = pd.DataFrame({"a": X[:60, 0], "b": 1.0, "town": np.where(X[:60, 1] > 0, "Ulm", "Bonn")})
    table.loc[7, "a"] = 1e6
    labels = np.where(Y[:60] > 0, "up", np.where(Y[:60] < -0.5, "Up", "down"))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = FLSClassifier(**{**QUICK, "n_rules": 80}).fit(table, labels)
        model.predict(table.assign(town="Kiel"))
    told = [str(warning.message) for warning in caught]
    parts = ["'b' has the same", "differ in case", "far beyond", "n_rules=80 is more than", "'Kiel'"]
    assert [sum(part in text for text in told) for part in parts] == [1] * 5, told
    assert {warning.filename for warning in caught} == {__file__}
