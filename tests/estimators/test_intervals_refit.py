"""Intervals of refitted and of loaded models, and sets of classes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from deepfls import FLSClassifier, FLSRegressor, load
from deepfls._files import MODEL, ModelFileError
from deepfls.estimators import model_file
from interval_cases import CALIBRATED, LABELS, TEST, TRAIN, X, Y, classifier, regressor


@pytest.mark.parametrize("options", [*CALIBRATED.values(), {"group_calibration": 2}, {"calibration": None}], ids=str)
def test_intervals_come_back_from_a_file_to_the_last_bit(options: dict[str, Any], tmp_path: Path) -> None:
    table = np.column_stack([X, np.arange(900) % 3])
    model = regressor(**options, epochs=2).fit(table[TRAIN], Y[TRAIN])
    model.save(tmp_path / "m.fls")
    again = load(tmp_path / "m.fls")
    assert isinstance(again, FLSRegressor)
    assert again.get_params() == model.get_params()
    for end, expected in zip(again.predict_interval(table[TEST]), model.predict_interval(table[TEST]), strict=True):
        np.testing.assert_array_equal(end, expected)


@pytest.mark.parametrize("options", [{}, CALIBRATED["split of T1"]], ids=["cqr", "split of T1"])
def test_refit_predicts_as_a_model_of_all_rows_and_covers_as_one_of_a_part(options: dict[str, Any]) -> None:
    model = regressor(**options, refit="auto").fit(X[TRAIN], Y[TRAIN])
    part = regressor(**options).fit(X[TRAIN], Y[TRAIN])
    # All rows train the set too where that is learned, and the crisp output alone where it is not.
    whole = regressor(**{**options, **({"calibration": None} if not options else {"coverage": None})}).fit(
        X[TRAIN], Y[TRAIN]
    )
    y = model.predict(X[TEST])
    np.testing.assert_array_equal(y, whole.predict(X[TEST]))
    lower, upper = part.predict_interval(X[TEST], coverage=0.3)
    found = model.predict_interval(X[TEST], coverage=0.3)
    np.testing.assert_array_equal(found.lower, np.minimum(lower, y))
    np.testing.assert_array_equal(found.upper, np.maximum(upper, y))


def test_refit_is_automatic_where_rows_are_few() -> None:
    few = regressor(refit="auto", epochs=1).fit(X, Y)
    many = regressor(refit="auto", epochs=1, n_rules=1).fit(np.tile(X, (6, 1)), np.tile(Y, 6))
    assert few.interval_model_ is not None
    assert many.interval_model_ is None
    assert regressor(refit="auto", calibration=None, epochs=1).fit(X, Y).interval_model_ is None
    assert regressor(refit=np.False_, epochs=1).fit(X, Y).interval_model_ is None
    with pytest.raises(TypeError, match=r"^refit must be True or False, got 'often'.$"):
        regressor(refit="often").fit(X, Y)


def test_refitted_model_comes_back_from_a_file(tmp_path: Path) -> None:
    model = regressor(refit=True, epochs=2, group_calibration="b").fit(pd.DataFrame({"a": X[:, 0], "b": X[:, 1] > 0}), Y)
    model.save(tmp_path / "m.fls")
    again = load(tmp_path / "m.fls")
    table = pd.DataFrame({"a": [0.1, 0.2], "b": [True, False]})
    assert isinstance(again, FLSRegressor)
    np.testing.assert_array_equal(again.predict_interval(table), model.predict_interval(table))
    np.testing.assert_array_equal(again.predict(table), model.predict(table))


DAMAGE: dict[str, tuple[dict[str, Any], Any]] = {
    "method": ({}, lambda d, a: d["calibration"].update(method="magic")),
    "coverage": ({}, lambda d, a: d["calibration"].update(coverage=2.0)),
    "outputs": ({}, lambda d, a: a.update({"calibration.scores": np.zeros((9, 2))})),
    "scores missing": ({}, lambda d, a: a.pop("calibration.scores")),
    "column": ({"group_calibration": 1}, lambda d, a: d["calibration"].update(group_columns=[7])),
    "scale": ({"calibration": "split"}, lambda d, a: a.update({"calibration.scale": np.zeros((3, 1))})),
    "no inner calibration": ({"refit": True}, lambda d, a: d["interval_model"].pop("calibration")),
    "inner structure": ({"refit": True}, lambda d, a: d["interval_model"]["structure"].update(scaling="none")),
    "inner inner": ({"refit": True}, lambda d, a: d["interval_model"].update(interval_model={})),
}


@pytest.mark.parametrize("case", list(DAMAGE.values()), ids=list(DAMAGE))
def test_file_whose_calibration_does_not_fit_is_refused(case: tuple[dict[str, Any], Any], tmp_path: Path) -> None:
    options, damage = case
    table = np.column_stack([X[:, 0], X[:, 1] > 0])
    description, arrays = model_file.described(regressor(**options, epochs=1).fit(table, Y))
    damage(description, arrays)
    (tmp_path / "m.fls").write_bytes(MODEL.packed(description, arrays))
    with pytest.raises(ModelFileError, match="is damaged: its parts do not fit together"):
        load(tmp_path / "m.fls")


def test_refitted_model_starts_warm() -> None:
    model = regressor(refit=True, warm_start=True, epochs=2).fit(X[TRAIN], Y[TRAIN])
    model.fit(X[TRAIN], Y[TRAIN])
    assert model.n_epochs_ == 4
    assert model.interval_model_ is not None
    assert model.interval_model_.n_epochs_ == 4


def test_interrupt_keeps_the_model_of_a_part_as_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    from deepfls.estimators import system_training as learner

    trained = learner.train

    def interrupted(*arguments: Any, **options: Any) -> Any:
        result = trained(*arguments, **options)
        result.stopped_by = "interrupt"
        return result

    monkeypatch.setattr(learner, "train", interrupted)
    model = regressor(refit=True, epochs=2).fit(X[TRAIN], Y[TRAIN])
    assert model.stopped_by_ == "interrupt"
    assert model.interval_model_ is None
    assert model.predict_interval(X[TEST]).lower.shape == (400,)


def test_refitted_classifier_holds_the_class_it_predicts() -> None:
    model = classifier(refit=True).fit(X[TRAIN], LABELS[TRAIN])
    chosen = model.predict_set(X[TEST], coverage=0.3)
    assert (chosen & (model.classes_[None, :] == model.predict(X[TEST])[:, None])).any(axis=1).all()


@pytest.mark.parametrize("calibration", ["split", "aps"])
@pytest.mark.parametrize("kind", ["t1", "it2"])
def test_sets_of_classes_cover_and_hold_the_most_probable(kind: str, calibration: str) -> None:
    model = classifier(kind=kind, calibration=calibration).fit(X[TRAIN], LABELS[TRAIN])
    predicted = model.predict(X[TEST])
    before = None
    for coverage in (0.3, 0.8, 0.9, 0.99):
        chosen = model.predict_set(X[TEST], coverage=coverage)
        assert chosen.shape == (400, 3)
        assert chosen.dtype == bool
        truth = model.classes_[None, :] == LABELS[TEST][:, None]
        assert (chosen & truth).any(axis=1).mean() > coverage - 0.1
        assert (chosen & (model.classes_[None, :] == predicted[:, None])).any(axis=1).all()
        if before is not None:
            assert (before <= chosen).all()
        before = chosen
    np.testing.assert_array_equal(model.predict_set(X[TEST]), model.predict_set(X[TEST], coverage=0.9))


def test_sets_come_back_from_a_file(tmp_path: Path) -> None:
    model = classifier(epochs=2).fit(X[TRAIN], LABELS[TRAIN])
    model.save(tmp_path / "c.fls")
    again = load(tmp_path / "c.fls")
    assert isinstance(again, FLSClassifier)
    np.testing.assert_array_equal(again.predict_set(X[TEST]), model.predict_set(X[TEST]))


def test_classifier_refuses_what_has_no_sets() -> None:
    with pytest.raises(ValueError, match="calibration must be one of 'split', 'aps', got 'cqr'"):
        classifier(calibration="cqr").fit(X[TRAIN], LABELS[TRAIN])
    with pytest.raises(TypeError, match="calibration must be a string, one of 'split', 'aps', got None"):
        classifier(calibration=None).fit(X[TRAIN], LABELS[TRAIN])
    with pytest.raises(ValueError, match=r"^predict_set must follow a fit with a coverage, got coverage=None"):
        classifier(coverage=None, epochs=1).fit(X[TRAIN], LABELS[TRAIN]).predict_set(X[TEST])
