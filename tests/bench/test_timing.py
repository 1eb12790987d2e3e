"""How time is measured. No test here depends on how long anything takes."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from deepfls.bench import timing
from deepfls.bench.timing import Calls, Effort, Steps, Work, fastest, new_system, random_rows, run_steps, threads

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


def test_run_goes_through_the_real_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    batches = []
    real = timing.train

    def spied(system: Any, rows: Any, config: Any, **options: Any) -> Any:
        batches.append((len(rows), config.batch_size, config.epochs))
        return real(system, rows, config, **options)

    monkeypatch.setattr(timing, "train", spied)
    assert len(run_steps(new_system("hs", SMALL), random_rows(20, 2), 8)) == 3
    assert batches == [(20, 8, 1)]


def test_run_trains_the_system() -> None:
    system = new_system("t1", SMALL)
    before = [p.detach().clone() for p in system.parameters()]
    run_steps(system, random_rows(16, 2), 8)
    assert all(bool((p != old).any()) for p, old in zip(system.parameters(), before, strict=True))


def test_interrupted_run_is_no_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*args: Any, **options: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(torch.optim.Adam, "step", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_steps(new_system("t1", SMALL), random_rows(16, 2), 8)


def test_diverging_run_is_no_measurement() -> None:
    rows = random_rows(16, 2)
    rows.target.fill_(math.nan)
    with pytest.raises(RuntimeError, match="which is no measurement"):
        run_steps(new_system("t1", SMALL), rows, 8)


def test_step_time_is_the_mean_between_first_and_last_mark() -> None:
    ticks = iter(range(1000))
    steps = Steps("t1", SMALL, clock=lambda: 0.25 * next(ticks))
    assert steps() == 0.25


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


def test_compiling_is_said_where_it_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    spoken = timing.threading.Event()

    def say(text: str) -> None:
        said.append(text)
        spoken.set()

    monkeypatch.setattr(timing, "run_steps", lambda *args, **options: spoken.wait(10))
    timing.warm_up(say, patience=0.0)
    assert said == ["compiling kernels, once per machine ..."]


def test_nothing_is_said_where_kernels_are_there() -> None:
    said: list[str] = []
    timing.warm_up(said.append, patience=600.0)
    assert said == []
