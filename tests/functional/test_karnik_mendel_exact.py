"""End points and gradients against exact rational arithmetic, where firing spans more than the precision of a sum."""

from __future__ import annotations

from fractions import Fraction

import pytest
import torch

from deepfls.functional import karnik_mendel
from deepfls.functional.karnik_mendel import ALGORITHMS, _newton


def exact_left_end(low: list[Fraction], up: list[Fraction], y: list[Fraction]) -> tuple[Fraction, list[Fraction]]:
    """Smallest mean over all switch points of the ordered rules, and the weights that give it."""
    order = sorted(range(len(y)), key=lambda p: y[p])
    best: tuple[Fraction, list[Fraction]] | None = None
    for switch in range(len(y) + 1):
        weights = list(low)
        for p in order[:switch]:
            weights[p] = up[p]
        total = sum(weights)
        if total == 0:
            continue
        mean = sum(w * v for w, v in zip(weights, y, strict=True)) / total
        if best is None or mean < best[0]:
            best = mean, weights
    assert best is not None
    return best


def wide_case(
    batch: int, n_rules: int, decades: float, dtype: torch.dtype, seed: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Firing spread evenly over many decades, as the product of hundreds of grades gives it."""
    generator = torch.Generator().manual_seed(seed)
    upper = 10.0 ** (-decades * torch.rand(batch, n_rules, generator=generator, dtype=torch.float64))
    lower = upper * 10.0 ** (-decades * torch.rand(batch, n_rules, generator=generator, dtype=torch.float64))
    y = torch.randn(batch, n_rules, 1, generator=generator, dtype=torch.float64)
    upper = (upper / upper.amax(dim=1, keepdim=True)).to(dtype)
    return torch.minimum(lower.to(dtype), upper), upper, y.to(dtype)


def fractions(row: torch.Tensor) -> list[Fraction]:
    return [Fraction(v) for v in row.flatten().tolist()]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("algorithm", [*ALGORITHMS, "sweeps"])
@pytest.mark.parametrize("decades", [3.0, 9.0, 18.0])
def test_end_points_are_exact_when_firing_spans_many_decades(algorithm: str, decades: float, dtype: torch.dtype) -> None:
    lower, upper, y = wide_case(60, 7, decades, dtype, seed=int(decades))
    ends = _newton(lower, upper, y) if algorithm == "sweeps" else karnik_mendel(lower, upper, y, algorithm)
    tolerance = 1e-12 if dtype == torch.float64 else 1e-5
    for row in range(len(y)):
        low, up, values = fractions(lower[row]), fractions(upper[row]), fractions(y[row])
        left, _ = exact_left_end(low, up, values)
        minus_right, _ = exact_left_end(low, up, [-v for v in values])
        scale = max(abs(float(v)) for v in values)
        assert abs(ends.y_left[row].item() - float(left)) <= tolerance * scale
        assert abs(ends.y_right[row].item() + float(minus_right)) <= tolerance * scale


@pytest.mark.parametrize("traced", [False, True], ids=["kernel", "plain operations"])
@pytest.mark.parametrize("decades", [3.0, 9.0, 25.0])
def test_gradient_is_exact_when_firing_spans_many_decades(decades: float, traced: bool) -> None:
    lower, upper, y = wide_case(60, 4, decades, torch.float64, seed=7)

    def left_ends(lower: torch.Tensor, upper: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return karnik_mendel(lower, upper, y).y_left.sum()

    if traced:
        gradients = torch.func.grad(left_ends, argnums=(0, 1, 2))(lower, upper, y)
    else:
        leaves = [t.requires_grad_() for t in (lower, upper, y)]
        gradients = torch.autograd.grad(left_ends(*leaves), leaves)
    for row in range(len(y)):
        low, up, values = fractions(lower[row]), fractions(upper[row]), fractions(y[row])
        left, weights = exact_left_end(low, up, values)
        total = sum(weights)
        for p, weight in enumerate(weights):
            assert gradients[2][row, p, 0].item() == pytest.approx(float(weight / total), rel=1e-6, abs=1e-9)
            # Along the logarithm of the weight, which is what training sees: w dy/dw, of the size of the consequents.
            by_weight = gradients[0][row, p] * lower[row, p] + gradients[1][row, p] * upper[row, p]
            assert by_weight.item() == pytest.approx(float(weight * (values[p] - left) / total), rel=1e-6, abs=1e-9)
