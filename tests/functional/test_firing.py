"""Log-firing by matrix products against the direct sum in float64."""

from __future__ import annotations

import pytest
import torch

from deepfls.functional import (
    gaussian_grades,
    interval_gaussian_grades,
    interval_log_firing,
    log_firing,
    relative_firing,
    relative_interval_firing,
)


def direct_log_firing(x: torch.Tensor, centers: torch.Tensor, sigmas: torch.Tensor, tnorm: str) -> torch.Tensor:
    """The definition, through the (batch, rules, features) tensor, in float64."""
    exponents = -0.5 * ((x.double().unsqueeze(1) - centers.double()) / sigmas.double()).square()
    return exponents.sum(dim=2) if tnorm == "product" else exponents.mean(dim=2)


def random_sets(n_features: int, n_rules: int, smallest: float = 0.3, dtype: torch.dtype = torch.float32, batch: int = 64):
    generator = torch.Generator().manual_seed(n_features)
    x = torch.randn(batch, n_features, generator=generator, dtype=dtype)
    centers = torch.randn(n_rules, n_features, generator=generator, dtype=dtype)
    sigmas = smallest * (1 + torch.rand(n_rules, n_features, generator=generator, dtype=dtype))
    return x, centers, sigmas


@pytest.mark.parametrize("tnorm", ["product", "htsk"])
@pytest.mark.parametrize(("n_features", "n_rules"), [(1, 1), (4, 15), (90, 50), (2000, 100)])
@pytest.mark.parametrize("smallest", [1.0, 0.05])
def test_log_firing_equals_direct_sum(n_features: int, n_rules: int, smallest: float, tnorm: str) -> None:
    x, centers, sigmas = random_sets(n_features, n_rules, smallest)
    expected = direct_log_firing(x, centers, sigmas, tnorm)
    error = (log_firing(x, centers, sigmas, tnorm).double() - expected).abs()
    # Relative to the log-firing; where a rule hits the sample almost exactly its logarithm is near 0, and what counts is
    # the firing itself, e^error.
    assert (error <= 1e-4 * expected.abs().clamp(min=5.0)).all()


