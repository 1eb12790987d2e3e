"""Files of one plane of a General Type-2 system, of its crisp output, and what is refused."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from deepfls import FLSClassifier, FLSRegressor
from export_cases import compiled, needs_gcc, run_c

X = np.random.default_rng(0).uniform(-2, 2, size=(200, 2)).astype(np.float32).astype(np.float64)
Y = np.sin(X[:, 0]) + 0.1 * X[:, 1]


@cache
def fitted() -> FLSRegressor:
    return FLSRegressor(kind="gt2", loss="quantiles", n_rules=3, epochs=5, random_state=0).fit(X, Y)


@needs_gcc
def test_c_of_the_crisp_output_equals_predictions(tmp_path: Path) -> None:
    fitted().to_c(tmp_path / "plant.h")
    program = compiled(tmp_path, (tmp_path / "plant.h").read_text())
    np.testing.assert_allclose(run_c(program, X, 1).y[:, 0], fitted().predict(X), rtol=1e-4, atol=1e-5)


@needs_gcc
def test_c_of_a_plane_gives_its_ends(tmp_path: Path) -> None:
    fitted().to_c(tmp_path / "plant.h", plane=0.2)
    program = compiled(tmp_path, (tmp_path / "plant.h").read_text())
    found = run_c(program, X, 1)
    lower, upper = fitted().predict_quantiles(X, [0.1, 0.9]).T
    np.testing.assert_allclose(found.y_left[:, 0], lower, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found.y_right[:, 0], upper, rtol=1e-4, atol=1e-5)


def test_a_plane_is_written_for_other_tools(tmp_path: Path) -> None:
    fitted().to_fll(tmp_path / "plant.fll", plane=1.0)
    assert "Gaussian" in (tmp_path / "plant.fll").read_text()
    fitted().to_fis(tmp_path / "plant.t2fis", plane=0.5)
    assert (tmp_path / "plant.t2fis").stat().st_size > 0


@pytest.mark.parametrize("target", ["to_fll", "to_fis"])
def test_targets_of_one_set_per_input_need_a_plane(target: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="plane must be the level of the plane to write for kind='gt2'"):
        getattr(fitted(), target)(tmp_path / "plant.fis")


def test_what_c_cannot_hold_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="its output is a mean over planes"):
        fitted().to_c(tmp_path / "plant.h", number="q15")
    calibrated = FLSRegressor(
        kind="gt2", n_rules=2, epochs=2, coverage=0.8, calibration="alpha", refit=False, random_state=0
    ).fit(X, Y)
    with pytest.raises(ValueError, match="its intervals are planes"):
        calibrated.to_c(tmp_path / "plant.h")
    calibrated.to_c(tmp_path / "plant.h", margin=None)


@needs_gcc
def test_c_of_classes_equals_probabilities(tmp_path: Path) -> None:
    model = FLSClassifier(kind="gt2", n_rules=2, epochs=2, random_state=0).fit(X, Y > 0)
    model.to_c(tmp_path / "plant.h")
    found = run_c(compiled(tmp_path, (tmp_path / "plant.h").read_text()), X, 2)
    np.testing.assert_allclose(found.y, model.predict_proba(X), atol=1e-5)
    np.testing.assert_array_equal(model.classes_[found.index.ravel()], model.predict(X))


def test_a_plane_of_another_kind_is_refused(tmp_path: Path) -> None:
    model = FLSRegressor(kind="t1", n_rules=2, epochs=2, random_state=0).fit(X, Y)
    with pytest.raises(ValueError, match="plane must come with kind='gt2', which has planes, got kind='t1'"):
        model.to_c(tmp_path / "plant.h", plane=0.5)
    with pytest.raises(ValueError, match="alphas must be greater than 0 and at most 1, got 2"):
        fitted().to_c(tmp_path / "plant.h", plane=2.0)
