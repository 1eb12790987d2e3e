"""The compiled kernels against plain tensor operations, which torch.func still takes, and against float64."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.autograd import gradcheck, gradgradcheck

from deepfls.functional import interval_log_firing, log_firing, type_reduced_set, weighted_average
from deepfls.functional._compiled import LOG_FLOOR, exponentials, largest, over_rows, product_over_rows
from deepfls.nn import IT2FLS, T1FLS
from deepfls.nn.constraints import OrderedPair, Positive, UnitInterval


def test_exponentials_are_right_to_one_unit_in_the_last_place() -> None:
    values = -np.concatenate([np.linspace(0.0, 600.0, 100_001), np.logspace(-300, 2, 1_000)])
    expected = np.exp(values)
    exponentials(values, np.empty(len(values), np.int64))
    np.testing.assert_array_max_ulp(values, expected, maxulp=1)


def test_exponentials_hold_the_floor_and_keep_nan() -> None:
    values = np.array([-np.inf, -1e9, np.nan, -0.0])
    exponentials(values, np.empty(4, np.int64))
    np.testing.assert_allclose(values[:2], np.exp(LOG_FLOOR), rtol=1e-15)
    assert np.isnan(values[2])
    assert values[3] == 1.0


@settings(deadline=None)  # the first call compiles
@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=30), st.data())
def test_largest_is_the_maximum_of_a_row_from_a_place_on(row: list[float], data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(row) - 1))
    rows = np.array([[np.inf] * len(row), row, [np.inf] * len(row)])
    assert largest(rows, 1, start) == max(row[start:])


@pytest.mark.parametrize(("n_left", "n_right"), [(3, 5), (200, 9), (9, 200), (181, 181)])
def test_the_product_over_rows_is_that_of_the_transpose(n_left: int, n_right: int) -> None:
    random = np.random.default_rng(0)
    left, right = random.standard_normal((512, n_left)), random.standard_normal((512, n_right))
    out = np.full((n_left, n_right), np.nan)
    assert product_over_rows(left, right, out) is out
    np.testing.assert_allclose(out, left.T @ right, rtol=1e-12, atol=1e-10)


@pytest.mark.parametrize("n_threads", [2, 3])
def test_rows_split_over_threads_give_the_same_numbers(n_threads: int) -> None:
    torch.manual_seed(0)
    log_upper, consequents = torch.randn(9_001, 12), torch.randn(9_001, 12, 2)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        alone = type_reduced_set(log_upper - 1, log_upper, consequents)
        torch.set_num_threads(n_threads)
        together = type_reduced_set(log_upper - 1, log_upper, consequents)
    finally:
        torch.set_num_threads(before)
    assert torch.equal(alone.y_left, together.y_left)
    assert torch.equal(alone.y_right, together.y_right)


def test_an_error_in_another_thread_is_raised() -> None:
    def fails_on_the_second_part(rows: np.ndarray) -> None:
        if rows[0, 0] > 0:
            raise ValueError("second part")

    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        with pytest.raises(ValueError, match="second part"):
            over_rows(fails_on_the_second_part, [np.arange(200_000.0).reshape(-1, 2)])
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("system", [T1FLS(3, 2, n_rules=4), IT2FLS(3, 2, n_rules=4), IT2FLS(3, n_rules=4, uncertainty="h")])
def test_kernels_equal_plain_operations(system: T1FLS | IT2FLS) -> None:
    system = system.double()
    x = torch.randn(20, 3, dtype=torch.float64)
    names, values = zip(*system.named_parameters(), strict=True)

    def loss(*parameters: torch.Tensor) -> torch.Tensor:
        return torch.func.functional_call(system, dict(zip(names, parameters, strict=True)), (x,)).square().sum()

    plain = torch.func.grad(loss, argnums=tuple(range(len(values))))(*(v.detach() for v in values))
    loss(*values).backward()
    for name, value, expected in zip(names, values, plain, strict=True):
        torch.testing.assert_close(value.grad, expected, rtol=1e-9, atol=1e-11, msg=name)


def test_gradients_of_log_firing_equal_finite_differences() -> None:
    torch.manual_seed(1)

    def case(*shape: int) -> torch.Tensor:
        return torch.rand(*shape, dtype=torch.float64).add_(0.2).requires_grad_()

    x, centers, sigmas, log_heights = case(5, 3), case(4, 3), case(4, 3), case(4, 3)
    assert gradcheck(lambda *args: log_firing(*args, tnorm="htsk"), (x, centers, sigmas))

    def interval(lower: torch.Tensor, widening: torch.Tensor, logs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return interval_log_firing(x, centers, lower, lower + widening, -logs)

    assert gradcheck(interval, (sigmas, case(4, 3), log_heights))
    assert gradcheck(weighted_average, (case(5, 4), case(5, 4, 2)))
    assert gradcheck(lambda upper, gap, y: type_reduced_set(upper - gap, upper, y), (case(5, 4), case(5, 4), case(5, 4, 2)))


@pytest.mark.parametrize("function", [Positive().value, UnitInterval().log])
def test_gradients_of_constraint_maps_equal_finite_differences(function: object) -> None:
    raw = torch.linspace(-29.9, 29.8, 41, dtype=torch.float64, requires_grad=True)
    assert gradcheck(lambda r: function(r) * 1e-7, (raw,), atol=1e-9)  # type: ignore[operator]


def test_gradients_of_the_ordered_pair_equal_finite_differences() -> None:
    raws = torch.randn(2, 50, dtype=torch.float64, requires_grad=True)
    assert gradcheck(lambda r: OrderedPair().value(r[0], r[1]), (raws,))


@pytest.mark.parametrize("n_features", [50, 200, 1000])
def test_float32_end_points_keep_weights_far_below_what_it_can_hold(n_features: int) -> None:
    # The product of heights and grades: from 100 features on beyond the relative floor of float32, e^-60.
    torch.manual_seed(0)
    system = IT2FLS(n_features, n_rules=10)
    x = torch.randn(300, n_features)
    left, right, _ = system.reduce(x)
    exact_left, exact_right, _ = system.double().reduce(x.double())
    error = torch.maximum((left - exact_left).abs(), (right - exact_right).abs()) / (exact_right - exact_left)
    assert error.max() < 1e-5


def test_a_parameter_changed_before_the_backward_pass_is_noticed() -> None:
    system = IT2FLS(2, n_rules=3)
    loss = system(torch.randn(4, 2)).sum()
    with torch.no_grad():
        system.antecedents.raw_sigmas += 1.0
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_an_output_changed_in_place_does_not_disturb_the_gradient() -> None:
    system, x = IT2FLS(2, n_rules=3), torch.randn(4, 2)
    system.reduce(x).y_left.sum().backward()
    expected = system.antecedents.raw_centers.grad
    system.zero_grad()
    left = system.reduce(x).y_left
    left.mul_(1.0)
    with torch.no_grad():
        left.fill_(7.0)
    left.sum().backward()
    torch.testing.assert_close(system.antecedents.raw_centers.grad, expected)


@pytest.mark.parametrize("kind", [T1FLS, IT2FLS])
def test_second_derivatives_equal_finite_differences(kind: type) -> None:
    torch.manual_seed(2)
    system = kind(2, n_rules=3).double()
    x = torch.randn(4, 2, dtype=torch.float64, requires_grad=True)
    assert gradgradcheck(system, (x,))
    # A penalty on the slope of the output trains the parameters through it.
    (slope,) = torch.autograd.grad(system(x).sum(), x, create_graph=True)
    slope.square().sum().backward()
    assert all(torch.isfinite(p.grad).all() for p in system.parameters() if p.grad is not None)
    assert system.antecedents.raw_sigmas.grad.abs().max() > 0
