"""The training loop: learns, stops, recovers, and leaves the world as it was."""

from __future__ import annotations

import contextlib
import random
import signal
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from deepfls.functional.losses import l2
from deepfls.nn import IT2FLS, T1FLS
from deepfls.train import TrainConfig, TrainResult, train
from deepfls.train.loop import Rows

INTERRUPTED = "Training was interrupted in epoch {} of {}; {} kept."
DIVERGED = (
    "Training left the finite numbers in epoch {} at ever smaller rates and was stopped; the last finite parameters are "
    "kept. A smaller learning_rate or a gradient_clip may help."
)


def wave(n_rows: int = 40, seed: int = 0) -> Rows:
    x = torch.from_numpy(np.random.RandomState(seed).uniform(-1.5, 1.5, size=(n_rows, 2))).float()
    return Rows(x, torch.sin(2.0 * x[:, :1]) + 0.5 * x[:, 1:])


def new_system(kind: str = "t1", n_outputs: int = 1) -> T1FLS | IT2FLS:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return T1FLS(2, n_outputs, n_rules=4) if kind == "t1" else IT2FLS(2, n_outputs, n_rules=4)


def run(system: T1FLS | IT2FLS, rows: Rows | None = None, *, seed: int = 0, **options: Any) -> TrainResult:
    """Train with small settings, overridden by ``options``."""
    validation, progress = options.pop("validation", None), options.pop("progress", None)
    config = TrainConfig(**{"epochs": 4, "batch_size": 8, "learning_rate": 0.02, **options})
    generator = torch.Generator().manual_seed(seed)
    return train(
        system, wave() if rows is None else rows, config, generator=generator, validation=validation, progress=progress
    )


def mean_loss(system: T1FLS | IT2FLS, rows: Rows) -> float:
    with torch.no_grad():
        return float(l2(system(rows.x), rows.target).mean())


def copies(system: T1FLS | IT2FLS) -> list[Tensor]:
    return [p.detach().clone() for p in system.parameters()]


def assert_equal(first: list[Tensor], second: list[Tensor]) -> None:
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def assert_finite(system: T1FLS | IT2FLS) -> None:
    assert all(bool(torch.isfinite(p).all()) for p in system.parameters())
    assert bool(torch.isfinite(system(wave().x)).all())


class FailingLoss:
    """The squared error, with something else at one of its calls."""

    def __init__(self, call: int, then: Callable[[Tensor], Tensor]) -> None:
        self.call, self.then, self.calls = call, then, 0

    def __call__(self, y: Tensor, target: Tensor) -> Tensor:
        self.calls += 1
        losses = l2(y, target)
        return self.then(losses) if self.calls == self.call else losses


def interrupt(losses: Tensor) -> Tensor:
    raise KeyboardInterrupt


def not_a_number(losses: Tensor) -> Tensor:
    return losses * float("nan")


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
    history = run(system, Rows(rows.x, (rows.target > 0).float()), loss="cross-entropy", epochs=10).history
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
    run(first, Rows(rows.x, rows.target, weight))
    run(second, Rows(rows.x, corrupted, weight))
    assert_equal(copies(first), copies(second))


def test_weights_equal_repeats_in_one_batch() -> None:
    rows, counts = wave(10), torch.arange(10) % 3 + 1
    first, second = new_system(), new_system()
    run(first, Rows(rows.x, rows.target, counts / counts.float().mean()), batch_size=64, optimizer="sgd")
    repeated = Rows(rows.x.repeat_interleave(counts, 0), rows.target.repeat_interleave(counts, 0))
    run(second, repeated, batch_size=64, optimizer="sgd")
    for a, b in zip(first.parameters(), second.parameters(), strict=True):
        torch.testing.assert_close(a, b)


