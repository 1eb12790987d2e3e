"""The compiled end points as a torch operation: blocks of rows, padded scratch, NaN, threads, derivatives."""

from __future__ import annotations

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

from deepfls.functional import karnik_mendel, type_reduced_set
from deepfls.functional.karnik_mendel import log_end_points
from deepfls.kernels import kernels_off
from deepfls.nn import IT2FLS, T1FLS


def log_rows(n_rows: int, n_rules: int, n_outputs: int = 2) -> tuple[torch.Tensor, ...]:
    """Log-firing and consequents of random rows, with gradients."""
    generator = torch.Generator().manual_seed(n_rules)
    log_upper = -8.0 * torch.rand(n_rows, n_rules, generator=generator, dtype=torch.float64)
    log_lower = log_upper - torch.rand(n_rows, n_rules, generator=generator, dtype=torch.float64)
    y = torch.randn(n_rows, n_rules, n_outputs, generator=generator, dtype=torch.float64)
    return log_lower.requires_grad_(), log_upper.requires_grad_(), y.requires_grad_()


# Below and above the number of rules from which rows are padded, with and without a pad, and more rules than a block holds.
SIZES = [1, 12, 13, 15, 16, 50, 3_000]


@pytest.mark.parametrize("n_rules", SIZES)
def test_ends_and_gradients_equal_the_plain_formulas(n_rules: int) -> None:
    inputs = log_rows(30, n_rules)
    ends = log_end_points(*inputs)
    found = torch.autograd.grad(ends.y_left.square().sum() + ends.y_right.sum(), inputs)
    with kernels_off():
        plain = log_end_points(*inputs)
        expected = torch.autograd.grad(plain.y_left.square().sum() + plain.y_right.sum(), inputs)
    for one, other in zip((*ends, *found), (*plain, *expected), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("n_rules", SIZES)
def test_row_is_not_changed_by_its_neighbours(n_rules: int) -> None:
    inputs = log_rows(200, n_rules)
    together = torch.autograd.grad(sum(end.sum() for end in log_end_points(*inputs)), inputs)
    for row in (0, 1, 99, 199):
        alone = [t[row : row + 1] for t in inputs]
        for end, one in zip(log_end_points(*inputs), log_end_points(*alone), strict=True):
            assert torch.equal(end[row : row + 1], one)
        grads = torch.autograd.grad(sum(end.sum() for end in log_end_points(*alone)), alone)
        for all_rows, grad in zip(together, grads, strict=True):
            assert torch.equal(all_rows[row : row + 1], grad)


@pytest.mark.parametrize("n_rules", [5, 15, 50])
def test_row_that_is_not_a_number_leaves_the_others_alone(n_rules: int) -> None:
    clean = log_rows(40, n_rules)
    spoilt = [t.detach().clone() for t in clean]
    spoilt[0][7], spoilt[1][7] = torch.nan, torch.nan
    spoilt[2][23, 0] = torch.nan
    spoilt = [t.requires_grad_() for t in spoilt]
    good = [row for row in range(40) if row not in (7, 23)]
    for expected, given in zip(log_end_points(*clean), log_end_points(*spoilt), strict=True):
        assert torch.equal(expected[good], given[good])
        assert given[7].isnan().all()
    grads = [torch.autograd.grad(sum(end.sum() for end in log_end_points(*each)), each) for each in (clean, spoilt)]
    for expected, given in zip(*grads, strict=True):
        assert torch.equal(expected[good], given[good])


def test_rows_over_threads_give_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = log_rows(301, 12)
    found = []
    for n_threads in (1, 3):
        monkeypatch.setattr("torch.get_num_threads", lambda n=n_threads: n)
        monkeypatch.setattr("deepfls.kernels.threads._WORK_OF_A_PART", 1)
        ends = type_reduced_set(*inputs)
        found.append([*ends, *torch.autograd.grad(ends.y_left.sum() + ends.y_right.sum(), inputs)])
    for one, other in zip(*found, strict=True):
        assert torch.equal(one, other)


def test_gradients_equal_finite_differences_twice() -> None:
    torch.manual_seed(1)

    def case(*shape: int) -> torch.Tensor:
        return torch.rand(*shape, dtype=torch.float64).add_(0.2).requires_grad_()

    inputs = case(5, 4), case(5, 4), case(5, 4, 2)

    def by_logs(upper: torch.Tensor, gap: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return type_reduced_set(upper - gap, upper, y)

    def by_firing(lower: torch.Tensor, gap: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return karnik_mendel(lower, lower + gap, y)

    for function in (by_logs, by_firing):
        assert gradcheck(function, inputs)
        assert gradgradcheck(function, inputs)


@pytest.mark.parametrize("kind", [T1FLS, IT2FLS])
def test_second_derivatives_of_a_system_equal_finite_differences(kind: type) -> None:
    torch.manual_seed(2)
    system = kind(2, n_rules=3).double()
    x = torch.randn(4, 2, dtype=torch.float64, requires_grad=True)
    assert gradgradcheck(system, (x,))
    # A penalty on the slope of the output trains the parameters through it.
    (slope,) = torch.autograd.grad(system(x).sum(), x, create_graph=True)
    slope.square().sum().backward()
    assert all(torch.isfinite(p.grad).all() for p in system.parameters() if p.grad is not None)
    assert system.antecedents.raw_sigmas.grad.abs().max() > 0


def test_derivatives_of_a_system_of_itself_count_every_path_once() -> None:
    torch.manual_seed(3)
    system = IT2FLS(1, n_rules=3, dtype=torch.float64)
    x = torch.randn(5, 1, dtype=torch.float64, requires_grad=True)
    assert gradcheck(lambda value: system(system(value)), (x,))
    assert gradgradcheck(lambda value: system(system(value)), (x,))


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


def test_input_changed_before_the_backward_pass_is_noticed() -> None:
    inputs = log_rows(3, 4)
    shifted = inputs[0] * 1.0
    ends = log_end_points(shifted, *inputs[1:])
    with torch.no_grad():
        shifted += 1.0
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        ends.y_left.sum().backward()


def test_second_backward_pass_through_the_same_graph_adds_as_much_again() -> None:
    inputs = log_rows(3, 4)
    loss = log_end_points(*inputs).y_right.sum()
    loss.backward(retain_graph=True)
    once = [t.grad.clone() for t in inputs]
    loss.backward()
    for tensor, grad in zip(inputs, once, strict=True):
        torch.testing.assert_close(tensor.grad, 2.0 * grad)