def test_log_firing_survives_inputs_far_from_zero() -> None:
    x, centers, sigmas = random_sets(8, 5, smallest=1.0)
    far = (x + 1e4).contiguous(), (centers + 1e4).contiguous()
    expected = direct_log_firing(*far, sigmas, "product")
    torch.testing.assert_close(log_firing(*far, sigmas).double(), expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("tnorm", ["product", "htsk"])
def test_interval_log_firing_equals_direct_sum(tnorm: str) -> None:
    x, centers, upper_sigmas = random_sets(7, 5, dtype=torch.float64)
    lower_sigmas = upper_sigmas * 0.6
    heights = torch.rand(5, 7, dtype=torch.float64) * 0.9 + 0.1
    lower, upper = interval_log_firing(x, centers, lower_sigmas, upper_sigmas, heights.log(), tnorm)
    log_heights = heights.log().sum(dim=1) if tnorm == "product" else heights.log().mean(dim=1)
    torch.testing.assert_close(lower, direct_log_firing(x, centers, lower_sigmas, tnorm) + log_heights)
    torch.testing.assert_close(upper, direct_log_firing(x, centers, upper_sigmas, tnorm))


def test_product_of_grades_is_the_firing() -> None:
    x, centers, upper_sigmas = random_sets(3, 4, dtype=torch.float64)
    heights = torch.full_like(centers, 0.7)
    grades = interval_gaussian_grades(x, centers, upper_sigmas * 0.5, upper_sigmas, heights)
    firing = interval_log_firing(x, centers, upper_sigmas * 0.5, upper_sigmas, heights.log())
    torch.testing.assert_close(grades.lower.prod(dim=2), firing.lower.exp())
    torch.testing.assert_close(grades.upper.prod(dim=2), firing.upper.exp())
    torch.testing.assert_close(
        gaussian_grades(x, centers, upper_sigmas).prod(dim=2), log_firing(x, centers, upper_sigmas).exp()
    )


@pytest.mark.parametrize("tnorm", ["product", "htsk"])
def test_same_widths_give_the_same_bounds_by_either_path(tnorm: str) -> None:
    """One shared product (the same tensor twice) or two (equal tensors)."""
    x, centers, sigmas = random_sets(6, 5)
    log_heights = torch.rand(5, 6).log()
    shared = interval_log_firing(x, centers, sigmas, sigmas, log_heights, tnorm)
    apart = interval_log_firing(x, centers, sigmas.clone(), sigmas, log_heights, tnorm)
    for first, second in zip(shared, apart, strict=True):
        torch.testing.assert_close(first, second)


@pytest.mark.parametrize("log_heights", [None, torch.zeros(20, 30)], ids=["none", "zero"])
def test_lower_firing_never_exceeds_upper(log_heights: torch.Tensor | None) -> None:
    x, centers, sigmas = random_sets(30, 20, batch=500)
    lower, upper = interval_log_firing(x, centers, sigmas.clone(), sigmas, log_heights)
    assert (lower <= upper).all()


def test_gradients_equal_finite_differences() -> None:
    x, centers, upper_sigmas = random_sets(3, 4, dtype=torch.float64, batch=5)
    lower_sigmas, log_heights = upper_sigmas * 0.7, torch.full_like(centers, -0.3)
    leaves = [t.clone().requires_grad_() for t in (x, centers, lower_sigmas, upper_sigmas, log_heights)]
    assert torch.autograd.gradcheck(lambda *args: tuple(interval_log_firing(*args, tnorm="htsk")), leaves)
    assert torch.autograd.gradcheck(lambda *args: log_firing(*args), leaves[:3])


def test_relative_firing_peaks_at_one_and_never_vanishes() -> None:
    log_values = torch.tensor([[-1e6, -1e6 - 1.0, -2e6], [0.0, -30.0, -1e30]])
    firing = relative_firing(log_values)
    torch.testing.assert_close(firing[:, 0], torch.ones(2))
    torch.testing.assert_close(firing[0, 1].item(), 0.36787944)
    assert (firing >= torch.finfo(torch.float32).tiny).all()


def test_relative_interval_firing_is_relative_to_the_upper_peak() -> None:
    lower, upper = relative_interval_firing(torch.tensor([[-3.0, -9.0]]), torch.tensor([[-2.0, -1.0]]))
    torch.testing.assert_close(upper, torch.tensor([[-1.0, 0.0]]).exp())
    torch.testing.assert_close(lower, torch.tensor([[-2.0, -8.0]]).exp())


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (
            (torch.ones(3), torch.ones(2, 3), torch.ones(2, 3)),
            ValueError,
            r"x must have shape \(batch, features\), got \(3,\)\.",
        ),
        (
            (torch.ones(1, 2), torch.ones(2, 3), torch.ones(2, 3)),
            ValueError,
            r"with features=3 as in centers, got \(1, 2\)\.",
        ),
        (
            (torch.ones(1, 3), torch.ones(2, 3), torch.ones(1, 3)),
            ValueError,
            r"sigmas must have the shape of centers, \(2, 3\)",
        ),
        ((torch.ones(1, 3), torch.ones(2, 3), torch.ones(2, 3).double()), TypeError, "sigmas must have the dtype of x"),
        ((torch.ones(1, 3), torch.ones(0, 3), torch.ones(0, 3)), ValueError, "neither of them 0"),
    ],
)
def test_wrong_argument_is_refused_in_one_sentence(
    arguments: tuple[torch.Tensor, ...], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        log_firing(*arguments)


def test_mistyped_tnorm_gets_a_suggestion() -> None:
    with pytest.raises(ValueError, match=r"got 'hstk'\. Did you mean 'htsk'\?"):
        log_firing(torch.ones(1, 3), torch.ones(2, 3), torch.ones(2, 3), tnorm="hstk")
