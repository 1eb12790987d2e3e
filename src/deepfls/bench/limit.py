"""How far is a large training step from the bare matrix products it needs?"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch

from deepfls.bench.rows import Row, Target
from deepfls.bench.timing import FULL, QUICK, Calls, Steps, Work, fastest, threads

WORK = Work(batch=8192, n_features=90, n_rules=50)
TARGETS = {"t1": Target("<=", 2.5), "hs": Target("<=", 4.0)}
NAMES = {"t1": "T1", "hs": "IT2 hs"}


def matrix_products(work: Work, n_forms: int) -> Callable[[], None]:
    """The products of one step, forward and backward, into memory that is there already.

    ``n_forms`` quadratic forms, [z², z, 1] @ weights, and the consequents, x @ slopes; going back, the rows transposed
    times the gradients of both. No gradient of x: a training step needs none.
    """
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(work.batch, work.n_features, generator=generator)
    expanded = torch.cat([x * x, x, torch.ones(work.batch, 1)], dim=1)
    weights = torch.randn(2 * work.n_features + 1, work.n_rules, generator=generator)
    slopes = torch.randn(work.n_features, work.n_rules, generator=generator)
    gradients = torch.randn(work.batch, work.n_rules, generator=generator)
    to_rules, to_weights, to_slopes = torch.empty_like(gradients), torch.empty_like(weights), torch.empty_like(slopes)

    def products() -> None:
        for _ in range(n_forms):
            torch.mm(expanded, weights, out=to_rules)
        torch.mm(x, slopes, out=to_rules)
        for _ in range(n_forms):
            torch.mm(expanded.t(), gradients, out=to_weights)
        torch.mm(x.t(), gradients, out=to_slopes)

    return products


def measure(quick: bool = False) -> Iterator[Row]:
    """A row for each kind of system, in times the products it needs. One thread."""
    with threads(1):
        seconds = fastest(
            {
                "t1": Steps("t1", WORK),
                "t1 products": Calls(matrix_products(WORK, 1)),
                "hs": Steps("hs", WORK),
                "hs products": Calls(matrix_products(WORK, 2)),
            },
            QUICK if quick else FULL,
        )
    for kind, target in TARGETS.items():
        work = f"{NAMES[kind]} step / its matrix products, {WORK}"
        yield Row("limit", work, seconds[kind] / seconds[f"{kind} products"], "x", target)
