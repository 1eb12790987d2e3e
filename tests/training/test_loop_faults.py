"""The training loop where it is interrupted or diverges, and what it leaves alone."""

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
from deepfls.training.distributed import Group
from deepfls.training.steps import Batch, FlatParameters, Rows, step_for, summed_step
from loop_cases import (
    DIVERGED,
    INTERRUPTED,
    FailingLoss,
    assert_equal,
    assert_finite,
    copies,
    interrupt,
    mean_loss,
    new_system,
    not_a_number,
    run,
    wave,
)

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
        result = run(system, loss=FailingLoss(21, interrupt), validation=validation, patience=9)
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

    # Whatever runs in the background of a shell begins with this signal ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.warns(UserWarning, match=r"^Training was interrupted in epoch 2 of 4"):
            result = run(new_system(), loss=FailingLoss(7, press))
        assert result.stopped_by == "interrupt"
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)


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


def test_divergence_of_the_only_trained_parameter_puts_it_back() -> None:
    system = new_system()
    system.requires_grad_(False)
    system.consequents.raw_intercepts.requires_grad_()
    before = copies(system)
    with pytest.warns(UserWarning, match="^Training left the finite numbers"):
        run(system, epochs=50, loss=lambda y, t: not_a_number(y - t))
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


def test_number_of_threads_of_torch_is_not_touched_during_training() -> None:
    seen = []

    def watching(y: Tensor, target: Tensor) -> Tensor:
        seen.append(torch.get_num_threads())
        return l2(y, target)

    with threads(2):
        run(new_system(), loss=watching, epochs=1)
    assert set(seen) == {2}


def test_training_leaves_the_rows_alone() -> None:
    rows = wave()
    run(new_system(), rows)
    assert torch.equal(rows.x, wave().x)
    assert torch.equal(rows.target, wave().target)


def test_loss_over_several_processes_keeps_its_precision() -> None:
    class Two(Group):
        """Two processes, of which the other has no rows."""

        def __init__(self) -> None:
            super().__init__(rank=0, size=2)

        def total(self, values: Tensor) -> Tensor:
            return values

    system = new_system("it2").double()
    rows = Rows.of(wave().x.double(), 1e25 * wave().target.double())
    flat = FlatParameters(system)
    step = step_for(system, l2, flat)
    loss = float(step(Batch.of(rows)))
    assert loss > torch.finfo(torch.float32).max
    assert float(summed_step(step, Batch.of(rows), 0, flat, Two())) == loss
