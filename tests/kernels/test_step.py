"""The compiled step against the plain formulas with the kernels switched off: values and gradients."""

from __future__ import annotations

import functools
import itertools
from typing import Any

import numpy as np
import pytest
import torch

from deepfls.functional import losses
from deepfls.kernels import compiled_outputs, compiled_step, kernels_off
from deepfls.nn import IT2FLS, T1FLS

POINT_LOSSES = {
    "l2": losses.l2,
    "l1": losses.l1,
    "huber": functools.partial(losses.huber, delta=0.3),
    "log-cosh": losses.log_cosh,
    "pinball": functools.partial(losses.pinball, quantile=0.2),
    "set": losses.SetLoss(losses.l1, coverage=0.8, weight=0.7),
    "cross-entropy": losses.cross_entropy,
}
# Largest difference of a gradient, relative to its largest entry. In float32 the products of both sides round differently.
BOUNDS = {torch.float64: 1e-9, torch.float32: 5e-3}


def new_system(kind: str = "it2", n_features: int = 3, n_outputs: int = 1, seed: int = 0, **options: Any) -> T1FLS | IT2FLS:
    """A system whose raw parameters are all drawn from a normal distribution."""
    options = {"dtype": torch.float64, "n_rules": 5, **options}
    system = (T1FLS if kind == "t1" else IT2FLS)(n_features, n_outputs, **options)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in system.parameters():
            parameter.copy_(0.7 * torch.randn(parameter.shape, generator=generator))
    return system


def table_for(
    system: T1FLS | IT2FLS, n_rows: int, *, classes: bool = False, weighted: bool = False, seed: int = 1
) -> np.ndarray:
    """A packed table: inputs, targets (or the place of a class) and perhaps weights."""
    random = np.random.default_rng(seed)
    x = random.normal(size=(n_rows, system.n_features))
    y = random.integers(system.n_outputs, size=(n_rows, 1)) if classes else random.normal(size=(n_rows, system.n_outputs))
    columns = [x, y, random.uniform(0, 2, size=(n_rows, 1))] if weighted else [x, y]
    return np.ascontiguousarray(np.concatenate(columns, axis=1), dtype=np.dtype(str(system.centers.dtype).split(".")[1]))


def plain_step(system: T1FLS | IT2FLS, loss: Any, table: np.ndarray, n_targets: int) -> tuple[float, np.ndarray]:
    """Mean loss and flat gradient by autograd, with plain operations only."""
    rows = torch.from_numpy(table)
    x, target = rows[:, : system.n_features], rows[:, system.n_features : system.n_features + n_targets]
    system.zero_grad()
    with kernels_off():
        values = loss(*system.reduce(x), target) if isinstance(loss, losses.SetLoss) else loss(system(x), target)
        if rows.shape[1] > system.n_features + n_targets:
            values = values * rows[:, -1:]
        values.mean().backward()
    gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in system.parameters()]
    return values.mean().item(), torch.cat([g.reshape(-1) for g in gradients]).numpy()


def assert_same_step(system: T1FLS | IT2FLS, loss: Any, table: np.ndarray) -> None:
    n_targets = 1 if loss is losses.cross_entropy else system.n_outputs
    step = compiled_step(system, loss)
    assert step is not None
    theta = torch.nn.utils.parameters_to_vector(system.parameters()).detach().numpy()
    gradient = np.full_like(theta, np.nan)
    found = step(theta, gradient, table, np.arange(len(table)), 0, len(table))
    expected, plain = plain_step(system, loss, table, n_targets)
    bound = BOUNDS[system.centers.dtype]
    assert found == pytest.approx(expected, rel=bound, abs=bound)
    np.testing.assert_allclose(gradient, plain, rtol=0, atol=bound * max(1e-3, np.abs(plain).max()))


KINDS = [
    {"kind": "t1"},
    *({"uncertainty": u, "type_reduction": r} for u, r in itertools.product(("h", "s", "hs"), ("km", "nt", "bmm", "sm"))),
]
FORMS = [
    {**kind, "parameterization": p, "order": order, "tnorm": tnorm}
    for kind, p, order, tnorm in itertools.product(KINDS, ("ordered", "paper"), (0, 1), ("product", "htsk"))
]


