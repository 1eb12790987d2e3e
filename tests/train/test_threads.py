"""A step on several threads: the gradients of one thread, and everybody's settings as they were."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import pytest
import torch

from deepfls.functional.losses import SetLoss, l2
from deepfls.train import threads
from deepfls.train.config import TrainConfig
from deepfls.train.gradients import ByKernels, gradients_of
from deepfls.train.loop import train
from deepfls.train.rows import Rows
from deepfls.train.threads import side_by_side
from loop_cases import new_system, wave


@pytest.fixture
def three_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


def gradients_on(n_threads: int, kind: str, loss: Any, rows: Rows) -> tuple[torch.Tensor, list[torch.Tensor]]:
    torch.set_num_threads(n_threads)
    system = new_system(kind).double()
    gradients = gradients_of(system, loss, list(system.parameters()))
    assert isinstance(gradients, ByKernels)
    with gradients.take_threads():
        gradients(rows, 0.5)  # the second call uses memory of the first
        return gradients(rows, 0.5), [p.grad.clone() for p in system.parameters()]


@pytest.mark.usefixtures("three_threads")
@pytest.mark.parametrize(
    ("kind", "loss"),
    [("t1", l2), ("it2", l2), ("it2", SetLoss(l2, coverage=0.8))],
    ids=["t1", "it2", "it2 and the loss of a set"],
)
@pytest.mark.parametrize("n_rows", [2, 3, 40])  # fewer rows than threads, as many, and parts that differ by one
@pytest.mark.parametrize("weighted", [False, True])
def test_gradients_on_three_threads_equal_those_on_one(kind: str, loss: Any, n_rows: int, weighted: bool) -> None:
    x, target = wave().x[:n_rows].double(), wave().target[:n_rows].double()
    rows = Rows(x, target, torch.linspace(0.0, 2.0, n_rows, dtype=torch.float64) if weighted else None)
    (loss_1, grads_1), (loss_3, grads_3) = (gradients_on(n, kind, loss, rows) for n in (1, 3))
    torch.testing.assert_close(loss_3, loss_1)
    for one, three in zip(grads_1, grads_3, strict=True):
        torch.testing.assert_close(three, one, rtol=1e-10, atol=1e-13)


def _torch_threads_of_a_new_thread() -> int:
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.append(torch.get_num_threads()))
    thread.start()
    thread.join()
    return found[0]


@pytest.mark.usefixtures("three_threads")
def test_training_on_threads_leaves_the_settings_of_all_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "_THREADED_WORK", 0)
    threads._workers.cache_clear()  # workers that begin during the run
    during: list[int] = []

    class Watch:
        def compiled(self, seconds: float) -> None: ...

        def step(self, n_rows: int) -> None:
            during.append(torch.get_num_threads())

        def epoch(self, row: dict[str, float]) -> None: ...

    generator = torch.Generator().manual_seed(0)
    train(new_system(), wave(), TrainConfig(epochs=2, batch_size=20), generator=generator, progress=Watch())
    assert set(during) == {3}
    assert torch.get_num_threads() == 3
    assert _torch_threads_of_a_new_thread() == 3


@pytest.mark.usefixtures("three_threads")
def test_training_on_threads_is_the_same_every_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "_THREADED_WORK", 0)
    ends = []
    for _ in range(2):
        system = new_system("it2")
        train(system, wave(), TrainConfig(epochs=3, batch_size=16), generator=torch.Generator().manual_seed(0))
        ends.append(torch.cat([p.detach().reshape(-1) for p in system.parameters()]))
    assert torch.equal(*ends)


def test_an_error_of_another_thread_is_raised() -> None:
    met = threading.Barrier(2, timeout=30)

    def fail(number: int) -> None:
        met.wait()  # both threads have begun, so that each has one of the two
        if threading.current_thread() is not threading.main_thread():
            raise ValueError("of another thread")

    with pytest.raises(ValueError, match="of another thread"):
        side_by_side(fail, 2)


def test_all_is_done_where_no_other_thread_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a process forked from one that had workers: they are not there, and what is handed to them waits for ever."""

    class Gone:
        def submit(self, work: Any) -> Future[None]:
            return Future()

    monkeypatch.setattr(threads, "_workers", Gone)
    done: list[int] = []
    side_by_side(done.append, 4)
    assert done == [0, 1, 2, 3]
