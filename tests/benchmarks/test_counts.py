"""Counted quantities: matrix products and bytes of a training step."""

from __future__ import annotations

import functools
from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import memory
from _timing import NAMES, Work, new_system, random_rows
from limit import N_FORMS, matrix_products

KINDS = list(NAMES)


class CountedProducts(TorchDispatchMode):
    """Counts multiply-adds of matrix products at the dispatcher."""

    def __init__(self) -> None:
        super().__init__()
        self.shapes: Counter[tuple[int, int, int]] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in (torch.ops.aten.mm.default, torch.ops.aten.mm.out):
            self.shapes[(*args[0].shape, args[1].shape[1])] += 1
        if func in (torch.ops.aten.addmm.default, torch.ops.aten.addmm.out):
            self.shapes[(*args[1].shape, args[2].shape[1])] += 1
        return func(*args, **(kwargs or {}))

    def multiply_adds(self) -> int:
        return sum(a * b * c * number for (a, b, c), number in self.shapes.items())


@pytest.mark.parametrize("kind", ["t1", "hs"])
def test_bare_products_are_those_of_the_formulas_and_their_gradient(kind: str) -> None:
    work = Work(batch=512, n_features=20, n_rules=50)
    with CountedProducts() as bare:
        matrix_products(work, N_FORMS[kind])()
    system, x = new_system(kind, work), random_rows(work.batch, work.n_features).x

    def loss(parameters: dict[str, torch.Tensor]) -> torch.Tensor:
        return torch.func.functional_call(system, parameters, (x,)).square().mean()

    # Under torch.func the systems use the plain formulas, whose products all pass the dispatcher.
    with CountedProducts() as formulas:
        torch.func.grad(loss)(dict(system.named_parameters()))
    # The constant of a quadratic form is a column of the bare product, and an addition in the formula.
    constants = 2 * N_FORMS[kind] * work.batch * work.n_rules
    assert bare.multiply_adds() == formulas.multiply_adds() + constants


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


def test_growth_of_a_tensor_of_batch_rules_features_misses_the_target() -> None:
    def naive(work: Work) -> int:
        x, centers = torch.zeros(work.batch, 1, work.n_features), torch.zeros(work.n_rules, work.n_features)
        return memory.allocated(lambda: (x - centers).sum(dim=2))

    def naive_numpy(work: Work) -> int:
        x, centers = np.zeros((work.batch, 1, work.n_features)), np.zeros((work.n_rules, work.n_features))
        return memory.allocated(lambda: (x - centers).sum(axis=2))

    for bytes_of in (naive, naive_numpy):
        works = [Work(batch=512, n_features=size, n_rules=size) for size in (8, 16, 32)]
        assert memory.growth(bytes_of, works).exponent > 1.5 > memory.EXPONENT.limit


def test_allocated_bytes_include_results_but_no_views_and_nothing_in_place() -> None:
    x = torch.zeros(100_000)

    def call() -> None:
        y = x + 1.0  # 400,000 bytes
        y.add_(1.0)
        y.view(10, 10_000).t()

    taken = memory.allocated(call)
    assert 400_000 <= taken < 500_000  # Python objects are in the second part


def test_allocated_bytes_include_arrays_that_were_freed_again() -> None:
    assert memory.allocated(lambda: np.zeros(100_000).sum()) >= 800_000
