"""Wild values: columns that are surely tame are told without quantiles."""

from __future__ import annotations

import numpy as np
import pytest

from deepfls.data import outliers
from deepfls.data.outliers import wild_bounds

COLUMNS = {
    "normal": lambda random: random.standard_normal(2_000),
    "wild": lambda random: np.append(random.standard_normal(1_999), 1e4),
    "just inside": lambda random: np.append(random.uniform(-1.0, 1.0, 1_999), 18.0),
    "just outside": lambda random: np.append(random.uniform(-1.0, 1.0, 1_999), 20.0),
    "constant": lambda random: np.ones(2_000),
    "mostly 0": lambda random: np.where(np.arange(2_000) % 50 == 0, 50.0 + random.standard_normal(2_000), 0.0),
    "long tail": lambda random: np.exp(3.0 * random.standard_normal(2_000)),
    "few values": lambda random: random.integers(0, 3, 2_000).astype(float),
    "missing": lambda random: np.where(np.arange(2_000) % 3 == 0, np.nan, random.standard_normal(2_000)),
    "ordered": lambda random: np.sort(random.standard_normal(2_000)) ** 3,
}


@pytest.mark.parametrize("name", COLUMNS)
def test_tame_columns_are_those_without_values_beyond_the_limits(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    column = COLUMNS[name](np.random.default_rng(0))[:, np.newaxis]
    found = wild_bounds(column)
    monkeypatch.setattr(outliers, "_surely_tame", lambda rows: np.zeros(rows.shape[1], dtype=bool))
    expected = wild_bounds(column)
    assert (found is None) == (expected is None) == (name not in ("wild", "just outside"))
    if found is not None and expected is not None:
        assert found.low == expected.low
        assert found.high == expected.high


def test_ordinary_columns_need_no_quantiles() -> None:
    columns = [COLUMNS[name](np.random.default_rng(0)) for name in ("normal", "few values", "wild", "missing")]
    assert outliers._surely_tame(np.stack(columns, axis=1)).tolist() == [True, True, False, False]
