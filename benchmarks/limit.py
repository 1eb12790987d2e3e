"""How far is a large training step from the bare matrix products it needs?

python benchmarks/limit.py [--quick] [--json FILE] [--markdown FILE]
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

import torch

from _report import Row, Target, answer
from _timing import NAMES, Calls, Steps, Work, effort_of, fastest, threads

TITLE = "A large training step, in times the bare matrix products it needs"
METHOD = "One thread; the fastest of many short windows, in turn."
WORK = Work(batch=8192, n_features=90, n_rules=50)
N_FORMS = {"t1": 1, "hs": 2}
TARGETS = {"t1": Target("<=", 2.5), "hs": Target("<=", 4.0)}


def matrix_products(work: Work, n_forms: int) -> Callable[[], None]:
    """The products of one step, forward and backward, into memory that is allocated before.

    Forward: ``n_forms`` quadratic forms, [z², z, 1] @ weights, and the consequents, x @ slopes. Backward: the transposed
    rows times the gradients of both. A training step needs no gradient of x.
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
    with threads(1):
        steps = {kind: Steps(kind, WORK) for kind in TARGETS}
        products = {f"{kind} products": Calls(matrix_products(WORK, N_FORMS[kind])) for kind in TARGETS}
        seconds = fastest(steps | products, effort_of(quick))
    for kind, target in TARGETS.items():
        work = f"{NAMES[kind]} step / its matrix products, {WORK}"
        yield Row(work, seconds[kind] / seconds[f"{kind} products"], "x", target)


if __name__ == "__main__":
    sys.exit(answer(__file__, __doc__, TITLE, METHOD, measure))
