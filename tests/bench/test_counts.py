"""What is counted rather than timed: operations, matrix products, bytes."""

from __future__ import annotations

import functools
from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from deepfls.bench import memory, operations
from deepfls.bench.limit import matrix_products
from deepfls.bench.timing import Work
from deepfls.training.gradients import ByKernels

KINDS = ["t1", "hs", "h"]


class _Products(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.shapes: Counter[tuple[int, int, int]] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in (torch.ops.aten.mm.default, torch.ops.aten.mm.out):
            self.shapes[(*args[0].shape, args[1].shape[1])] += 1
        if func in (torch.ops.aten.addmm.default, torch.ops.aten.addmm.out):
            self.shapes[(*args[1].shape, args[2].shape[1])] += 1
        return func(*args, **(kwargs or {}))


@functools.cache
def counts(kind: str) -> dict[str, float]:
    return operations.operations_of_a_step(kind)


@pytest.mark.parametrize("kind", KINDS)
def test_operations_are_whole_and_include_the_optimiser_and_the_decay(kind: str) -> None:
    found = counts(kind)
    assert found["aten._fused_adam_.default"] == 1
    assert found["aten.lerp_.Scalar"] == 1  # the decay of the slopes
    assert all(count == round(count) > 0 for count in found.values())
    assert not any(name.startswith("profiler") for name in found)


@pytest.mark.parametrize("kind", KINDS)
def test_small_step_issues_no_more_operations_than_its_target(kind: str) -> None:
    assert sum(counts(kind).values()) <= operations.TARGETS[kind].limit, counts(kind)


def test_operations_notice_one_more(monkeypatch: pytest.MonkeyPatch) -> None:
    before = sum(counts("t1").values())
    call = ByKernels.__call__

    def slower(gradients: ByKernels, *arguments: Any) -> torch.Tensor:
        torch.zeros(3)
        return call(gradients, *arguments)

    monkeypatch.setattr(ByKernels, "__call__", slower)
    assert sum(operations.operations_of_a_step("t1").values()) == before + 1


@pytest.mark.parametrize(("kind", "n_forms"), [("t1", 1), ("hs", 2)])
def test_bare_products_are_those_of_a_step(kind: str, n_forms: int) -> None:
    work = Work(batch=512, n_features=20, n_rules=50)  # smaller products are NumPy's, out of sight here
    with _Products() as bare:
        matrix_products(work, n_forms)()
    runs = []
    for n_steps in (1, 2):
        rows = operations.random_rows(n_steps * work.batch, work.n_features)
        with _Products() as run:
            operations.run_steps(operations.new_system(kind, work), rows, work.batch)
        runs.append(run)

    def multiply_adds(products: _Products) -> int:
        return sum(a * b * c * number for (a, b, c), number in products.shapes.items())

    # The difference of two runs: each also sends a row of zeros through before its first step.
    assert multiply_adds(bare) == multiply_adds(runs[1]) - multiply_adds(runs[0])


@pytest.mark.parametrize("kind", KINDS)
def test_memory_of_a_step_grows_with_rules_plus_features_only(kind: str) -> None:
    found = memory.growth(functools.partial(memory.step_bytes, kind))
    assert found.exponent <= memory.EXPONENT.limit
    # Fewer than a dozen numbers in float32 for each row and each rule or feature.
    assert found.bytes_per_sum <= 48


@pytest.mark.parametrize("kind", KINDS)
def test_memory_of_a_step_is_a_small_part_of_the_full_tensor(kind: str) -> None:
    work = Work(batch=2048, n_features=64, n_rules=64)
    assert memory.step_bytes(kind, work) < 0.25 * 4 * work.batch * work.n_features * work.n_rules


def test_memory_notices_a_tensor_of_batch_rules_features() -> None:
    def naive(work: Work) -> int:
        x, centers = torch.zeros(work.batch, 1, work.n_features), torch.zeros(work.n_rules, work.n_features)
        return memory.allocated(lambda: (x - centers).sum(dim=2))

    def naive_numpy(work: Work) -> int:
        x, centers = np.zeros((work.batch, 1, work.n_features)), np.zeros((work.n_rules, work.n_features))
        return memory.allocated(lambda: (x - centers).sum(axis=2))

    for bytes_of in (naive, naive_numpy):
        found = memory.growth(bytes_of)
        assert found.exponent > 1.5 > memory.EXPONENT.limit


def test_memory_counts_results_but_no_views_and_nothing_in_place() -> None:
    x = torch.zeros(100_000)

    def call() -> None:
        y = x + 1.0  # 400,000 bytes
        y.add_(1.0)
        y.view(10, 10_000).t()

    taken = memory.allocated(call)
    assert 400_000 <= taken < 500_000  # Python objects are in the second part


def test_memory_counts_arrays_that_were_freed_again() -> None:
    assert memory.allocated(lambda: np.zeros(100_000).sum()) >= 800_000
