"""The pass before training: the same summary for any row groups and any processes."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deepfls.data.sources import ParquetSource
from deepfls.data.summary import Reservoir, Summary, uniform
from deepfls.training.distributed import Group
from stream_cases import columns, write


def summary_of(source: ParquetSource, n_processes: int, *, classes: bool = False, share: float = 0.0) -> Summary:
    parts = [
        source.summary(Group(rank, n_processes), classes=classes, seed=5, held_out_share=share)
        for rank in range(n_processes)
    ]
    whole = Summary.empty(source.n_groups, len(source.layout.features), len(parts[0].y.mean), weighted=parts[0].weighted)
    for part in parts:
        whole.merge(pickle.loads(pickle.dumps(part)))
    return whole


@pytest.mark.parametrize("n_processes", [1, 2, 5])
@pytest.mark.parametrize("group_rows", [11, 70, 600])
def test_summary_is_that_of_the_whole_table(tmp_path: Path, n_processes: int, group_rows: int) -> None:
    data = columns()
    path = write(tmp_path, data, group_rows=group_rows)
    source = ParquetSource(path, target=["y", "z"], features=["a", "b"], weight="w")
    found = summary_of(source, n_processes)
    x, y, w = np.stack([data["a"], data["b"]], 1), np.stack([data["y"], data["z"]], 1), data["w"]
    mean = np.average(x, axis=0, weights=w)
    np.testing.assert_allclose(found.x.mean, mean, rtol=1e-12, atol=1e-14)
    variance = w @ (x - mean) ** 2 / (w.sum() - 1)
    np.testing.assert_allclose(found.x.scale, np.sqrt(variance), rtol=1e-12)
    np.testing.assert_allclose(found.y.mean, np.average(y, axis=0, weights=w), rtol=1e-12)
    assert np.array_equal(np.stack([found.lowest, found.highest]), [x.min(0), x.max(0)])
    assert found.n_rows == 600
    order = np.argsort(uniform(5, np.arange(600)))
    assert np.array_equal(found.sample.rows, np.column_stack([x, y, w])[order])


@pytest.mark.parametrize("n_processes", [1, 3])
def test_held_out_rows_are_no_training_rows(tmp_path: Path, n_processes: int) -> None:
    data = columns()
    source = ParquetSource(write(tmp_path, data), target="y", features=["a", "b"])
    found = summary_of(source, n_processes, share=0.25)
    held = uniform(6, np.arange(600)) < 0.25
    assert np.array_equal(found.split_held_out(5, 0.0)[1][:, 0], data["a"][held])
    assert sorted(found.sample.rows[:, 0]) == sorted(data["a"][~held])
    assert found.n_rows == int((~held).sum())


def test_classes_are_found_wherever_they_first_appear(tmp_path: Path) -> None:
    data = columns()
    data["label"] = np.array(["c"] * 200 + ["a"] * 200 + ["b"] * 200)
    source = ParquetSource(write(tmp_path, data), target="label", features=["a", "b"])
    found = summary_of(source, 2, classes=True, share=0.1)
    assert sorted(found.labels) == ["a", "b", "c"]
    order = np.argsort(uniform(5, np.arange(600)))
    order = order[uniform(6, order) >= 0.1]
    assert [found.labels[int(place)] for place in found.sample.rows[:, 2]] == data["label"][order].tolist()
    held = uniform(6, np.arange(600)) < 0.1
    assert [found.labels[int(place)] for place in found.split_held_out(5, 0.0)[1][:, 2]] == data["label"][held].tolist()


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 40), min_size=1, max_size=8), st.integers(1, 30), st.integers(0, 2**31))
def test_reservoir_keeps_the_smallest_keys_however_rows_arrive(sizes: list[int], size: int, seed: int) -> None:
    keys = np.random.default_rng(seed).permutation(sum(sizes)) / 1000.0
    rows = np.arange(len(keys), dtype=float).reshape(-1, 1)
    found = Reservoir(size, 1)
    first = 0
    for place, count in enumerate(sizes):
        part = slice(first, first + count)
        if place % 2:
            other = Reservoir(size, 1).update(keys[part], rows[part])
            found.update(other.keys, other.rows)
        else:
            found.update(keys[part], rows[part])
        first += count
    expected = np.argsort(keys)[:size]
    assert np.array_equal(found.rows[:, 0], expected)
    assert np.array_equal(found.keys, keys[expected])


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 40), min_size=2, max_size=5), st.integers(1, 30), st.integers(0, 2**31))
def test_reservoirs_trimmed_by_each_others_keys_hold_the_joint_sample_and_no_more(
    sizes: list[int], size: int, seed: int
) -> None:
    keys = np.random.default_rng(seed).permutation(sum(sizes)) / 1000.0
    parts = [Reservoir(size, 1).update(k, k[:, None]) for k in np.split(keys, np.cumsum(sizes)[:-1])]
    all_keys = [part.keys for part in parts]
    for place, part in enumerate(parts):
        part.trim(np.concatenate([other for rank, other in enumerate(all_keys) if rank != place]))
    kept = np.concatenate([part.rows[:, 0] for part in parts])
    assert np.array_equal(np.sort(kept), np.sort(keys)[:size])
