"""The training loop with a coverage: the type-reduced set is trained as an interval."""

from __future__ import annotations

import pytest
import torch

from deepfls.functional.losses import SetLoss, l2
from deepfls.nn import IT2FLS
from deepfls.training import TrainConfig
from deepfls.training.steps import Rows
from loop_cases import copies, new_system, run, wave


def noisy(n_rows: int = 400) -> Rows:
    rows = wave(n_rows)
    noise = 0.3 * torch.randn(n_rows, 1, generator=torch.Generator().manual_seed(1))
    return Rows.of(rows.x, rows.target + noise)


def set_loss(system: IT2FLS, rows: Rows, loss: SetLoss) -> float:
    with torch.no_grad():
        losses = loss(*system.reduce(rows.x), rows.target)
        return float((losses if rows.weight is None else losses * rows.weight.unsqueeze(1)).mean())


def test_set_is_trained_to_hold_the_share_asked_for() -> None:
    covered = {}
    for coverage in (0.5, 0.9):
        system, rows = new_system("it2"), noisy()
        assert isinstance(system, IT2FLS)
        run(system, rows, epochs=60, batch_size=50, learning_rate=0.03, coverage=coverage)
        with torch.no_grad():
            y_left, y_right, _ = system.reduce(rows.x)
        covered[coverage] = float(((y_left <= rows.target) & (rows.target <= y_right)).float().mean())
    assert covered == pytest.approx({0.5: 0.5, 0.9: 0.9}, abs=0.1)


@pytest.mark.parametrize("weighted", [False, True])
def test_history_tells_the_loss_of_the_set(weighted: bool) -> None:
    system, rows = new_system("it2"), wave()
    assert isinstance(system, IT2FLS)
    weight = torch.linspace(0.5, 1.5, len(rows)) if weighted else None
    rows = Rows.of(rows.x, rows.target, weight)
    expected = set_loss(system, rows, SetLoss(l2, 0.9, 2.0))
    options = {"coverage": 0.9, "interval_weight": 2.0, "validation": rows}
    history = run(system, rows, epochs=1, batch_size=len(rows), **options).history
    assert history[0]["loss"] == pytest.approx(expected, rel=1e-5)
    assert history[0]["validation_loss"] == pytest.approx(set_loss(system, rows, SetLoss(l2, 0.9, 2.0)), rel=1e-5)


def test_weight_of_the_ends_of_zero_takes_the_steps_of_the_point_loss() -> None:
    systems = [new_system("it2"), new_system("it2")]
    run(systems[0], epochs=2)
    run(systems[1], epochs=2, coverage=0.9, interval_weight=0.0)
    for plain, weightless in zip(copies(systems[0]), copies(systems[1]), strict=True):
        torch.testing.assert_close(weightless, plain, rtol=1e-4, atol=1e-6)


def test_type_1_system_has_no_set_to_train() -> None:
    with pytest.raises(TypeError, match=r"^coverage must be None for a system without a type-reduced set, got a T1FLS.$"):
        run(new_system("t1"), coverage=0.9)


def test_coverage_and_weight_are_checked_when_the_settings_are_made() -> None:
    with pytest.raises(ValueError, match=r"coverage must be greater than 0 and less than 1, got 1.2"):
        TrainConfig(coverage=1.2)
    with pytest.raises(ValueError, match="interval_weight must be at least 0, got -1"):
        TrainConfig(coverage=0.9, interval_weight=-1.0)
