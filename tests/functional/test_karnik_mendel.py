"""karnik_mendel against brute force, against laws, and with wrong arguments."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from deepfls.functional import karnik_mendel
from deepfls.functional.karnik_mendel import ALGORITHMS, _newton, end_points

ALL = [*ALGORITHMS, "auto"]


def brute_force(lower: torch.Tensor, upper: torch.Tensor, consequents: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Extremes over all 2^P choices, each mean summed on its own in float64: nothing shared with the code under test."""
    low, up, y = (t.double().numpy() for t in (lower, upper, consequents))
    choices = np.array(list(itertools.product([False, True], repeat=low.shape[1])))
    weights = np.where(choices[None], up[:, None, :], low[:, None, :])  # (batch, 2^rules, rules)
    total = weights.sum(axis=2)
    with np.errstate(invalid="ignore", divide="ignore"):
        means = np.einsum("bcp,bpo->bco", weights, y) / total[:, :, None]
    means_left = np.where(total[:, :, None] > 0, means, np.inf)
    means_right = np.where(total[:, :, None] > 0, means, -np.inf)
    return torch.from_numpy(means_left.min(axis=1)), torch.from_numpy(means_right.max(axis=1))


def random_case(
    batch: int, n_rules: int, n_outputs: int = 1, dtype: torch.dtype = torch.float64, seed: int = 0
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    upper = torch.rand(batch, n_rules, dtype=dtype, generator=generator)
    lower = upper * torch.rand(batch, n_rules, dtype=dtype, generator=generator)
    return lower, upper, torch.randn(batch, n_rules, n_outputs, dtype=dtype, generator=generator)


def assert_equals_brute_force(lower: torch.Tensor, upper: torch.Tensor, consequents: torch.Tensor, algorithm: str) -> None:
    tolerance = 1e-12 if consequents.dtype == torch.float64 else 1e-5
    ends = karnik_mendel(lower, upper, consequents, algorithm)
    # Rounding of a mean is relative to the consequents it averages, not to the mean, which may be near zero.
    scale = consequents.abs().amax(dim=1).double()
    for end, expected in zip(ends, brute_force(lower, upper, consequents), strict=True):
        assert end.dtype == consequents.dtype
        assert ((end.double() - expected).abs() <= tolerance * scale).all()
    assert (ends.y_left <= ends.y_right).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("algorithm", ALL)
@pytest.mark.parametrize("n_rules", range(1, 13))
def test_end_points_equal_brute_force(n_rules: int, algorithm: str, dtype: torch.dtype) -> None:
    batch = 1000 if n_rules <= 8 else 500
    assert_equals_brute_force(*random_case(batch, n_rules, 2, dtype, seed=n_rules), algorithm)


def special_cases() -> dict[str, tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
    lower, upper, y = random_case(200, 6, 2)
    spread = torch.logspace(-30, 0, 6, dtype=torch.float64)
    signs = torch.tensor([1.0, -1.0, 1.0, -1.0, 1.0, 1.0], dtype=torch.float64)
    return {
        "ties": (lower, upper, y.mul(2).round()),
        "all consequents equal": (lower, upper, torch.full_like(y, 0.1)),
        "one rule": (lower[:, :1], upper[:, :1], y[:, :1]),
        "one rule without lower firing": (torch.zeros_like(lower[:, :1]), upper[:, :1], y[:, :1]),
        "equal bounds": (upper, upper, y),
        "zero lower firing": (torch.zeros_like(lower), upper, y),
        "zero lower firing, equal consequents": (torch.zeros_like(lower), upper, torch.full_like(y, 0.1)),
        "some rules silent": (lower * (lower > 0.2), upper * (lower > 0.2) + (lower <= 0.2) * 1e-3, y),
        "one rule fires": (torch.zeros_like(lower), (torch.arange(6) == 3).double().expand_as(upper).contiguous(), y),
        "all firing tiny": (lower * 1e-30, upper * 1e-30, y),
        "all firing huge": (lower * 1e30, upper * 1e30, y),
        "firing ratios of 1e30": (lower * spread, upper * spread, y),
        "lower 1e-30 of upper": (upper * 1e-30, upper, y),
        "consequents of 1e30": (lower, upper, y * 1e30),
        "consequents of 1e-30": (lower, upper, y * 1e-30),
        "consequents from 1e-30 to 1e30": (lower, upper, y * (spread * 1e30 * signs)[:, None]),
        "firing and consequents of 1e30": (lower * 1e30, upper * 1e30, y * 1e30),
        "offset of 1e6": (lower, upper, y + 1e6),
    }


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("algorithm", ALL)
@pytest.mark.parametrize("name", special_cases())
def test_end_points_equal_brute_force_when_case_is_special(name: str, algorithm: str, dtype: torch.dtype) -> None:
    lower, upper, y = (t.to(dtype) for t in special_cases()[name])
    assert_equals_brute_force(torch.minimum(lower, upper), upper, y, algorithm)


def test_algorithms_stay_within_relative_tolerance_when_means_are_positive() -> None:
    lower, upper, y = random_case(500, 10, dtype=torch.float32)
    for algorithm in ALL:
        ends = karnik_mendel(lower, upper, y.exp(), algorithm)
        for end, expected in zip(ends, brute_force(lower, upper, y.exp()), strict=True):
            torch.testing.assert_close(end.double(), expected, rtol=1e-5, atol=0)


@pytest.mark.parametrize("n_rules", [50, 200, 1000])
def test_newton_equals_sort_when_rules_are_many(n_rules: int) -> None:
    lower, upper, y = random_case(64, n_rules, 3)
    for first, second in zip(karnik_mendel(lower, upper, y, "newton"), karnik_mendel(lower, upper, y, "sort"), strict=True):
        torch.testing.assert_close(first, second, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", special_cases())
def test_tensor_sweeps_equal_row_kernel(name: str) -> None:
    """The form "newton" takes on other devices, run on this one."""
    lower, upper, y = special_cases()[name]
    peak = upper.amax(dim=1, keepdim=True)
    scale = y.abs().amax(dim=1)
    sweeps = _newton(lower / peak, upper / peak, y)
    for first, second in zip(sweeps, karnik_mendel(lower, upper, y, "newton"), strict=True):
        assert ((first - second).abs() <= 1e-12 * scale).all()


def laws_case() -> st.SearchStrategy[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
    firing = st.floats(0.001, 1.0)

    @st.composite
    def build(draw: st.DrawFn) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        n_rules = draw(st.integers(1, 8))
        lists = {
            name: draw(st.lists(strategy, min_size=n_rules, max_size=n_rules))
            for name, strategy in (("upper", firing), ("share", st.floats(0.0, 1.0)), ("y", st.floats(-10.0, 10.0)))
        }
        upper = torch.tensor([lists["upper"]], dtype=torch.float64)
        lower = upper * torch.tensor([lists["share"]], dtype=torch.float64)
        return lower, upper, torch.tensor([lists["y"]], dtype=torch.float64).unsqueeze(-1)

    return build()


def close(first: torch.Tensor, second: torch.Tensor) -> bool:
    return torch.allclose(first, second, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@settings(max_examples=60, deadline=None)
@given(
    case=laws_case(), shift=st.floats(-100, 100), scale=st.floats(0.01, 100), factor=st.floats(1e-6, 1e6), data=st.data()
)
def test_end_points_obey_the_laws(
    algorithm: str,
    case: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
    shift: float,
    scale: float,
    factor: float,
    data: st.DataObject,
) -> None:
    lower, upper, y = case
    left, right = karnik_mendel(lower, upper, y, algorithm)
    assert left <= right
    assert left >= y.min() - 1e-12
    assert right <= y.max() + 1e-12
    # Equal bounds give the Type-1 average.
    average = (upper.unsqueeze(-1) * y).sum(1) / upper.sum(1, keepdim=True)
    assert all(close(end, average) for end in karnik_mendel(upper, upper, y, algorithm))
    # Shifting and scaling the consequents shifts and scales the ends; a negative scale exchanges them.
    moved = karnik_mendel(lower, upper, y * scale + shift, algorithm)
    assert close(moved.y_left, left * scale + shift)
    assert close(moved.y_right, right * scale + shift)
    mirrored = karnik_mendel(lower, upper, -y, algorithm)
    assert close(mirrored.y_left, -right)
    # The common scale of the firing and the order of the rules do not matter.
    scaled = karnik_mendel(lower * factor, upper * factor, y, algorithm)
    assert close(scaled.y_left, left)
    order = data.draw(st.permutations(range(y.shape[1])))
    permuted = karnik_mendel(lower[:, order], upper[:, order], y[:, order], algorithm)
    assert close(permuted.y_right, right)
    # Wider bounds never narrow the set.
    wider = karnik_mendel(lower * 0.5, upper * 1.5, y, algorithm)
    assert wider.y_left <= left + 1e-12
    assert wider.y_right >= right - 1e-12


@pytest.mark.parametrize("algorithm", ALL)
def test_gradient_equals_finite_differences(algorithm: str) -> None:
    lower, upper, y = (t.requires_grad_() for t in random_case(5, 6, 2, seed=3))
    assert torch.autograd.gradcheck(lambda a, b, c: tuple(karnik_mendel(a, b, c, algorithm)), (lower, upper, y))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_gradient_is_finite_when_consequents_tie_with_the_end(algorithm: str) -> None:
    lower = torch.zeros(3, 4, dtype=torch.float64, requires_grad=True)
    upper = torch.rand(3, 4, dtype=torch.float64, requires_grad=True)
    y = torch.tensor([0.1, 0.1, 0.1, 0.7], dtype=torch.float64).view(1, 4, 1).repeat(3, 1, 1).requires_grad_()
    left, right = karnik_mendel(lower, upper, y, algorithm)
    (left.sum() + right.sum()).backward()
    for tensor in (lower, upper, y):
        assert tensor.grad is not None
        assert torch.isfinite(tensor.grad).all()
    # Moving all consequents by one unit moves both ends of all three samples by one unit.
    torch.testing.assert_close(y.grad.sum().item(), 6.0)


def test_gradient_under_torch_func_equals_the_kernels() -> None:
    case = random_case(7, 9, 2)

    def total(lower: torch.Tensor, upper: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        left, right = karnik_mendel(lower, upper, y)
        return (left * 2 + right).sum()

    leaves = [t.clone().requires_grad_() for t in case]
    by_kernel = torch.autograd.grad(total(*leaves), leaves)
    transformed = torch.func.grad(total, argnums=(0, 1, 2))(*case)
    for first, second in zip(transformed, by_kernel, strict=True):
        torch.testing.assert_close(first, second)


def test_vmap_equals_a_loop() -> None:
    lower, upper, y = random_case(12, 5, 2)
    parts = [t.view(3, 4, *t.shape[1:]) for t in (lower, upper, y)]
    mapped = torch.func.vmap(lambda a, b, c: tuple(karnik_mendel(a, b, c)))(*parts)
    for end, expected in zip(mapped, karnik_mendel(lower, upper, y), strict=True):
        torch.testing.assert_close(end.flatten(0, 1), expected)


@pytest.mark.parametrize("algorithm", ALL)
def test_empty_batch_gives_empty_ends(algorithm: str) -> None:
    ends = karnik_mendel(torch.ones(0, 3), torch.ones(0, 3), torch.ones(0, 3, 2), algorithm)
    assert ends.y_left.shape == ends.y_right.shape == (0, 2)


def test_strided_input_equals_contiguous() -> None:
    lower, upper, y = random_case(8, 6, 3)
    strided = [t.repeat_interleave(2, dim=1)[:, ::2] for t in (lower, upper)] + [
        y.permute(2, 1, 0).contiguous().permute(2, 1, 0)
    ]
    for first, second in zip(karnik_mendel(*strided), karnik_mendel(lower, upper, y), strict=True):
        assert torch.equal(first, second)


def test_bfloat16_is_computed_in_float32() -> None:
    lower, upper, y = (t.bfloat16() for t in random_case(20, 6))
    ends = karnik_mendel(torch.minimum(lower, upper), upper, y)
    expected = karnik_mendel(torch.minimum(lower, upper).float(), upper.float(), y.float())
    assert ends.y_left.dtype == torch.bfloat16
    torch.testing.assert_close(ends.y_left.float(), expected.y_left, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_algorithm_ends_when_values_are_not_finite(algorithm: str) -> None:
    y = torch.tensor([[[float("nan")], [float("inf")], [1.0]]])
    firing = torch.tensor([[float("nan"), float("inf"), 0.0]])
    ends = end_points(firing, firing, y, algorithm)
    assert ends.y_left.shape == (1, 1)


GOOD = (torch.tensor([[0.1, 0.2]]), torch.tensor([[0.3, 0.4]]), torch.tensor([[[1.0], [2.0]]]))


@pytest.mark.parametrize(
    ("place", "value", "error", "message"),
    [
        (0, [[0.1]], TypeError, "lower_firing must be a torch.Tensor, got list."),
        (0, torch.tensor([[1, 2]]), TypeError, "lower_firing must have a floating-point dtype, got torch.int64."),
        (0, torch.ones(2), ValueError, "lower_firing must have shape (batch, rules) with at least one rule, got (2,)."),
        (
            0,
            GOOD[0].to_sparse(),
            TypeError,
            "lower_firing must be dense, got torch.sparse_coo: to_dense() makes it so.",
        ),
        (1, torch.ones(1, 3), ValueError, "upper_firing must have the shape of lower_firing, (1, 2), got (1, 3)."),
        (
            1,
            torch.ones(1, 2).double(),
            TypeError,
            "upper_firing must have the dtype of lower_firing, torch.float32, got torch.float64.",
        ),
        (
            1,
            torch.ones(1, 2, device="meta"),
            ValueError,
            "upper_firing must be on the device of lower_firing, cpu, got meta.",
        ),
        (
            2,
            torch.ones(1, 2),
            ValueError,
            "consequents must have shape (batch, rules, outputs) with at least one output and batch=1, rules=2 as in "
            "lower_firing, got (1, 2).",
        ),
        (
            0,
            torch.tensor([[0.5, 0.2]]),
            ValueError,
            "lower_firing must not exceed upper_firing, got 0.5 > 0.3 at index (0, 0).",
        ),
        (0, torch.tensor([[-0.5, 0.2]]), ValueError, "lower_firing must not be negative, got -0.5 at index (0, 0)."),
        (1, torch.tensor([[0.3, float("nan")]]), ValueError, "upper_firing must be finite, got nan at index (0, 1)."),
        (2, torch.tensor([[[1.0], [float("inf")]]]), ValueError, "consequents must be finite, got inf at index (0, 1, 0)."),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_wrong_argument_is_refused_in_one_sentence(place: int, value: object, error: type[Exception], message: str) -> None:
    arguments = list(GOOD)
    arguments[place] = value  # type: ignore[call-overload]
    with pytest.raises(error) as caught:
        karnik_mendel(*arguments)
    assert str(caught.value) == message


@pytest.mark.parametrize("algorithm", ALL)
def test_tensors_without_values_give_ends_without_values(algorithm: str) -> None:
    ends = karnik_mendel(*(tensor.to("meta") for tensor in GOOD), algorithm)
    assert [(end.shape, end.device.type) for end in ends] == [((1, 1), "meta")] * 2


def test_sample_without_firing_is_refused() -> None:
    with pytest.raises(ValueError, match=r"positive for at least one rule of every sample, got zeros in sample 0\."):
        karnik_mendel(torch.zeros(1, 2), torch.zeros(1, 2), GOOD[2])


def test_mistyped_algorithm_gets_a_suggestion() -> None:
    with pytest.raises(ValueError, match=r"got 'newtn'\. Did you mean 'newton'\?"):
        karnik_mendel(*GOOD, algorithm="newtn")


def test_enumerate_names_the_memory_it_would_need() -> None:
    lower, upper, y = random_case(512, 30, dtype=torch.float32)
    with pytest.raises(ValueError, match=r"at most 20 rules, got 30: 2\^30 candidates for 512 samples would need 4,398 GB"):
        karnik_mendel(lower, upper, y, "enumerate")


def test_unchecked_call_reads_no_values() -> None:
    ends = karnik_mendel(
        torch.ones(2, 3, device="meta"), torch.ones(2, 3, device="meta"), torch.ones(2, 3, 1, device="meta"), check=False
    )
    assert ends.y_left.shape == (2, 1)
