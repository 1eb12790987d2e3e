"""Intervals and sets of models that were fitted to a table on disk: calibration rows, and coverage."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from sklearn.utils import check_random_state

from deepfls import FLSClassifier, FLSRegressor, load
from deepfls.data.sources import ParquetSource
from deepfls.data.summary import uniform
from deepfls.training import Checkpoints
from stream_cases import SETTINGS, StopError, StoppingLoss, assert_same_bits, columns, regression, write

COVERED: dict[str, Any] = {**SETTINGS, "coverage": 0.9}


def noisy(n_rows: int, seed: int = 0) -> dict[str, Any]:
    """As :func:`columns`, with noise that grows with the input, and a column of two groups of which one is noisier."""
    random = np.random.default_rng(seed)
    data = columns(n_rows, seed)
    data["b"] = random.integers(0, 2, size=n_rows).astype(float)
    data["y"] = data["y"] + random.normal(size=n_rows) * (0.2 + 0.3 * np.abs(data["a"]) + data["b"])
    return data


def inputs(data: dict[str, Any]) -> pa.Table:
    return pa.table({name: data[name] for name in ("a", "b")})


def draws(n_rows: int) -> Any:
    """The random number that decides which rows are held out, of every row, at random_state=0."""
    return uniform(int(check_random_state(0).randint(2**31 - 1)) + 1, np.arange(n_rows))


@pytest.mark.parametrize(
    "settings",
    [
        {"kind": "it2", "calibration": "cqr"},
        {"kind": "it2", "calibration": "cqr", "normalized_scores": False},
        {"kind": "t1", "calibration": "split"},
        {"kind": "it2", "calibration": "cqr", "patience": 2},
    ],
)
def test_intervals_have_their_coverage_on_new_rows(tmp_path: Path, settings: dict[str, Any]) -> None:
    source = regression(write(tmp_path, noisy(6_000), group_rows=500), buffer_rows=2_000)
    model = FLSRegressor(**{**COVERED, **settings}).fit(source)
    new = noisy(4_000, seed=1)
    for coverage in (None, 0.7):
        lower, upper = model.predict_interval(inputs(new), coverage=coverage)
        found = np.mean((lower <= new["y"]) & (new["y"] <= upper))
        # About 1,100 rows calibrate: the share scatters by a hundredth.
        assert abs(found - (coverage or 0.9)) < 0.035


def test_every_group_keeps_the_coverage_by_the_name_of_its_column(tmp_path: Path) -> None:
    source = regression(write(tmp_path, noisy(6_000), group_rows=500), buffer_rows=2_000)
    model = FLSRegressor(**COVERED, calibration="split", group_calibration="b").fit(source)
    new = noisy(4_000, seed=1)
    lower, upper = model.predict_interval(inputs(new))
    hit = (lower <= new["y"]) & (new["y"] <= upper)
    assert [abs(hit[new["b"] == group].mean() - 0.9) < 0.045 for group in (0.0, 1.0)] == [True, True]


def test_rows_that_calibrate_are_not_learned_from(tmp_path: Path) -> None:
    data = columns()
    model = FLSRegressor(**{**COVERED, "epochs": 0, "calibration_fraction": 0.25}).fit(regression(write(tmp_path, data)))
    held = draws(600) < 0.25
    assert len(model.calibration_.scores) == held.sum()
    assert model.x_scaling_.shift[0] == pytest.approx(data["a"][~held].mean(), abs=1e-12)


def test_rows_that_calibrate_are_not_those_that_stop(tmp_path: Path) -> None:
    settings = {**COVERED, "calibration_fraction": 0.25, "patience": 5, "validation_fraction": 0.2, "epochs": 1}
    model = FLSRegressor(**settings).fit(regression(write(tmp_path, columns())))
    draw = draws(600)
    watching = 0.2 * 0.75
    assert len(model.calibration_.scores) == ((draw >= watching) & (draw < watching + 0.25)).sum()
    assert "validation_loss" in model.history_[0]


def test_calibration_does_not_depend_on_the_row_groups(tmp_path: Path) -> None:
    settings = {**COVERED, "epochs": 0, "dtype": "float64"}
    scores = [
        FLSRegressor(**settings)
        .fit(regression(write(tmp_path / str(size), columns(), n_files=n, group_rows=size), weight="w"))
        .calibration_.scores
        for size, n in ((13, 1), (600, 2))
    ]
    np.testing.assert_allclose(scores[0], scores[1], rtol=0, atol=1e-8)


def test_sets_of_classes_have_their_coverage(tmp_path: Path) -> None:
    data = noisy(6_000)
    data["label"] = np.where(data["y"] > 0, "up", "down")
    path = write(tmp_path, data, group_rows=500)
    source = ParquetSource(path, target="label", features=["a", "b"], buffer_rows=2_000)
    model = FLSClassifier(**COVERED).fit(source)
    new = noisy(4_000, seed=1)
    place = np.searchsorted(model.classes_, np.where(new["y"] > 0, "up", "down"))
    found = model.predict_set(inputs(new))[np.arange(4_000), place].mean()
    assert 0.87 < found < 0.97  # sets of two classes cannot be small enough for exactly 0.9


def test_intervals_survive_the_file(tmp_path: Path) -> None:
    data = noisy(1_000)
    model = FLSRegressor(**COVERED).fit(regression(write(tmp_path / "rows", data)))
    model.save(tmp_path / "m.fls")
    kept = load(tmp_path / "m.fls").predict_interval(inputs(data))
    assert np.array_equal(kept.lower, model.predict_interval(inputs(data)).lower)


def test_run_that_was_stopped_ends_with_the_same_intervals(tmp_path: Path) -> None:
    path = write(tmp_path / "rows", columns())
    settings = {**COVERED, "kind": "t1", "calibration": "split"}
    whole = FLSRegressor(**{**settings, "loss": StoppingLoss(10**9)}).fit(regression(path))
    half: Any = FLSRegressor(**{**settings, "loss": StoppingLoss(20)})
    with pytest.raises(StopError):
        half.fit(regression(path), checkpoints=Checkpoints(tmp_path / "kept", every=3))
    resumed = FLSRegressor(**{**settings, "loss": StoppingLoss(10**9)})
    resumed.fit(regression(path), checkpoints=Checkpoints(tmp_path / "kept", every=3, resume=True))
    assert_same_bits(whole, resumed)
    assert np.array_equal(whole.calibration_.scores, resumed.calibration_.scores)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"refit": True}, r"^refit must not be given beside a source: the rows that calibrate are few beside the others"),
        ({"coverage": 0.999}, r"^The calibration set must have 999 rows or more to promise a coverage of 0\.999, got \d+"),
        ({"group_calibration": "c"}, r"^group_calibration must be .* got 'c'"),
        ({"coverage": 1.5}, r"^coverage must be .* got 1\.5"),
    ],
)
def test_settings_that_do_not_fit_a_source_are_refused_before_training(tmp_path: Path, settings: Any, message: str) -> None:
    loss = StoppingLoss(0)
    with pytest.raises(ValueError, match=message):
        FLSRegressor(**{**COVERED, "kind": "t1", "calibration": "split", "loss": loss, **settings}).fit(
            regression(write(tmp_path, columns()))
        )
