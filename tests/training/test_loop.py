"""The training loop: learns, records, stops."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from deepfls.functional.losses import l2
from deepfls.nn import IT2FLS, T1FLS
from deepfls.training import TrainConfig
from deepfls.training.steps import Rows
from loop_cases import (
    assert_equal,
    assert_finite,
    copies,
    mean_loss,
    new_system,
    run,
    wave,
)

# Learning


@pytest.mark.parametrize("kind", ["t1", "it2"])
def test_training_learns(kind: str) -> None:
    system = new_system(kind)
    before = mean_loss(system, wave())
    run(system, epochs=40, learning_rate=0.05)
    assert mean_loss(system, wave()) < 0.1 * before


@pytest.mark.parametrize("loss", ["l1", "l2", "huber", "log-cosh", "pinball"])
def test_training_lowers_the_loss_it_is_given(loss: str) -> None:
    history = run(new_system(), loss=loss, epochs=10, learning_rate=0.05).history
    assert history[-1]["loss"] < 0.7 * history[0]["loss"]


def test_training_lowers_cross_entropy() -> None:
    rows = wave()
    system = new_system(n_outputs=2)
    history = run(system, Rows.of(rows.x, (rows.target > 0).float()), loss="cross-entropy", epochs=10).history
    assert history[-1]["loss"] < history[0]["loss"]


@pytest.mark.parametrize(
    "loss",
    [
        lambda y, t: (y - t).square(),
        lambda y, t: (y - t).square().mean(),
        lambda y, t: (y - t).square()[:, 0],
        torch.nn.MSELoss(),
    ],
    ids=["(batch, outputs)", "scalar", "(batch,)", "torch module"],
)
def test_callable_loss_equals_the_named_one(loss: Callable[..., Tensor]) -> None:
    first, second = new_system(), new_system()
    run(first, loss=loss)
    run(second, loss="l2")
    for a, b in zip(first.parameters(), second.parameters(), strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("kind", ["t1", "it2"])
def test_same_seed_gives_the_same_bits(kind: str) -> None:
    first, second = new_system(kind), new_system(kind)
    run(first)
    run(second)
    assert_equal(copies(first), copies(second))


def test_another_seed_shuffles_differently() -> None:
    first, second = new_system(), new_system()
    run(first, seed=0)
    run(second, seed=1)
    assert not torch.equal(first.centers, second.centers)


def test_zero_epochs_change_nothing() -> None:
    system = new_system()
    before = copies(system)
    assert run(system, epochs=0).history == []
    assert_equal(copies(system), before)


@pytest.mark.parametrize(("drop_last", "steps"), [(False, 3), (True, 2)])
def test_steps_of_an_epoch_count_the_last_batch_unless_dropped(drop_last: bool, steps: int) -> None:
    assert run(new_system(), wave(20), epochs=1, drop_last=drop_last).n_steps == steps


def test_drop_last_keeps_one_batch_when_rows_are_fewer_than_a_batch() -> None:
    assert run(new_system(), wave(5), epochs=2, drop_last=True).n_steps == 2


def test_every_row_is_seen_once_per_epoch() -> None:
    seen: list[float] = []

    def watching(y: Tensor, target: Tensor) -> Tensor:
        seen.extend(target[:, 0].tolist())
        return l2(y, target)

    run(new_system(), wave(21), loss=watching, epochs=1)
    assert sorted(seen) == sorted(wave(21).target[:, 0].tolist())


def test_rows_of_weight_zero_teach_nothing() -> None:
    rows = wave(16)
    weight = (torch.arange(16) % 2).float() * 2.0
    corrupted = torch.where(weight.unsqueeze(1) > 0, rows.target, torch.full_like(rows.target, 99.0))
    first, second = new_system(), new_system()
    run(first, Rows.of(rows.x, rows.target, weight))
    run(second, Rows.of(rows.x, corrupted, weight))
    assert_equal(copies(first), copies(second))


def test_weights_equal_repeats_in_one_batch() -> None:
    rows, counts = wave(10), torch.arange(10) % 3 + 1
    first, second = new_system(), new_system()
    run(first, Rows.of(rows.x, rows.target, counts / counts.float().mean()), batch_size=64, optimizer="sgd")
    repeated = Rows.of(rows.x.repeat_interleave(counts, 0), rows.target.repeat_interleave(counts, 0))
    run(second, repeated, batch_size=64, optimizer="sgd")
    for a, b in zip(first.parameters(), second.parameters(), strict=True):
        torch.testing.assert_close(a, b)


def test_scalar_loss_is_refused_when_there_are_weights() -> None:
    rows = wave(8)
    message = r"^loss must return shape \(batch, \.\.\.\) with batch=8 so that sample weights can apply, got \(\)\.$"
    with pytest.raises(ValueError, match=message):
        run(new_system(), Rows.of(rows.x, rows.target, torch.ones(8)), loss=torch.nn.MSELoss())


def test_loss_of_another_length_is_refused() -> None:
    message = r"^loss must return a scalar or shape \(batch, \.\.\.\) with batch=8, got \(1, 8\)\.$"
    with pytest.raises(ValueError, match=message):
        run(new_system(), wave(8), loss=lambda y, t: l2(y, t).t())


def test_loss_that_returns_a_float_is_refused() -> None:
    with pytest.raises(TypeError, match=r"^loss must return a torch\.Tensor, got float\.$"):
        run(new_system(), loss=lambda y, t: 1.0)


def test_gradient_clip_bounds_a_step_of_gradient_descent() -> None:
    system = new_system()
    before = copies(system)
    rows = Rows.of(wave(8).x, wave(8).target * 1e6)
    run(system, rows, epochs=1, optimizer="sgd", learning_rate=0.5, gradient_clip=0.1)
    moved = sum(float((a - b).square().sum()) for a, b in zip(copies(system), before, strict=True)) ** 0.5
    assert moved == pytest.approx(0.05, rel=1e-3)


def decay_alone(system: T1FLS | IT2FLS) -> None:
    """Ten steps without a gradient, each by 0.1 * 0.5 of the way."""
    run(system, epochs=2, loss=lambda y, t: 0.0 * y, optimizer="sgd", learning_rate=0.1, weight_decay=0.5)


def test_weight_decay_pulls_the_slopes_of_the_rules_together() -> None:
    system = new_system()
    before = system.slopes.detach().clone()
    decay_alone(system)
    common = before.mean(dim=0)
    torch.testing.assert_close(system.slopes.detach(), common + 0.95**10 * (before - common))


def test_weight_decay_leaves_everything_else_alone() -> None:
    system = new_system()
    before = {name: value.clone() for name, value in system.state_dict().items()}
    decay_alone(system)
    changed = {name for name, value in system.state_dict().items() if not torch.equal(value, before[name])}
    assert changed == {"consequents.raw_slopes"}


def test_frozen_parameters_stay() -> None:
    system = new_system()
    system.antecedents.requires_grad_(False)
    before = system.centers.detach().clone()
    run(system)
    assert torch.equal(system.centers, before)


def test_gradients_are_cleared_after_training() -> None:
    system = new_system()
    run(system)
    assert all(p.grad is None for p in system.parameters())


# History and progress


@pytest.mark.parametrize("with_validation", [False, True])
def test_history_has_a_row_of_numbers_per_epoch(with_validation: bool) -> None:
    history = run(new_system(), validation=wave(seed=1) if with_validation else None).history
    keys = {"epoch", "loss", "learning_rate", "seconds", *(["validation_loss"] if with_validation else [])}
    assert [set(row) for row in history] == [keys] * 4
    assert all(type(value) is float for row in history for value in row.values())


def test_history_counts_epochs_and_seconds() -> None:
    history = run(new_system()).history
    assert [row["epoch"] for row in history] == [1.0, 2.0, 3.0, 4.0]
    assert [row["seconds"] for row in history] == sorted(row["seconds"] for row in history)


def test_history_loss_is_the_mean_over_rows_when_batches_differ_in_size() -> None:
    system, rows = new_system(), wave(9)
    before = mean_loss(system, rows)
    # At a rate of next to nothing the epoch's loss is that of the system it began with.
    assert run(system, rows, epochs=1, learning_rate=1e-30).history[0]["loss"] == pytest.approx(before, rel=1e-5)


def test_history_shows_the_rate_of_the_last_step_of_each_epoch() -> None:
    config = TrainConfig(schedule="cosine", learning_rate=0.02)
    rates = [row["learning_rate"] for row in run(new_system(), schedule="cosine").history]
    assert rates == pytest.approx([config.rate(5 * epoch + 4, 20) for epoch in range(4)])


class Listener:
    def __init__(self) -> None:
        self.steps: list[int] = []
        self.epochs: list[dict[str, float]] = []

    def step(self, n_rows: int) -> None:
        self.steps.append(n_rows)

    def compiled(self, seconds: float) -> None:
        pass

    def epoch(self, row: dict[str, float]) -> None:
        self.epochs.append(row)


def test_progress_is_told_of_all_rows() -> None:
    listener = Listener()
    run(new_system(), wave(20), epochs=2, progress=listener)
    assert listener.steps == [20, 20]


def test_progress_is_told_the_rows_of_the_history() -> None:
    listener = Listener()
    result = run(new_system(), progress=listener)
    assert listener.epochs == result.history


# Early stopping


def test_best_epoch_is_restored() -> None:
    system, rows = new_system(), wave(seed=1)
    # Training leads away from what the untrained system says.
    validation = Rows.of(rows.x, system(rows.x).detach())
    history = run(system, validation=validation, patience=9).history
    losses = [row["validation_loss"] for row in history]
    assert losses[-1] > min(losses), "the test needs a run that ends worse than its best epoch"
    assert mean_loss(system, validation) == pytest.approx(min(losses), rel=1e-6)


def test_patience_stops_that_many_epochs_after_the_best() -> None:
    result = run(new_system(), epochs=200, learning_rate=0.4, validation=wave(seed=1), patience=3)
    losses = [row["validation_loss"] for row in result.history]
    assert result.stopped_by == "patience"
    assert len(losses) == losses.index(min(losses)) + 1 + 3


def test_patience_restores_the_best_epoch() -> None:
    system, validation = new_system(), wave(seed=1)
    history = run(system, epochs=200, learning_rate=0.4, validation=validation, patience=3).history
    assert mean_loss(system, validation) == pytest.approx(min(row["validation_loss"] for row in history), rel=1e-6)


def test_patience_without_validation_runs_all_epochs() -> None:
    result = run(new_system(), patience=1)
    assert (result.stopped_by, len(result.history)) == ("epochs", 4)


def test_training_ends_finite_when_the_validation_loss_never_is() -> None:
    rows = wave(4)
    validation = Rows.of(rows.x * 1e30, rows.target)
    system = new_system()
    result = run(system, epochs=9, validation=validation, patience=2)
    assert (result.stopped_by, len(result.history)) == ("patience", 2)
    assert_finite(system)


# Averaging


def test_averaged_run_of_few_epochs_is_the_beginning_of_a_longer_one() -> None:
    seen: list[list[Tensor]] = []
    long, short = new_system(), new_system()
    run(long, schedule="averaged", epochs=6, watch=lambda epoch: seen.append(copies(long)))
    run(short, schedule="averaged", epochs=3)
    assert_equal(copies(short), seen[2])
    assert_equal(copies(long), seen[5])


def test_averaged_run_leaves_the_average_of_its_last_epochs() -> None:
    steps: list[Tensor] = []
    plain, averaged = new_system(), new_system()
    run(plain, schedule="constant", epochs=30, watch=lambda epoch: steps.append(plain.centers.detach().clone()))
    run(averaged, schedule="averaged", epochs=30)
    expected = torch.zeros_like(steps[0])
    for epoch, centers in enumerate(steps, 1):
        expected.lerp_(centers, min(9.0 / (epoch + 8.0), 1.0))
    torch.testing.assert_close(averaged.centers.detach(), expected)
    assert not torch.equal(averaged.centers, plain.centers)


def test_averaged_run_with_validation_keeps_the_best_average() -> None:
    system = new_system()
    result = run(system, schedule="averaged", epochs=12, learning_rate=0.3, validation=wave(seed=1), patience=12)
    best = min(row["validation_loss"] for row in result.history)
    assert mean_loss(system, wave(seed=1)) == pytest.approx(best, rel=1e-5)
