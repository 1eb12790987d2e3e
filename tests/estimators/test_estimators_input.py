"""Tables and arrays of all kinds at the door of the estimators, and what they leave alone."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch

from deepfls.functional.losses import l2
from deepfls.training.start import initialize_system
from estimator_cases import LABELS, NAMES, X, Y, both, classifier, regressor

# Tables with names

FRAMES: dict[str, Callable[[np.ndarray, list[str]], Any]] = {
    "pandas": lambda rows, names: pd.DataFrame(rows, columns=names),
    "polars": lambda rows, names: pl.DataFrame(rows, schema=names),
    "pyarrow": lambda rows, names: pa.table({name: rows[:, i] for i, name in enumerate(names)}),
}
every_frame = pytest.mark.parametrize("frame", list(FRAMES.values()), ids=list(FRAMES))
Frame = Callable[[np.ndarray, list[str]], Any]


@every_frame
def test_frame_gives_the_model_of_its_array_and_keeps_the_names(frame: Frame) -> None:
    model = regressor().fit(frame(X, NAMES), Y)
    assert list(model.feature_names_in_) == NAMES
    np.testing.assert_array_equal(model.predict(frame(X, NAMES)), regressor().fit(X, Y).predict(X))


@every_frame
@pytest.mark.parametrize(
    ("names", "reason"),
    [
        (["flow", "heat", "load"], "Feature names must be in the same order as they were in fit.\n"),
        (["heat", "flow"], "Feature names seen at fit time, yet now missing:\n- load\n"),
        (["heat", "flow", "load", "rain"], "Feature names unseen at fit time:\n- rain\n"),
    ],
    ids=["order", "missing", "extra"],
)
def test_frame_of_other_columns_is_refused(frame: Frame, names: list[str], reason: str) -> None:
    model = regressor().fit(frame(X, NAMES), Y)
    with pytest.raises(ValueError, match=r"^The feature names should match") as caught:
        model.predict(frame(np.resize(X, (4, len(names))), names))
    assert str(caught.value) == f"The feature names should match those that were passed during fit.\n{reason}"


@every_frame
def test_text_in_a_frame_is_refused_with_its_columns(frame: Frame) -> None:
    table = frame(np.column_stack([X[:, 0].astype(str), np.full(48, "red"), LABELS]), NAMES)
    with pytest.raises(
        ValueError, match=r"^X must hold numbers only, got text \(columns 'flow', 'load'\); encode or drop it\.$"
    ):
        regressor().fit(table, Y)


def test_dates_in_a_frame_are_refused_with_their_columns() -> None:
    table = pd.DataFrame(X, columns=NAMES).assign(flow=pd.date_range("2024-01-01", periods=48))
    message = r"^X must hold numbers only, got something else \(columns 'flow'\); encode or drop it\.$"
    with pytest.raises(ValueError, match=message):
        regressor().fit(table, Y)


@every_frame
def test_missing_value_in_a_frame_is_refused_with_its_place(frame: Frame) -> None:
    rows = X.copy()
    rows[5, 1] = np.nan
    with pytest.raises(
        ValueError, match=r"^X must be finite, got NaN in row 5, column 'flow' \(1 such value\(s\) in all\)\.$"
    ):
        regressor().fit(frame(rows, NAMES), Y)


@every_frame
def test_frame_of_targets_gives_two_dimensions(frame: Frame) -> None:
    assert regressor().fit(X, frame(X[:, :2], NAMES[:2])).predict(X).shape == (48, 2)


@pytest.mark.parametrize(
    "labels",
    [pd.Series(LABELS), pd.Series(LABELS, dtype="category"), pl.Series(LABELS), pa.chunked_array([LABELS]), list(LABELS)],
    ids=["pandas", "pandas categories", "polars", "pyarrow", "list"],
)
def test_column_of_classes_is_taken(labels: Any) -> None:
    assert sorted(classifier().fit(X, labels).classes_) == ["high", "low", "middle"]


# What is left alone

INPUTS: dict[str, np.ndarray] = {
    "float32": X.astype(np.float32),
    "integers": np.round(X * 10).astype(np.int16),
    "booleans": X > 0,
    "Fortran order": np.asfortranarray(X),
    "every second column": np.repeat(X, 2, axis=1)[:, ::2],
    "rows backwards": X[::-1][::-1],
    "objects": X.astype(object),
}


@pytest.mark.parametrize("name", INPUTS)
def test_array_of_any_layout_gives_the_model_of_its_numbers(name: str) -> None:
    plain = np.ascontiguousarray(INPUTS[name], dtype=np.float64)
    np.testing.assert_array_equal(
        regressor().fit(INPUTS[name], Y).predict(INPUTS[name]), regressor().fit(plain, Y).predict(plain)
    )


def test_lists_are_taken() -> None:
    np.testing.assert_array_equal(
        regressor().fit(X.tolist(), Y.tolist()).predict(X.tolist()), regressor().fit(X, Y).predict(X)
    )


@both
def test_fit_and_predict_leave_their_arguments_alone(make: Callable[..., Any], y: np.ndarray) -> None:
    x, targets, weight = X.copy(), y.copy(), np.arange(1.0, 49.0)
    for array in (x, targets, weight):
        array.setflags(write=False)
    make().fit(x, targets, sample_weight=weight).predict(x)
    np.testing.assert_array_equal(x, X)
    np.testing.assert_array_equal(targets, y)


@both
def test_fit_leaves_the_world_as_it_was(make: Callable[..., Any], y: np.ndarray) -> None:
    def outside() -> list[Any]:
        generators = [torch.get_rng_state().tolist(), random.getstate(), np.random.get_state()[1].tolist()]  # noqa: NPY002
        return [*generators, torch.get_num_threads(), torch.get_default_dtype(), list(warnings.filters)]

    before = outside()
    make(patience=1).fit(X, y).predict(X)
    assert outside() == before


def test_small_starts_run_on_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def watching(*args: Any, **options: Any) -> None:
        seen.append(torch.get_num_threads())
        initialize_system(*args, **options)

    monkeypatch.setattr("deepfls.estimators.fit.initialize_system", watching)
    regressor().fit(X, Y)
    assert seen == [1]


def test_fit_says_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    regressor(verbose=0).fit(X, Y)
    assert capfd.readouterr() == ("", "")


@both
def test_verbose_fit_shows_a_bar_on_standard_error_only(
    make: Callable[..., Any], y: np.ndarray, capfd: pytest.CaptureFixture[str]
) -> None:
    make(verbose=1, patience=9).fit(X, y)
    out, err = capfd.readouterr()
    assert out == ""
    assert all(part in err for part in ("training", "epoch 3/3", "loss", "validation"))


# Few or odd rows


@pytest.mark.parametrize("n_rows", [1, 2, 3])
@pytest.mark.parametrize("patience", [None, 2])
@both
def test_few_rows_are_enough(make: Callable[..., Any], y: np.ndarray, patience: int | None, n_rows: int) -> None:
    predictions = make(patience=patience).fit(X[:n_rows], y[:n_rows]).predict(X)
    assert len(predictions) == 48


@pytest.mark.parametrize("value", [0.0, 0.1, -3e12, 0.1 * 1e100])
def test_constant_target_is_predicted_exactly(value: float) -> None:
    np.testing.assert_allclose(regressor().fit(X, np.full(48, value)).predict(10.0 * X), value, rtol=1e-12)


@pytest.mark.parametrize("distance", [1e3, 1e9, 1e120])
@pytest.mark.parametrize("kind", ["t1", "it2"])
def test_predictions_are_finite_far_from_the_data(kind: str, distance: float) -> None:
    assert np.isfinite(regressor(kind=kind).fit(X * 1e-12, Y).predict(X * distance)).all()


def test_interrupted_fit_leaves_a_usable_model() -> None:
    calls = []

    def interrupted(y: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return l2(y, target)

    model = regressor(loss=interrupted, batch_size=16)
    with pytest.warns(UserWarning, match=r"^Training was interrupted in epoch 2 of 3; the parameters reached are kept\.$"):
        model.fit(X, Y)
    assert model.stopped_by_ == "interrupt"
    assert np.isfinite(model.predict(X)).all()


def test_diverging_fit_leaves_a_usable_model() -> None:
    model = regressor(learning_rate=1e30, epochs=20)
    with pytest.warns(UserWarning, match=r"^Training left the finite numbers in epoch \d+ at ever smaller rates"):
        model.fit(X, Y)
    assert model.stopped_by_ == "divergence"
    assert np.isfinite(model.predict(X)).all()


def test_patience_stops_and_is_told() -> None:
    model = regressor(patience=2, epochs=300, learning_rate=0.3, schedule="constant").fit(X, Y)
    losses = [row["validation_loss"] for row in model.history_]
    assert model.stopped_by_ == "patience"
    assert len(losses) == losses.index(min(losses)) + 3
