"""Files of a model that is the mean of several systems."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deepfls import FLSClassifier, FLSRegressor
from deepfls.export.c_header import c_header
from deepfls.export.onnx import onnx_bytes
from deepfls.inspection.plain_model import PlainModel
from export_cases import compiled, inputs_of, needs_gcc, random_plain_system, run_c

X = np.random.default_rng(0).uniform(-2, 2, size=(150, 2)).astype(np.float32).astype(np.float64)
Y = np.sin(X[:, 0]) + 0.1 * X[:, 1]


@cache
def fitted(**options: Any) -> Any:
    settings = {"n_rules": 3, "n_systems": 3, "epochs": 3, "random_state": 0, **options}
    return FLSRegressor(**settings).fit(X, Y)


@cache
def classifier() -> FLSClassifier:
    return FLSClassifier(n_rules=3, n_systems=2, epochs=3, random_state=0).fit(X, np.digitize(Y, [-0.5, 0.5]))


def unlike_systems() -> PlainModel:
    """A mean of systems of different t-norms and numbers of rules, with unequal shares."""
    first = random_plain_system(3, n_rules=4, n_features=2, n_outputs=2)
    second = random_plain_system(3, n_rules=2, n_features=2, n_outputs=2, tnorm="htsk")
    return PlainModel((first, replace(second, input_range=first.input_range)), (0.3, 0.7))


@needs_gcc
@pytest.mark.parametrize(
    "options",
    [
        {"kind": "t1", "coverage": 0.8, "calibration": "split"},
        {"kind": "it2", "coverage": 0.8},
        {"kind": "it2", "coverage": 0.8, "refit": False, "normalized_scores": False},
        {"kind": "gt2"},
    ],
    ids=str,
)
def test_c_equals_predictions_and_intervals(options: dict[str, Any], tmp_path: Path) -> None:
    model = fitted(**options)
    model.to_c(tmp_path / "plant.h", force=True)
    found = run_c(compiled(tmp_path, (tmp_path / "plant.h").read_text()), X, 1)
    np.testing.assert_allclose(found.y[:, 0], model.predict(X), rtol=1e-5, atol=1e-5)
    lower, upper = (
        model.predict_interval(X) if "coverage" in options else (part[:, 0] for part in model._model.reduced(X)[:2])
    )
    np.testing.assert_allclose(found.y_left[:, 0], lower, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(found.y_right[:, 0], upper, rtol=1e-5, atol=1e-5)


@needs_gcc
def test_c_of_classes_equals_probabilities(tmp_path: Path) -> None:
    model = classifier()
    model.to_c(tmp_path / "plant.h")
    found = run_c(compiled(tmp_path, (tmp_path / "plant.h").read_text()), X, 3)
    np.testing.assert_allclose(found.y, model.predict_proba(X), atol=1e-5)
    np.testing.assert_array_equal(model.classes_[found.index.ravel()], model.predict(X))


@needs_gcc
def test_c_of_systems_that_differ_is_their_weighted_mean(tmp_path: Path) -> None:
    model = unlike_systems()
    x = inputs_of(model.systems[0], 200)
    found = run_c(compiled(tmp_path, c_header(model, prefix="plant").text), x, 2)
    for got, expected in zip(found[:3], (model.output(x).y, model.output(x).y_left, model.output(x).y_right), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5 * np.std(expected))


def test_fixed_point_refuses_several_systems(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r'its output is a mean over 3 systems.*number="float" takes it'):
        fitted(kind="t1").to_c(tmp_path / "plant.h", number="q15")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("model", [lambda: fitted(kind="t1"), lambda: fitted(kind="it2"), lambda: fitted(kind="gt2")])
def test_onnx_equals_predictions(model: Any, tmp_path: Path) -> None:
    runtime = pytest.importorskip("onnxruntime")
    report = model().to_onnx(tmp_path / "plant.onnx")
    session = runtime.InferenceSession(str(tmp_path / "plant.onnx"))
    (y,) = session.run(["y"], {"x": X.astype(np.float32)})
    np.testing.assert_allclose(y[:, 0], model().predict(X), rtol=1e-6, atol=1e-6)
    assert report.error < 1e-5


def test_onnx_of_classes_and_of_systems_that_differ() -> None:
    runtime = pytest.importorskip("onnxruntime")
    for model, x in ((PlainModel.of(classifier()), X), (unlike_systems(), inputs_of(unlike_systems().systems[0], 100))):
        y, left, right = runtime.InferenceSession(onnx_bytes(model)).run(
            ["y", "y_left", "y_right"], {"x": x.astype(np.float32)}
        )
        truth = model.output(x)
        np.testing.assert_allclose(left, truth.y_left, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(right, truth.y_right, rtol=1e-5, atol=1e-5)
        expected = truth.y if model.classes is None else classifier().predict_proba(x)
        np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-5)
