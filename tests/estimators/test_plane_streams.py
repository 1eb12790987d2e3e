"""kind="gt2" on tables on disk: quantiles of several targets, and runs that go on after an interruption."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from deepfls import FLSRegressor, load
from deepfls.training.checkpoint import Checkpoints
from deepfls.training.steps import ByKernel
from stream_cases import SETTINGS, StopError, assert_same_bits, columns, regression, write

PLANES: dict[str, Any] = {**SETTINGS, "kind": "gt2", "loss": "quantiles"}
LEVELS = (0.02, 0.25, 0.5, 0.75, 0.98)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write(tmp_path / "rows", columns())


def inputs(n_rows: int = 200) -> Any:
    data = columns(n_rows, seed=1)
    return pa.table({name: data[name] for name in ("a", "b")})


def test_quantiles_of_two_targets_are_learned_from_a_stream(path: Path, tmp_path: Path) -> None:
    model = FLSRegressor(**{**PLANES, "epochs": 25}).fit(regression(path, target=["y", "z"]))
    quantiles = model.predict_quantiles(inputs(), LEVELS)
    assert quantiles.shape == (200, len(LEVELS), 2)
    assert (np.diff(quantiles, axis=1) >= 0).all()
    truth = np.stack([columns(200, seed=1)[name] for name in ("y", "z")], axis=1)
    assert (np.abs(quantiles[:, 2] - truth).mean(axis=0) < 0.5 * truth.std(axis=0)).all()
    model.save(tmp_path / "model.fls")
    np.testing.assert_array_equal(load(tmp_path / "model.fls").predict_quantiles(inputs(), LEVELS), quantiles)


def test_levels_are_calibrated_on_rows_of_a_stream(path: Path) -> None:
    model = FLSRegressor(**PLANES, coverage=0.8, calibration="alpha").fit(regression(path, target=["y", "z"]))
    narrow, wide = (model.predict_interval(inputs(), coverage=coverage) for coverage in (0.5, 0.9))
    assert narrow.lower.shape == (200, 2)
    assert ((wide.lower <= narrow.lower) & (narrow.upper <= wide.upper)).all()


def test_interrupted_run_goes_on_to_the_same_bits(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The levels of the rows follow from the number of the step, which a checkpoint has to keep."""
    whole = FLSRegressor(**PLANES).fit(regression(path))
    run = ByKernel.run

    def stopping(self: ByKernel, batch: Any, rates: list[float], number: int, optimizer: Any) -> Any:
        if number + len(rates) >= 20:
            raise StopError
        return run(self, batch, rates, number, optimizer)

    kept = Checkpoints(tmp_path / "kept", every=4)
    with monkeypatch.context() as patched:
        patched.setattr(ByKernel, "run", stopping)
        with pytest.raises(StopError):
            FLSRegressor(**PLANES).fit(regression(path), checkpoints=kept)
    resumed = FLSRegressor(**PLANES).fit(regression(path), checkpoints=replace(kept, resume=True))
    assert_same_bits(resumed, whole)
