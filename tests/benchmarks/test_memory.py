"""Peaks of the resident memory, in processes of their own."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import _memory
from _memory import in_new_process, resident_growth
from _timing import Work, fitted_model
from memory import step_growth
from prediction import N_FEATURES, prediction_growth

pytestmark = pytest.mark.skipif(not _memory.STATUS.exists(), reason="the peak can be reset only where there is /proc")

MEGABYTE = 1024 * 1024


def test_growth_includes_memory_that_was_freed_again() -> None:
    grown = resident_growth(lambda: np.ones(8 * MEGABYTE).sum())
    assert 60 * MEGABYTE <= grown < 100 * MEGABYTE


def test_growth_leaves_out_an_earlier_peak() -> None:
    np.ones(16 * MEGABYTE).sum()
    assert resident_growth(lambda: None) < 8 * MEGABYTE


def test_growth_of_a_prediction_is_measured_in_another_process(tmp_path: Path) -> None:
    fitted_model(N_FEATURES, 20).save(tmp_path / "model.fls")
    assert 0 < in_new_process(prediction_growth, tmp_path / "model.fls", 60_000) < 500 * MEGABYTE


def test_growth_of_a_step_stays_below_the_full_tensor() -> None:
    work = Work(4096, 100, 100)
    assert in_new_process(step_growth, "hs", work) < 0.25 * 4 * work.batch * work.n_features * work.n_rules


def test_error_in_the_other_process_is_raised() -> None:
    with pytest.raises(FileNotFoundError, match=r"missing\.fls"):
        in_new_process(os.stat, "missing.fls")