def test_scalar_loss_is_refused_when_there_are_weights() -> None:
    rows = wave(8)
    message = r"^loss must return shape \(batch, \.\.\.\) with batch=8 so that sample weights can apply, got \(\)\.$"
    with pytest.raises(ValueError, match=message):
        run(new_system(), Rows(rows.x, rows.target, torch.ones(8)), loss=torch.nn.MSELoss())


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
    rows = Rows(wave(8).x, wave(8).target * 1e6)
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

    def epoch(self, row: dict[str, float]) -> None:
        self.epochs.append(row)


def test_progress_is_told_of_every_step() -> None:
    listener = Listener()
    run(new_system(), wave(20), epochs=2, progress=listener)
    assert listener.steps == [8, 8, 4, 8, 8, 4]


def test_progress_is_told_the_rows_of_the_history() -> None:
    listener = Listener()
    result = run(new_system(), progress=listener)
    assert listener.epochs == result.history


# Early stopping


def test_best_epoch_is_restored() -> None:
    system, rows = new_system(), wave(seed=1)
    # Training leads away from what the untrained system says.
    validation = Rows(rows.x, system(rows.x).detach())
    history = run(system, validation=validation).history
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
    validation = Rows(rows.x * 1e30, rows.target)
    system = new_system()
    result = run(system, epochs=9, validation=validation, patience=2)
    assert (result.stopped_by, len(result.history)) == ("patience", 2)
    assert_finite(system)


# Interrupts and divergence


def test_interrupt_keeps_the_parameters_reached() -> None:
    system, reached = new_system(), new_system()
    # The 13th batch is the third of the third epoch: two epochs and two steps were done.
    with pytest.warns(UserWarning, match="^Training was interrupted") as caught:
        result = run(system, loss=FailingLoss(13, interrupt))
    with contextlib.suppress(ZeroDivisionError):
        run(reached, loss=FailingLoss(13, lambda losses: 1 / 0))  # type: ignore[arg-type,return-value]
    assert [str(w.message) for w in caught] == [INTERRUPTED.format(3, 4, "the parameters reached are")]
    assert (result.stopped_by, len(result.history), result.n_steps) == ("interrupt", 2, 12)
    assert_equal(copies(system), copies(reached))


def test_interrupt_keeps_the_best_epoch_when_there_is_validation() -> None:
    system, validation = new_system(), wave(seed=1)
    # Every epoch calls the loss five times for its batches and once for the validation.
    with pytest.warns(UserWarning, match="^Training was interrupted") as caught:
        result = run(system, loss=FailingLoss(21, interrupt), validation=validation)
    assert [str(w.message) for w in caught] == [INTERRUPTED.format(4, 4, "the best epoch's parameters are")]
    assert mean_loss(system, validation) == pytest.approx(min(r["validation_loss"] for r in result.history), rel=1e-6)


@pytest.mark.parametrize("call", [1, 3], ids=["first step", "later step"])
def test_interrupt_in_the_first_epoch_leaves_a_usable_system(call: int) -> None:
    system = new_system()
    with pytest.warns(UserWarning, match=r"^Training was interrupted in epoch 1 of 4; the parameters reached are kept\.$"):
        run(system, loss=FailingLoss(call, interrupt))
    assert_finite(system)


def test_interrupt_after_numbers_were_lost_goes_back_to_the_last_epoch() -> None:
    system = new_system()

    class Loss(FailingLoss):
        def __call__(self, y: Tensor, target: Tensor) -> Tensor:
            losses = super().__call__(y, target)
            return not_a_number(losses) if self.calls == self.call - 1 else losses

    with pytest.warns(UserWarning, match=r"^Training was interrupted in epoch 2 of 4"):
        run(system, loss=Loss(8, interrupt))
    assert_finite(system)


def test_signal_of_ctrl_c_ends_training() -> None:
    def press(losses: Tensor) -> Tensor:
        signal.raise_signal(signal.SIGINT)
        return losses

    before = signal.getsignal(signal.SIGINT)
    with pytest.warns(UserWarning, match=r"^Training was interrupted in epoch 2 of 4"):
        result = run(new_system(), loss=FailingLoss(7, press))
    assert result.stopped_by == "interrupt"
    assert signal.getsignal(signal.SIGINT) is before


