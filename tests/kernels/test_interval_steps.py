"""The compiled step of General Type-2 systems against the plain formulas: values and gradients."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch

from deepfls.functional import losses
from deepfls.kernels import compiled_outputs, compiled_step, kernels_off
from deepfls.nn import GT2FLS, IT2FLS
from deepfls.training.steps import Rows, mean_loss

LOSSES: dict[str, Any] = {
    "l2": losses.l2,
    "set": losses.SetLoss(losses.l1, coverage=0.8, weight=0.7),
    "quantiles": losses.QuantileLoss(),
    "cross-entropy": losses.cross_entropy,
}
FORMS = [
    {"shared_spread": shared, "tnorm": tnorm, "order": order, "parameterization": p, "n_planes": n_planes}
    for shared, (tnorm, order, p), n_planes in itertools.product(
        (True, False), (("product", 1, "ordered"), ("htsk", 1, "ordered"), ("htsk", 0, "paper")), (1, 2, 3, 5)
    )
]


def new_system(n_outputs: int = 1, n_rules: int = 5, dtype: torch.dtype = torch.float64, **options: Any) -> GT2FLS:
    system = GT2FLS(3, n_outputs, n_rules=n_rules, dtype=dtype, **options)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in system.parameters():
            parameter.copy_(0.7 * torch.randn(parameter.shape, generator=generator))
    return system


def assert_same_step(
    system: GT2FLS, name: str, n_rows: int, number: int = 7, bound: float = 1e-9, unknown: float = 0.0
) -> None:
    loss, random = LOSSES[name], np.random.default_rng(1)
    n_targets = 1 if name == "cross-entropy" else system.n_outputs
    y = random.integers(2, size=(n_rows, 1)) if name == "cross-entropy" else random.normal(size=(n_rows, n_targets))
    columns = [random.normal(size=(n_rows, 3)), y, random.uniform(0, 2, size=(n_rows, 1))]
    table = np.concatenate(columns, axis=1).astype(np.dtype(str(system.centers.dtype).split(".")[1]))
    table[:, :3][random.uniform(size=(n_rows, 3)) < unknown] = np.nan
    step = compiled_step(system, loss)
    assert step is not None
    theta = torch.nn.utils.parameters_to_vector(system.parameters()).detach().numpy()
    gradient = np.full_like(theta, np.nan)
    found = step(theta, gradient, table, np.arange(n_rows), 0, n_rows, number=number)
    system.zero_grad()
    with kernels_off():
        expected = mean_loss(loss, system, Rows(torch.from_numpy(table), 3, n_targets), number)
        expected.backward()
    gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in system.parameters()]
    plain = torch.cat([g.reshape(-1) for g in gradients]).numpy()
    assert found == pytest.approx(expected.item(), rel=bound, abs=bound)
    np.testing.assert_allclose(gradient, plain, rtol=0, atol=bound * max(1e-3, np.abs(plain).max()))


@pytest.mark.parametrize("form", FORMS, ids=lambda form: "-".join(map(str, form.values())))
def test_step_equals_the_plain_formulas_for_every_system_and_loss(form: dict[str, Any]) -> None:
    for name in LOSSES:
        assert_same_step(new_system(2, **form), name, 9)


@pytest.mark.parametrize("n_rules", [1, 12, 13, 33])
@pytest.mark.parametrize("n_rows", [1, 129, 300])
def test_step_equals_the_plain_formulas_at_odd_sizes(n_rows: int, n_rules: int) -> None:
    for shared, name in itertools.product((True, False), ("l2", "quantiles")):
        assert_same_step(new_system(n_rules=n_rules, shared_spread=shared), name, n_rows)


def test_step_equals_the_plain_formulas_for_many_rows_of_several_outputs() -> None:
    for name in ("l2", "quantiles"):  # more rows than are in one piece of scratch
        assert_same_step(new_system(2, n_rules=33, shared_spread=False), name, 150)


def test_step_equals_the_plain_formulas_in_float32() -> None:
    for shared, name in itertools.product((True, False), ("l2", "quantiles", "set")):
        assert_same_step(new_system(dtype=torch.float32, shared_spread=shared), name, 50, bound=5e-3)


@pytest.mark.parametrize("shared", [True, False])
def test_step_equals_the_plain_formulas_with_unknown_inputs(shared: bool) -> None:
    system = new_system(shared_spread=shared)
    system.missing = True
    for name in ("l2", "quantiles"):
        assert_same_step(system, name, 40, unknown=0.3)


def test_levels_of_a_batch_do_not_depend_on_its_place_in_the_order() -> None:
    system = new_system(shared_spread=False)
    table = np.random.default_rng(0).normal(size=(64, 4))
    step = compiled_step(system, LOSSES["quantiles"])
    assert step is not None
    theta = torch.nn.utils.parameters_to_vector(system.parameters()).detach().numpy()
    gradients = [np.empty_like(theta) for _ in range(2)]
    order = np.arange(64)
    found = [
        step(theta, gradients[0], table, order, 16, 32, number=3),
        step(theta, gradients[1], table[16:48].copy(), order[:32], 0, 32, number=3),
    ]
    assert found[0] == found[1]
    np.testing.assert_array_equal(*gradients)
    assert step(theta, gradients[0], table, order, 16, 32, number=4) != found[0]


@pytest.mark.parametrize("form", FORMS, ids=lambda form: "-".join(map(str, form.values())))
def test_outputs_equal_the_plain_formulas(form: dict[str, Any]) -> None:
    system, x = new_system(2, **form), torch.randn(200, 3, dtype=torch.float64) * 3
    compiled = compiled_outputs(system)
    assert compiled is not None
    with kernels_off(), torch.no_grad():
        expected = torch.stack(system.reduce(x), dim=1)
    np.testing.assert_allclose(compiled(x.numpy()), expected.numpy(), rtol=1e-9, atol=1e-9)


def test_a_quantile_loss_needs_planes() -> None:
    assert compiled_step(IT2FLS(3), LOSSES["quantiles"]) is None