def name_of(form: dict[str, Any]) -> str:
    return "-".join(str(value) for value in form.values())


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])
@pytest.mark.parametrize("form", FORMS, ids=name_of)
def test_step_equals_the_plain_formulas_for_every_system_and_loss(form: dict[str, Any], dtype: torch.dtype) -> None:
    for (n_outputs, weighted), name in itertools.product(((1, False), (3, True)), POINT_LOSSES):
        if name == "set" and form.get("kind") == "t1":
            continue
        system = new_system(n_outputs=n_outputs, **{**form, "dtype": dtype})
        table = table_for(system, 9, classes=name == "cross-entropy", weighted=weighted)
        assert_same_step(system, POINT_LOSSES[name], table)


@pytest.mark.parametrize("form", [form for form in FORMS if form.get("uncertainty") != "h"], ids=name_of)
def test_step_equals_the_plain_formulas_with_unknown_inputs(form: dict[str, Any]) -> None:
    for n_outputs, name in ((1, "l2"), (3, "huber"), (3, "cross-entropy"), (1, "set")):
        if name == "set" and form.get("kind") == "t1":
            continue
        system = new_system(n_outputs=n_outputs, **form)
        system.missing = True
        table = table_for(system, 9, classes=name == "cross-entropy")
        table[np.random.default_rng(2).random(table.shape) < 0.3 * (np.arange(table.shape[1]) < 3)] = np.nan
        table[0, :3] = np.nan  # nothing is known
        assert_same_step(system, POINT_LOSSES[name], table)


def test_outputs_equal_the_plain_formulas_with_unknown_inputs() -> None:
    for kind in ("t1", "it2"):
        system = new_system(kind, n_outputs=2)
        system.missing = True
        x = np.where(np.random.default_rng(0).random((300, 3)) < 0.3, np.nan, 0.5)
        outputs = compiled_outputs(system)
        assert outputs is not None
        with kernels_off(), torch.no_grad():
            expected = system(torch.from_numpy(x)).numpy()
        np.testing.assert_allclose(outputs(x)[:, 2], expected, rtol=1e-9)


@pytest.mark.parametrize("n_rows", [1, 2, 127, 128, 129, 300])
@pytest.mark.parametrize(("n_rules", "n_features"), [(1, 1), (1, 4), (7, 1), (12, 2), (13, 3), (16, 3), (33, 2)])
def test_step_equals_the_plain_formulas_at_odd_sizes(n_rows: int, n_rules: int, n_features: int) -> None:
    for kind, n_outputs in itertools.product(("t1", "it2"), (1, 2)):
        system = new_system(kind, n_features, n_outputs, n_rules=n_rules)
        assert_same_step(system, losses.l2, table_for(system, n_rows))


@pytest.mark.parametrize("parameterization", ["ordered", "paper"])
@pytest.mark.parametrize("kind", ["t1", "it2"])
def test_step_equals_the_plain_formulas_for_clamped_raw_values(kind: str, parameterization: str) -> None:
    system = new_system(kind, n_rules=6, parameterization=parameterization, tnorm="htsk")
    extremes = torch.tensor([-1e3, -90.0, -19.0, 0.0, 19.0, 90.0, 1e9], dtype=torch.float64)
    for name, parameter in system.named_parameters():
        if "sigmas" in name or "spreads" in name or "heights" in name:
            with torch.no_grad():
                parameter.view(-1)[: len(extremes)] = extremes
    step = compiled_step(system, losses.l2)
    assert step is not None
    table = table_for(system, 20)
    theta = torch.nn.utils.parameters_to_vector(system.parameters()).detach().numpy()
    gradient = np.empty_like(theta)
    found = step(theta, gradient, table, np.arange(20), 0, 20)
    expected, plain = plain_step(system, losses.l2, table, 1)
    assert found == pytest.approx(expected, rel=1e-9)
    assert np.isfinite(gradient).all()
    # Sets of width e^-18 beside others: gradients span many decades, and each is compared with its own size.
    np.testing.assert_allclose(gradient, plain, rtol=1e-6, atol=1e-9 * np.abs(plain).max())


def test_step_equals_the_plain_formulas_with_ties() -> None:
    system = new_system("it2", n_rules=8, order=0)
    with torch.no_grad():
        system.consequents.raw_intercepts[:] = torch.tensor([1.0, 1.0, 2.0, 2.0, 2.0, 0.0, 0.0, 1.0])[:, None]
    assert_same_step(system, losses.l2, table_for(system, 50))
    equal = new_system("it2", n_rules=8, order=0)
    with torch.no_grad():
        equal.consequents.raw_intercepts[:] = 1.0
    assert_same_step(equal, losses.l2, table_for(equal, 50))


