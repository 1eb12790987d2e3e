"""The α-planes of general type-2 systems: levels, log-firing, nested ends."""

from __future__ import annotations

import math

import pytest
import torch

from deepfls.functional.constants import SMALLEST_ALPHA
from deepfls.functional.reduction import (
    check_alphas,
    default_alphas,
    plane_ends,
    plane_log_firing,
    plane_width,
)


def case(batch: int = 50, n_rules: int = 4, dtype: torch.dtype = torch.float64) -> tuple[torch.Tensor, ...]:
    torch.manual_seed(0)
    log_firing = -torch.rand(batch, n_rules, dtype=dtype) * 20
    rise, drop = -log_firing * torch.rand(n_rules, dtype=dtype), torch.rand(n_rules, dtype=dtype)
    return log_firing, rise, drop, torch.randn(batch, n_rules, 2, dtype=dtype)


def test_plane_width_is_the_published_ratio() -> None:
    alphas = torch.tensor([1.0, 0.7, 0.3, 0.01, 0.001], dtype=torch.float64)
    expected = [math.sqrt(-2 * math.log(a)) / math.sqrt(-2 * math.log(SMALLEST_ALPHA)) for a in alphas.tolist()]
    torch.testing.assert_close(plane_width(alphas), torch.tensor(expected, dtype=torch.float64))


def test_default_alphas_are_the_published_planes_for_three() -> None:
    assert default_alphas(3) == [0.01, 0.5, 1.0]
    assert default_alphas(2) == [0.01, 1.0]
    assert default_alphas(5) == [0.01, 0.25, 0.5, 0.75, 1.0]


def test_plane_log_firing_equals_the_grades_at_both_ends_of_the_levels() -> None:
    mu, a, b = 0.3, 0.4, 0.25
    log_mu = torch.tensor([[math.log(mu)]], dtype=torch.float64)
    rise, drop = -b * log_mu, torch.tensor([-math.log(1 - a)], dtype=torch.float64)
    for t, lower, upper in ((0.0, mu, mu), (1.0, (1 - a) * mu, mu ** (1 - b)), (2.0, (1 - a) ** 2 * mu, mu ** (1 - b))):
        found = plane_log_firing(log_mu, rise, drop, torch.tensor(t, dtype=torch.float64))
        assert found.lower.exp().item() == pytest.approx(lower)
        assert found.upper.exp().item() == pytest.approx(upper)


def test_upper_firing_vanishes_far_from_the_data() -> None:
    log_mu = torch.tensor([[-1e4]], dtype=torch.float64)
    for t in (0.5, 1.0, 3.0):
        found = plane_log_firing(log_mu, -0.99 * log_mu, torch.ones(1, dtype=torch.float64), torch.tensor(t))
        assert found.upper.exp().item() < 1e-40


def test_plane_ends_are_nested_in_the_order_asked() -> None:
    alphas = torch.tensor([0.5, 1.0, 0.001, 0.01, 0.5], dtype=torch.float64)
    planes = plane_ends(*case(), alphas)
    order = [2, 3, 0, 4, 1]  # widest first
    for inner, outer in zip(order[1:], order, strict=False):
        assert (planes.y_left[:, outer] <= planes.y_left[:, inner]).all()
        assert (planes.y_right[:, outer] >= planes.y_right[:, inner]).all()
    torch.testing.assert_close(planes.y_left[:, 0], planes.y_left[:, 4], rtol=0, atol=0)
    assert (planes.y_right[:, 2] - planes.y_left[:, 2]).mean() > (planes.y_right[:, 0] - planes.y_left[:, 0]).mean() + 0.1


def test_plane_ends_are_nested_where_firing_is_at_its_floor() -> None:
    log_firing, rise, drop, consequents = case(dtype=torch.float32)
    planes = plane_ends(log_firing * 50, rise * 50, drop * 100, consequents, torch.linspace(0.01, 1.0, 20))
    assert (planes.y_left[:, 1:] >= planes.y_left[:, :-1]).all()
    assert (planes.y_right[:, 1:] <= planes.y_right[:, :-1]).all()


@pytest.mark.parametrize(
    ("alphas", "message"),
    [
        (0.0, "alphas must be greater than 0 and at most 1, got 0."),
        ([0.5, 1.5], "alphas must be greater than 0 and at most 1, got 1.5."),
        ([float("nan")], "alphas must be greater than 0 and at most 1, got nan."),
        ([], r"alphas must be one level or a list of them, got shape \(0,\)."),
        ([[0.5]], r"alphas must be one level or a list of them, got shape \(1, 1\)."),
    ],
)
def test_alphas_out_of_range_are_refused(alphas: object, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        check_alphas(alphas, torch.zeros(1))


def test_one_alpha_is_a_list_of_one() -> None:
    assert check_alphas(0.5, torch.zeros(1)).tolist() == [0.5]
