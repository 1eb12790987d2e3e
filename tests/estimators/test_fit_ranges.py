"""Sets within the range of the training data: after a fit, a warm start, a simplification, and for old files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from deepfls import FLSRegressor, load
from deepfls.inspection.plain import PlainSystem
from estimator_cases import LABELS, X, Y, both, classifier, regressor

ASSETS = Path(__file__).parent / "assets"


def n_outside(model: FLSRegressor) -> int:
    plain = PlainSystem.of(model)
    assert plain.input_range is not None
    return int(((plain.centers < plain.input_range[0]) | (plain.centers > plain.input_range[1])).sum())


@pytest.mark.parametrize("kind", ["t1", "it2"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_centers_stay_within_the_data_where_free_ones_leave(kind: str, dtype: str) -> None:
    options = {"kind": kind, "dtype": dtype, "epochs": 40, "learning_rate": 1.0, "n_rules": 8}
    assert n_outside(regressor(**options, centers_within="free").fit(X, Y)) > 0
    model = regressor(**options).fit(X, Y)
    assert n_outside(model) == 0
    widths = PlainSystem.of(model).upper_sigmas / np.ptp(X, axis=0)
    assert widths.max() <= 4.0 * (1 + 1e-12)
    assert widths.min() >= 0.05 / (len(X) - 1) * (1 - 1e-12)


@both
def test_a_fit_is_the_same_for_any_units_of_the_inputs(make: object, y: np.ndarray) -> None:
    first = make(epochs=5).fit(X, y)  # type: ignore[operator]
    second = make(epochs=5).fit(1000.0 * X + 5.0, y)  # type: ignore[operator]
    assert n_outside(second) == 0
    assert (first.predict(X) == second.predict(1000.0 * X + 5.0)).mean() > 0.9 or np.allclose(
        first.predict(X), second.predict(1000.0 * X + 5.0), atol=1e-3
    )


def test_columns_of_two_values_keep_their_centers_between_them() -> None:
    x = np.column_stack([X[:, 0], X[:, 1] > 1.0])
    model = regressor(epochs=20, learning_rate=0.3).fit(x, Y)
    assert n_outside(model) == 0


def test_a_warm_start_keeps_the_widest_range() -> None:
    model = regressor(warm_start=True).fit(X, Y)
    before = model.input_range_
    model.fit(X[:20] * 0.5, Y[:20])
    assert (model.input_range_ == before).all()
    assert n_outside(model) == 0
    model.fit(X * 3.0, Y)
    assert (model.input_range_ == before * 3.0).all()
    assert n_outside(model) == 0


def test_models_keep_their_ranges_in_a_file_and_when_simplified(tmp_path: Path) -> None:
    model = regressor(epochs=20, learning_rate=0.3).fit(X, Y)
    model.save(tmp_path / "model.fls")
    loaded = load(tmp_path / "model.fls")
    assert (loaded.predict(X) == model.predict(X)).all()
    assert loaded.system_.antecedents.bounds is not None
    simpler, _ = loaded.simplify(X, Y, tolerance=0.5)
    assert n_outside(simpler) == 0


def test_models_of_earlier_versions_are_free_and_can_be_continued() -> None:
    model = load(ASSETS / "v0.1.0-t1.fls")
    assert model.centers_within == "free"
    assert model.system_.antecedents.bounds is None
    rng = np.random.default_rng(0)
    model.set_params(warm_start=True, epochs=1).fit(rng.normal(size=(30, 2)), rng.normal(size=30))


def test_a_misspelt_range_is_refused() -> None:
    with pytest.raises(ValueError, match="centers_within must be one of"):
        classifier(centers_within="dat").fit(X, LABELS)
