"""The interval of a calibrated estimator in C agrees with its ``predict_interval``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deepfls import FLSClassifier, FLSRegressor
from deepfls.inspection.plain import PlainSystem
from export_cases import compiled, needs_gcc, run_c

pytestmark = needs_gcc

RNG = np.random.default_rng(0)
X = RNG.normal(size=(600, 3)).astype(np.float32).astype(np.float64)
NOISE = 0.2 * (1 + np.abs(X[:, :1])) * RNG.normal(size=(600, 2))
Y = np.stack([np.sin(X[:, 0]) + X[:, 1] * X[:, 2], 100 * X[:, 1]], axis=1) + NOISE * [1, 30] + [5, 0]


def fitted(y: Any = Y[:, 0], **settings: Any) -> FLSRegressor:
    chosen = {"n_rules": 4, "epochs": 15, "coverage": 0.9, "random_state": 0, **settings}
    return FLSRegressor(**chosen).fit(X[:400], y[:400])


SPLIT = {"calibration": "split"}
CASES: list[dict[str, Any]] = [
    {},
    {"normalized_scores": False},
    {"refit": False},
    {"refit": False, "normalized_scores": False},
    # At so small a coverage the ends move inwards, at most to the crisp output.
    {"coverage": 0.05, "normalized_scores": False},
    {"calibration": None},
    {"type_reduction": "nt"},
    {"calibration": "split", "normalized_scores": False},
    {"kind": "t1", **SPLIT},
    {"kind": "t1", **SPLIT, "refit": False, "order": 0},
    {"kind": "t1", **SPLIT, "refit": False, "normalized_scores": False},
]


@pytest.mark.parametrize("settings", CASES, ids=str)
@pytest.mark.parametrize("exp", ["libm", "builtin"])
def test_interval_in_c_is_that_of_the_estimator(settings: dict[str, Any], exp: str, tmp_path: Path) -> None:
    model = fitted(**settings)
    model.to_c(tmp_path / "plant.h", exp=exp)
    text = (tmp_path / "plant.h").read_text()
    x = np.vstack([X, 3 * X, [[np.nan, 0, 0]]])
    got = run_c(compiled(tmp_path, text), x, 1)
    lower, upper = model.predict_interval(x[:-1])
    np.testing.assert_allclose(got.y_left[:-1, 0], lower, atol=1e-5 * Y[:, 0].std())
    np.testing.assert_allclose(got.y_right[:-1, 0], upper, atol=1e-5 * Y[:, 0].std())
    # The interval contains the prediction, which another system may have computed.
    assert (got.y_left[:-1] <= got.y[:-1]).all()
    assert (got.y[:-1] <= got.y_right[:-1]).all()
    assert np.isnan([got.y_left[-1], got.y_right[-1]]).all()
    assert f"coverage {settings.get('coverage', 0.9)}, calibrated" in text or settings.get("calibration", "") is None


def test_interval_covers_every_output(tmp_path: Path) -> None:
    model = fitted(Y)
    model.to_c(tmp_path / "plant.h")
    got = run_c(compiled(tmp_path, (tmp_path / "plant.h").read_text()), X[400:], 2)
    lower, upper = model.predict_interval(X[400:])
    for ends, truth in ((got.y_left, lower), (got.y_right, upper)):
        assert (np.abs(ends - truth).max(axis=0) < 1e-5 * Y.std(axis=0)).all()
    covered = ((got.y_left <= Y[400:]) & (Y[400:] <= got.y_right)).mean(axis=0)
    assert (covered > 0.8).all()


def test_interval_of_a_saved_model_is_the_same(tmp_path: Path) -> None:
    from deepfls import load

    model = fitted()
    model.save(tmp_path / "m.fls")
    model.to_c(tmp_path / "a.h", prefix="plant")
    load(tmp_path / "m.fls").to_c(tmp_path / "b.h", prefix="plant")
    assert (tmp_path / "a.h").read_text() == (tmp_path / "b.h").read_text()


def test_without_a_calibration_the_interval_is_the_set(tmp_path: Path) -> None:
    calibrated, plain = fitted(), fitted(coverage=None)
    for model, settings in ((calibrated, {"margin": None}), (plain, {})):
        model.to_c(tmp_path / "plant.h", **settings)
        text = (tmp_path / "plant.h").read_text()
        assert "the type-reduced set; not calibrated to a coverage" in text
        got, truth = run_c(compiled(tmp_path, text), X, 1), PlainSystem.of(model).output(X)
        np.testing.assert_allclose(got.y_left, truth.y_left, atol=1e-5 * Y[:, 0].std())


def test_interval_of_a_classifier_is_the_type_reduced_set_of_its_logits(tmp_path: Path) -> None:
    model = FLSClassifier(n_rules=3, epochs=3, coverage=0.9, random_state=0).fit(X, X[:, 0] > 0)
    model.to_c(tmp_path / "plant.h")
    assert "the type-reduced set of the logits; not calibrated to a coverage" in (tmp_path / "plant.h").read_text()


@pytest.mark.parametrize(
    ("settings", "number", "reason"),
    [
        (
            {"group_calibration": 0},
            "float",
            r"its intervals are calibrated by groups; train with group_calibration=None, or ",
        ),
        (SPLIT, "float", r"the local scale of its intervals is another fuzzy system over both firings; train with "),
        # The interval is a margin around the output, not around the set.
        (
            {**SPLIT, "refit": False, "normalized_scores": False},
            "q31",
            r"its calibrated interval is more than a margin around what the system gives; train with kind='t1'",
        ),
        ({}, "q15", r"A C header in fixed point cannot express this system: its calibrated interval is more than a margin"),
    ],
)
def test_intervals_without_a_form_are_refused(settings: dict[str, Any], number: str, reason: str, tmp_path: Path) -> None:
    x = X.copy()
    x[:, 0] = x[:, 0] > 0
    model = FLSRegressor(n_rules=3, epochs=3, coverage=0.8, random_state=0, **settings).fit(x, Y[:, 0])
    with pytest.raises(ValueError, match=reason) as error:
        model.to_c(tmp_path / "plant.h", number=number)
    assert "or export with margin=None, where the interval is the type-reduced set" in str(error.value)
    assert not (tmp_path / "plant.h").exists()
    model.to_c(tmp_path / "plant.h", number=number, margin=None)


def test_fixed_point_holds_an_interval_that_is_a_margin(tmp_path: Path) -> None:
    from deepfls.export.fixed_point import FixedPoint

    model = fitted(kind="t1", **SPLIT, refit=False, normalized_scores=False)
    model.to_c(tmp_path / "plant.h", number="q31", X=X)
    fixed = FixedPoint(PlainSystem.of(model), "q31", X)
    program = compiled(tmp_path, (tmp_path / "plant.h").read_text(), scalar="int32_t")
    got = run_c(program, fixed.quantized(X), 1, np.int32)
    lower, upper = model.predict_interval(X)
    width = fixed.output_half * 2.0**-31
    inside = np.abs(got.y_right[:, 0]) < 2**31 - 1
    np.testing.assert_allclose((got.y_right[:, 0] * width + fixed.output_middle)[inside], upper[inside], atol=1e-3)
    inside = np.abs(got.y_left[:, 0]) < 2**31 - 1
    np.testing.assert_allclose((got.y_left[:, 0] * width + fixed.output_middle)[inside], lower[inside], atol=1e-3)