@pytest.mark.parametrize("type_reduction", ["km", "nt", "bmm"])
def test_step_equals_the_plain_formulas_for_firing_many_decades_apart(type_reduction: str) -> None:
    system = new_system("it2", n_rules=6, type_reduction=type_reduction)
    with torch.no_grad():
        system.antecedents.raw_sigmas[:] = -1.8  # squared distances of a few units become exponents of hundreds
    assert_same_step(system, losses.l2, table_for(system, 60))


def test_row_that_is_not_a_number_gives_a_loss_that_is_not_a_number() -> None:
    for kind in ("t1", "it2"):
        system = new_system(kind, n_rules=15)
        table = table_for(system, 40)
        table[3, 1] = np.nan
        theta = torch.nn.utils.parameters_to_vector(system.parameters()).detach().numpy()
        gradient = np.empty_like(theta)
        step = compiled_step(system, losses.l2)
        assert step is not None
        assert np.isnan(step(theta, gradient, table, np.arange(40), 0, 40))
        assert np.isnan(gradient).all()
        clean = table_for(system, 40)
        assert np.isfinite(step(theta, gradient, clean, np.arange(40), 0, 40))
        assert np.isfinite(gradient).all()


def test_step_uses_rows_in_the_order_given() -> None:
    system = new_system("it2")
    table = table_for(system, 30)
    step = compiled_step(system, losses.l2)
    assert step is not None
    theta = torch.nn.utils.parameters_to_vector(system.parameters()).detach().numpy()
    order = np.random.default_rng(0).permutation(30)
    gradient, expected = np.empty_like(theta), np.empty_like(theta)
    loss = step(theta, gradient, table, order, 10, 8)
    again = step(theta, expected, np.ascontiguousarray(table[order[10:18]]), np.empty(0, np.int64), 0, 8)
    assert loss == again
    np.testing.assert_array_equal(gradient, expected)


@pytest.mark.parametrize("kind", ["t1", "it2"])
def test_threads_give_the_step_of_one_thread_to_rounding(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deepfls.kernels.threads._WORK_OF_A_PART", 1)
    system = new_system(kind, n_outputs=2)
    table = table_for(system, 301, weighted=True)
    step = compiled_step(system, losses.l2)
    assert step is not None
    theta = torch.nn.utils.parameters_to_vector(system.parameters()).detach().numpy()
    found = {}
    for n_threads in (1, 3):
        monkeypatch.setattr("torch.get_num_threads", lambda n=n_threads: n)
        gradient = np.empty_like(theta)
        found[n_threads] = step(theta, gradient, table, np.arange(301), 0, 301), gradient
    assert found[1][0] == pytest.approx(found[3][0], rel=1e-12)
    np.testing.assert_allclose(found[1][1], found[3][1], rtol=0, atol=1e-12 * np.abs(found[1][1]).max())


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])
@pytest.mark.parametrize("form", FORMS, ids=name_of)
def test_outputs_equal_the_plain_formulas(form: dict[str, Any], dtype: torch.dtype) -> None:
    for n_outputs in (1, 3):
        system = new_system(n_outputs=n_outputs, **{**form, "dtype": dtype})
        x = torch.from_numpy(table_for(system, 9)[:, : system.n_features].copy())
        outputs = compiled_outputs(system)
        assert outputs is not None
        y_left, y_right, y = outputs(x.numpy()).transpose(1, 0, 2)
        with kernels_off(), torch.no_grad():
            expected = system.reduce(x) if isinstance(system, IT2FLS) else (system(x),) * 3
        for found, plain in zip((y_left, y_right, y), expected, strict=True):
            np.testing.assert_allclose(found, plain.numpy(), rtol=0, atol=1e-10 if dtype == torch.float64 else 1e-4)


def test_finite_differences_confirm_the_gradient() -> None:
    system = new_system("it2", n_outputs=2, type_reduction="bmm")
    table = table_for(system, 12)
    step = compiled_step(system, losses.log_cosh)
    assert step is not None
    theta = torch.nn.utils.parameters_to_vector(system.parameters()).detach().numpy().copy()
    gradient, ignored = np.empty_like(theta), np.empty_like(theta)
    step(theta, gradient, table, np.arange(12), 0, 12)
    for place in range(len(theta)):
        moved = []
        for sign in (1.0, -1.0):
            other = theta.copy()
            other[place] += sign * 1e-6
            moved.append(step(other, ignored, table, np.arange(12), 0, 12))
        assert (moved[0] - moved[1]) / 2e-6 == pytest.approx(gradient[place], rel=1e-5, abs=1e-8)
