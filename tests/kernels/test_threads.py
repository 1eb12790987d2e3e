"""Rows over threads, and BLAS held at one thread by whoever is inside."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time

import pytest
import torch
from threadpoolctl import ThreadpoolController

from deepfls.kernels.threads import in_threads, n_parts_of, one_blas_thread, over_parts
from deepfls.training.loop import train
from deepfls.training.recipe import TrainConfig
from loop_cases import new_system, wave


def blas_threads() -> list[int]:
    libraries = ThreadpoolController().select(user_api="blas").lib_controllers
    return [library.get_num_threads() for library in libraries]


def test_parts_cover_all_rows_once() -> None:
    spans = over_parts(lambda part, first, end: (part, first, end), 11, 3)
    assert spans == [(0, 0, 3), (1, 3, 7), (2, 7, 11)]


def test_parts_run_at_the_same_time() -> None:
    met = threading.Barrier(3, timeout=60)
    over_parts(lambda *span: met.wait(), 3, 3)  # breaks unless all are there at once


def test_error_is_raised_when_all_parts_have_ended() -> None:
    ended: list[int] = []

    def fail(part: int, first: int, end: int) -> None:
        if part == 1:
            raise ValueError("of another thread")
        time.sleep(0.05)
        ended.append(part)

    with pytest.raises(ValueError, match="of another thread"):
        over_parts(fail, 3, 3)
    assert sorted(ended) == [0, 2]


def test_small_work_gets_one_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.get_num_threads", lambda: 4)
    assert n_parts_of(64, 13 * 15 * 3) == 1
    assert n_parts_of(8_192, 90 * 50 * 5) == 4
    assert n_parts_of(0, 100) == 1


def test_blas_is_held_at_one_thread_and_restored() -> None:
    with one_blas_thread():  # loads every library
        pass
    before = blas_threads()
    with one_blas_thread():
        assert set(blas_threads()) <= {1}
        with one_blas_thread():
            assert set(blas_threads()) <= {1}
        assert set(blas_threads()) <= {1}
    assert blas_threads() == before


def test_blas_is_held_at_one_thread_by_any_thread() -> None:
    with one_blas_thread():  # the main thread is the first to set the number
        pass
    before, found = blas_threads(), []

    def hold() -> None:
        with one_blas_thread():
            found.append(blas_threads())

    thread = threading.Thread(target=hold)
    thread.start()
    thread.join()
    assert set(found[0]) <= {1}
    assert blas_threads() == before


def test_blas_is_restored_when_another_thread_leaves_last() -> None:
    with one_blas_thread():  # loads every library
        pass
    before = blas_threads()
    inside, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with one_blas_thread():
            inside.set()
            leave.wait(60)

    thread = threading.Thread(target=hold)
    with one_blas_thread():
        thread.start()
        assert inside.wait(60)
    assert set(blas_threads()) <= {1}
    leave.set()
    thread.join()
    assert blas_threads() == before


def test_overlapping_fits_leave_all_thread_numbers_as_they_were() -> None:
    def state() -> tuple[int, list[int]]:
        return torch.get_num_threads(), blas_threads()

    with one_blas_thread():  # loads every library
        pass
    before = state()
    failures: list[str] = []

    def fit(place: int) -> None:
        def failing(y: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
            raise ZeroDivisionError

        loss = failing if place % 3 == 2 else "l2"
        try:
            train(
                new_system("it2"),
                wave(),
                TrainConfig(epochs=3, loss=loss, batch_size=8),
                generator=torch.Generator().manual_seed(place),
            )
        except ZeroDivisionError:
            failures.append("expected")

    threads = [threading.Thread(target=fit, args=(place,)) for place in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(failures) == 2
    assert state() == before


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_forked_process_has_threads_of_its_own() -> None:
    source = (
        "import os\n"
        "from deepfls.kernels.threads import one_blas_thread, over_parts\n"
        "with one_blas_thread():\n"
        "    over_parts(lambda *span: None, 9, 3)\n"
        "    child = os.fork()\n"
        "    if child == 0:\n"
        "        with one_blas_thread():\n"
        "            os._exit(len(over_parts(lambda *span: None, 9, 3)))\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
    )
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", source], capture_output=True, text=True, timeout=120)
    assert done.stdout.split() == ["3"], done.stderr


def test_results_of_threads_keep_their_order_and_errors_reach_the_caller() -> None:
    assert in_threads(lambda number, watch: 2 * number, range(5)) == [0, 2, 4, 6, 8]
    with pytest.raises(ZeroDivisionError):
        in_threads(lambda number, watch: 1 // number, range(3))


@pytest.mark.parametrize(("n_runs", "n_threads"), [(2, 4), (3, 2), (20, 1)])
def test_runs_side_by_side_share_the_cores(n_runs: int, n_threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    before = torch.get_num_threads()
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: range(8), raising=False)
    found = in_threads(lambda number, watch: torch.get_num_threads(), range(n_runs))
    assert found == [n_threads] * n_runs
    assert torch.get_num_threads() == before
