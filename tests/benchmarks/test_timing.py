"""Time of steps and calls. No test depends on how long anything takes."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

import _timing
from _timing import Calls, Effort, EpochTimes, Steps, Work, fastest, new_system, random_rows, run_steps, threads

SMALL = Work(batch=8, n_features=2, n_rules=3)


def test_threads_are_as_before_also_after_an_error() -> None:
    before = torch.get_num_threads()
    inside = []

    def fail() -> None:
        with threads(before + 1):
            inside.append(torch.get_num_threads())
            raise ValueError

    with pytest.raises(ValueError):  # noqa: PT011  # our own
        fail()
    assert inside == [before + 1]
    assert torch.get_num_threads() == before


def test_steps_run_in_the_training_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    batches = []
    real = _timing.train

    def spied(system: Any, rows: Any, config: Any, **options: Any) -> Any:
        batches.append((len(rows), config.batch_size, config.epochs))
        return real(system, rows, config, **options)

    monkeypatch.setattr(_timing, "train", spied)
    assert len(run_steps(new_system("hs", SMALL), random_rows(20, 2), 8, epochs=2)) == 2
    assert batches == [(20, 8, 2)]


def test_run_trains_the_system() -> None:
    system = new_system("t1", SMALL)
    before = [p.detach().clone() for p in system.parameters()]
    run_steps(system, random_rows(16, 2), 8)
    assert all(bool((p != old).any()) for p, old in zip(system.parameters(), before, strict=True))


def test_interrupted_run_is_no_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(progress: EpochTimes, n_rows: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(EpochTimes, "step", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_steps(new_system("t1", SMALL), random_rows(16, 2), 8)


def test_diverging_run_is_no_measurement() -> None:
    rows = random_rows(16, 2)
    rows.target.fill_(math.nan)
    with pytest.raises(RuntimeError, match="which is no measurement"):
        run_steps(new_system("t1", SMALL), rows, 8)


def test_step_time_is_the_time_of_an_epoch_over_its_steps() -> None:
    ticks = iter(range(1000))
    steps = Steps("t1", SMALL, clock=lambda: 0.25 * next(ticks))
    assert steps._n_steps == 2  # the fewest, for steps that seem to take longer than a window
    assert steps() == 0.125


def test_window_of_calls_is_divided_by_their_number() -> None:
    moment = [0.0]

    def work() -> None:
        moment[0] += 0.001

    calls = Calls(work, clock=lambda: moment[0])
    assert calls() == pytest.approx(0.001)
    assert moment[0] > 0.01  # one window has several calls


def test_competitors_take_turns_and_the_shortest_window_counts() -> None:
    asked = []

    def competitor(name: str, times: list[float]) -> Any:
        def call() -> float:
            asked.append(name)
            return times.pop(0)

        return call

    best = fastest({"a": competitor("a", [3.0, 1.0, 2.0]), "b": competitor("b", [5.0, 6.0, 4.0])}, Effort(3, 60.0))
    assert best == {"a": 1.0, "b": 4.0}
    assert asked == ["a", "b", "b", "a", "a", "b"]


def test_effort_bounds_the_windows() -> None:
    calls = []
    fastest({"a": lambda: calls.append(0) or 1.0}, Effort(windows=50, seconds=0.0, min_windows=4))
    assert len(calls) == 4


@pytest.mark.parametrize("kind", ["t1", "hs", "h", "s"])
def test_new_system_leaves_torchs_generator_alone_and_repeats(kind: str) -> None:
    before = torch.random.get_rng_state()
    first, second = new_system(kind, SMALL), new_system(kind, SMALL)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert torch.equal(first(random_rows(4, 2).x), second(random_rows(4, 2).x))
    assert getattr(first, "uncertainty", "t1") == kind