def test_one_bad_epoch_is_taken_back_at_a_tenth_of_the_rate() -> None:
    system = new_system()
    result = run(system, loss=FailingLoss(8, not_a_number))
    assert [row["epoch"] for row in result.history] == [1.0, 3.0, 4.0]
    assert [row["learning_rate"] for row in result.history] == pytest.approx([0.02, 0.002, 0.002])
    assert_finite(system)


@pytest.mark.parametrize("kind", ["t1", "it2"])
def test_divergence_ends_with_the_last_finite_parameters(kind: str) -> None:
    system = new_system(kind)
    before = copies(system)
    with pytest.warns(UserWarning, match="^Training left the finite numbers") as caught:
        result = run(system, epochs=50, loss=lambda y, t: not_a_number(y - t))
    assert [str(w.message) for w in caught] == [DIVERGED.format(4)]
    assert (result.stopped_by, result.history) == ("divergence", [])
    assert_equal(copies(system), before)


@pytest.mark.parametrize("epochs", [1, 3])
def test_divergence_is_told_when_no_epoch_was_good(epochs: int) -> None:
    with pytest.warns(UserWarning, match="^Training left the finite numbers") as caught:
        result = run(new_system(), epochs=epochs, loss=lambda y, t: not_a_number(y - t))
    assert [str(w.message) for w in caught] == [DIVERGED.format(epochs)]
    assert result.stopped_by == "divergence"


@pytest.mark.parametrize("kind", ["t1", "it2"])
@pytest.mark.parametrize("optimizer", ["adam", "sgd", "rprop"])
def test_absurd_rate_ends_finite(kind: str, optimizer: str) -> None:
    system = new_system(kind)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # whether it says so depends on where the optimiser lands
        run(system, epochs=10, learning_rate=1e30, optimizer=optimizer)
    assert_finite(system)


# The world outside


@contextlib.contextmanager
def threads(n: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(n)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def outside() -> dict[str, Any]:
    return {
        "threads": torch.get_num_threads(),
        "torch": torch.get_rng_state().tolist(),
        "numpy": np.random.get_state()[1].tolist(),  # noqa: NPY002  # the global one is what may not change
        "python": random.getstate(),
        "dtype": torch.get_default_dtype(),
        "gradients": torch.is_grad_enabled(),
        "warnings": list(warnings.filters),
    }


@pytest.mark.parametrize("kind", ["t1", "it2"])
def test_training_leaves_the_world_as_it_was(kind: str) -> None:
    with threads(2):
        before = outside()
        run(new_system(kind), validation=wave(seed=1))
        assert outside() == before


def failed(losses: Tensor) -> Tensor:
    raise RuntimeError("a bug in the loss")


@pytest.mark.parametrize(("then", "error"), [(interrupt, None), (failed, RuntimeError)], ids=["interrupt", "error"])
def test_training_leaves_the_world_as_it_was_when_it_ends_early(
    then: Callable[[Tensor], Tensor], error: type[Exception] | None
) -> None:
    with threads(2), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        before = outside()
        with contextlib.nullcontext() if error is None else pytest.raises(error, match="a bug in the loss"):
            run(new_system(), loss=FailingLoss(7, then))
        assert outside() == before


def test_small_work_runs_on_one_thread() -> None:
    seen = []

    def watching(y: Tensor, target: Tensor) -> Tensor:
        seen.append(torch.get_num_threads())
        return l2(y, target)

    with threads(2):
        run(new_system(), loss=watching, epochs=1)
    assert set(seen) == {1}


def test_training_leaves_the_rows_alone() -> None:
    rows = wave()
    run(new_system(), rows)
    assert torch.equal(rows.x, wave().x)
    assert torch.equal(rows.target, wave().target)
