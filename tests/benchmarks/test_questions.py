"""Every question at small sizes: its rows, and no global setting changed afterwards."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import _timing
import fkm
import limit
import memory
import prediction
import steps
import threads
from _report import Row
from _timing import Effort, Work

QUESTIONS = {module.__name__: module for module in (steps, limit, fkm, prediction, threads, memory)}
TINY = Work(batch=8, n_features=3, n_rules=4)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small sizes and one window each."""
    monkeypatch.setattr(_timing, "QUICK", Effort(windows=1, seconds=0.0, min_windows=1))
    monkeypatch.setattr(steps, "QUICK_SIZES", ((8, 3),))
    monkeypatch.setattr(steps, "QUICK_RULES", (2, 4))
    monkeypatch.setattr(steps, "DENORMAL_WORK", TINY)
    monkeypatch.setattr(limit, "WORK", TINY)
    monkeypatch.setattr(fkm, "QUICK_WORKS", (TINY,))
    monkeypatch.setattr(fkm, "MANY_RULES", Work(8, 3, 100))
    monkeypatch.setattr(prediction, "QUICK_ROWS", 400)
    monkeypatch.setattr(prediction, "in_new_process", lambda function, path, n_rows: 1_000_000 + 100 * n_rows)
    monkeypatch.setattr(threads, "LARGE", TINY)
    monkeypatch.setattr(threads, "QUICK_SMALL", (TINY,))
    monkeypatch.setattr(threads, "PREDICTED_ROWS", 400)
    monkeypatch.setattr(threads, "n_cores", lambda: 2)
    monkeypatch.setattr(memory, "SIZES", tuple(Work(64, size, size) for size in (4, 8)))
    monkeypatch.setattr(memory, "in_new_process", lambda function, kind, work: 1_000_000)


def state() -> tuple[Any, ...]:
    return (
        torch.get_num_threads(),
        torch.get_default_dtype(),
        torch.is_grad_enabled(),
        torch.random.get_rng_state().sum().item(),
    )


def rows_of(name: str) -> list[Row]:
    return list(QUESTIONS[name].measure(quick=True))


@pytest.mark.parametrize("name", QUESTIONS)
@pytest.mark.usefixtures("small")
def test_question_yields_rows_and_changes_no_global_setting(name: str) -> None:
    before = state()
    rows = rows_of(name)
    assert state() == before
    assert rows
    assert any(row.holds is not None for row in rows)
    assert all(row.value is not None and row.value >= 0 for row in rows)
    assert len({row.work for row in rows}) == len(rows)


@pytest.mark.usefixtures("small")
def test_steps_have_the_time_of_t1_at_every_size() -> None:
    assert [row.work for row in rows_of("steps") if row.unit == "µs"] == ["T1, batch 8, M 3, P 2", "T1, batch 8, M 3, P 4"]


@pytest.mark.usefixtures("small")
def test_steps_compare_both_uncertainties_with_t1() -> None:
    assert [(row.work, str(row.target)) for row in rows_of("steps") if row.target is not None] == [
        ("IT2 hs / T1, batch 8, M 3, P 2", "<= 2"),
        ("IT2 h / T1, batch 8, M 3, P 2", "<= 1.4"),
        ("GT2, 3 planes / IT2 hs, batch 8, M 3, P 2", "<= 1.8"),
        ("IT2 hs / T1, batch 8, M 3, P 4", "<= 2"),
        ("IT2 h / T1, batch 8, M 3, P 4", "<= 1.4"),
        ("GT2, 3 planes / IT2 hs, batch 8, M 3, P 4", "<= 1.8"),
        ("denormal / ordinary firing, T1, batch 8, M 3, P 4", "<= 1.1"),
        ("denormal / ordinary firing, IT2 hs, batch 8, M 3, P 4", "<= 1.1"),
    ]


def test_distant_rules_fire_among_the_denormal_numbers() -> None:
    distant = steps.DistantRules("t1", Work(8, 10, 5), steps.DENORMAL)
    distant.system.centers = distant.centers
    log_firing = distant.system.antecedents(torch.zeros(1, 10))
    assert log_firing.squeeze(0).tolist() == pytest.approx([0.0, -95.0, -95.0, -95.0, -95.0], abs=1e-3)


def test_full_steps_cover_all_sizes_of_the_target() -> None:
    works = {(work.batch, work.n_features, work.n_rules) for work in steps.works(quick=False)}
    sizes = ((64, 4), (64, 13), (512, 4), (512, 13), (8192, 90))
    assert works == {(batch, features, rules) for batch, features in sizes for rules in (5, 15, 50, 200, 1000)}


@pytest.mark.usefixtures("small")
def test_memory_of_predictions_is_judged_beyond_input_and_output() -> None:
    megabytes, growth = (row for row in rows_of("prediction") if row.unit in ("MB", "bytes/row"))
    assert megabytes.value == pytest.approx((1_000_000 + 400 * (100 - 8)) / 1e6)
    assert growth.value == pytest.approx(100 - 8)
    assert growth.holds is False


def test_no_call_of_the_library_changes_the_number_of_threads() -> None:
    assert threads.changing_calls() == []


def test_call_that_changes_the_number_of_threads_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    before = torch.get_num_threads()
    monkeypatch.setattr(threads.FLSRegressor, "predict", lambda *args: torch.set_num_threads(5))
    assert threads.changing_calls() == ["predict"] * 3
    assert torch.get_num_threads() == before


@pytest.mark.usefixtures("small")
def test_machine_with_one_core_has_a_row_that_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "n_cores", lambda: 1)
    first, last = rows_of("threads")
    assert (first.value, first.holds) == (None, None)
    assert "one core" in first.work
    assert last.holds
