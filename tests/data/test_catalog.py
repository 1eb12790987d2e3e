"""The real sets are what the catalog says of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from deepfls.data.catalog import DATASETS
from deepfls.data.datasets import load_dataset


def test_diabetes_comes_in_its_own_units() -> None:
    data = load_dataset("diabetes")
    assert data.x.shape == (442, 10)
    np.testing.assert_allclose(data.x[0], [59, 2, 32.1, 101, 157, 93.2, 38, 4, 4.8598, 87])
    assert data.y[0] == [151]
    assert data.y.mean() == pytest.approx(152.133484)


@pytest.mark.parametrize(
    ("name", "shape", "first", "target_means"),
    [
        ("ccpp", (9568, 4), [14.96, 41.76, 1024.07, 73.17, 463.26], [454.365009]),
        ("boston", (506, 13), [0.006, 18, 2.31, 0, 0.538, 6.575, 65.2, 4.09, 1, 296, 15.3, 396.898, 4.98, 24], [22.532806]),
        ("enb", (768, 8), [0.98, 514.5, 294, 110.25, 7, 2, 0, 0, 15.55, 21.33], [22.307201, 24.587760]),
    ],
)
def test_real_table_has_known_values(
    name: str, shape: tuple[int, int], first: list[float], target_means: list[float], shared_data: Path
) -> None:
    data = load_dataset(name, data_dir=shared_data)
    assert data.x.shape == shape
    np.testing.assert_array_equal(np.append(data.x[0], data.y[0]), first)
    np.testing.assert_allclose(data.y.mean(axis=0), target_means, rtol=1e-6)


def test_duplicate_rows_of_the_power_plant_stay(shared_data: Path) -> None:
    data = load_dataset("ccpp", data_dir=shared_data)
    table = np.column_stack([data.x, data.y])
    assert len(table) - len(np.unique(table, axis=0)) == 41


def test_every_set_states_its_terms() -> None:
    assert tuple(DATASETS) == ("ccpp", "boston", "enb", "turbidity", "diabetes")
    for info in DATASETS.values():
        assert all((info.description, info.citation, info.licence))
    assert "contested" in DATASETS["boston"].description
    assert "rounded copy" in DATASETS["boston"].description
