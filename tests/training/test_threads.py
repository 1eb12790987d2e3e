"""A step on several threads: the gradients of one thread, and everybody's settings as they were."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from deepfls.functional.losses import SetLoss, l2
from deepfls.training import gradients as gradients_module
from deepfls.training import threads
from deepfls.training.config import TrainConfig
from deepfls.training.gradients import ByKernels, gradients_of
from deepfls.training.loop import train
from deepfls.training.rows import Rows
from deepfls.training.threads import OneTorchThread, side_by_side
from loop_cases import new_system, wave


@pytest.fixture
def three_threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Three threads, for any number of rows."""
    monkeypatch.setattr(threads, "_THREADED_WORK", 0)
    monkeypatch.setattr(gradients_module, "_ROWS_OF_A_PART", 1)
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


def gradients_on(n_threads: int, kind: str, loss: Any, rows: Rows) -> tuple[float, list[torch.Tensor]]:
    torch.set_num_threads(n_threads)
    system = new_system(kind).double()
    gradients = gradients_of(system, loss, list(system.parameters()))
    assert isinstance(gradients, ByKernels)
    with gradients.take_threads():
        gradients(rows, 0.5)  # the second call uses memory of the first
        return float(gradients(rows, 0.5)), [p.grad.clone() for p in system.parameters()]


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
    assert loss_3 == pytest.approx(loss_1, rel=1e-10)
    for one, three in zip(grads_1, grads_3, strict=True):
        torch.testing.assert_close(three, one, rtol=1e-10, atol=1e-13)


def _torch_threads_of_a_new_thread() -> int:
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.append(torch.get_num_threads()))
    thread.start()
    thread.join()
    return found[0]


class Watch:
    """Notes how many threads torch has during a run."""

    def __init__(self) -> None:
        self.seen: set[int] = set()

    def compiled(self, seconds: float) -> None: ...

    def step(self, n_rows: int) -> None:
        self.seen |= {torch.get_num_threads(), _torch_threads_of_a_new_thread()}

    def epoch(self, row: dict[str, float]) -> None: ...


@pytest.mark.usefixtures("three_threads")
def test_training_on_threads_leaves_the_settings_of_all_threads() -> None:
    threads._workers.cache_clear()  # workers that begin in this run
    watch = Watch()
    generator = torch.Generator().manual_seed(0)
    train(new_system(), wave(), TrainConfig(epochs=2, batch_size=20), generator=generator, progress=watch)
    assert watch.seen == {3}
    assert torch.get_num_threads() == 3
    assert _torch_threads_of_a_new_thread() == 3


@pytest.mark.usefixtures("three_threads")
def test_every_part_has_one_thread_of_torch() -> None:
    seen: list[int] = []
    with OneTorchThread(3):
        side_by_side(lambda number: seen.append(torch.get_num_threads()), 3)
    assert seen == [1, 1, 1]
    assert torch.get_num_threads() == 3


@pytest.mark.usefixtures("three_threads")
def test_training_on_threads_is_the_same_every_time() -> None:
    ends = []
    for _ in range(2):
        system = new_system("it2")
        train(system, wave(), TrainConfig(epochs=3, batch_size=16), generator=torch.Generator().manual_seed(0))
        ends.append(torch.cat([p.detach().reshape(-1) for p in system.parameters()]))
    assert torch.equal(*ends)


def test_all_numbers_are_called_at_the_same_time_however_many() -> None:
    n_tasks = 2 * (os.cpu_count() or 1) + 40
    met, passed = threading.Barrier(n_tasks, timeout=60), []

    def meet(number: int) -> None:
        met.wait()  # breaks unless all are here at once
        passed.append(number)

    side_by_side(meet, n_tasks)
    assert sorted(passed) == list(range(n_tasks))


def test_an_error_is_raised_when_all_parts_have_ended() -> None:
    ended: list[int] = []

    def fail(number: int) -> None:
        if number == 1:
            raise ValueError("of another thread")
        time.sleep(0.05)
        ended.append(number)

    with pytest.raises(ValueError, match="of another thread"):
        side_by_side(fail, 3)
    assert sorted(ended) == [0, 2]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_process_has_workers_of_its_own() -> None:
    source = (
        "import os, torch\n"
        "from deepfls.training.threads import side_by_side\n"
        "done = []\n"
        "side_by_side(done.append, 3)\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    side_by_side(done.append, 3)\n"
        "    os._exit(len(done))\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
    )
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", source], capture_output=True, text=True, timeout=120)
    assert done.stdout.split() == ["6"], done.stderr
