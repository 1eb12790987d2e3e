"""Peaks of memory as the operating system sees them, in processes of their own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from deepfls.bench import peak
from deepfls.bench.prediction import fitted

pytestmark = pytest.mark.skipif(not peak._STATUS.exists(), reason="the peak can be set back only where there is /proc")

MEGABYTE = 1024 * 1024


def test_growth_sees_what_was_freed_again() -> None:
    grown = peak.resident_growth(lambda: np.ones(8 * MEGABYTE).sum())
    assert 60 * MEGABYTE <= grown < 100 * MEGABYTE


def test_growth_forgets_an_earlier_peak() -> None:
    np.ones(16 * MEGABYTE).sum()
    assert peak.resident_growth(lambda: None) < 8 * MEGABYTE


def test_growth_of_a_prediction_is_measured_in_another_process(tmp_path: Path) -> None:
    fitted().save(tmp_path / "model.fls")
    assert 0 < peak.prediction_growth(tmp_path / "model.fls", 60_000) < 500 * MEGABYTE


def test_growth_of_a_step_stays_below_the_full_tensor() -> None:
    full = 4 * 4096 * 100 * 100
    assert peak.step_growth("hs", 4096, 100, 100) < 0.25 * full


def test_failure_in_the_other_process_is_told() -> None:
    with pytest.raises(RuntimeError, match=r"measuring memory failed: .*missing\.fls"):
        peak.prediction_growth(Path("missing.fls"), 10)
