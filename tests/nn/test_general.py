"""GT2FLS as a layer."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from deepfls.functional.reduction import plane_width, type_reduced_set
from deepfls.nn import GT2FLS, IT2FLS, T1FLS


def gt2(dtype: torch.dtype = torch.float64, scale: float = 1.0, n_outputs: int = 2, **options: object) -> GT2FLS:
    """A system with random values of all raw parameters."""
    torch.manual_seed(0)
    system = GT2FLS(3, n_outputs, **{"n_rules": 4, **options}, dtype=dtype)  # type: ignore[arg-type]
    for parameter in system.parameters():
        nn.init.normal_(parameter, std=scale)
    return system


def rows(n_rows: int = 40, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return 2 * torch.randn(n_rows, 3, dtype=dtype, generator=torch.Generator().manual_seed(1))


OPTIONS = [
    {"shared_spread": shared, "tnorm": tnorm, "order": order}
    for shared in (True, False)
    for tnorm, order in (("product", 1), ("htsk", 1), ("product", 0))
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_gt2_at_alpha_1_equals_the_type_1_system(options: dict[str, object]) -> None:
    system, x = gt2(**options), rows()
    same = T1FLS(3, 2, n_rules=4, tnorm=system.tnorm, order=system.order, dtype=torch.float64)
    for name in ("centers", "sigmas", "intercepts", "slopes"):
        setattr(same, name, getattr(system, name))
    planes = system.planes(x, 1.0)
    for end in (planes.y_left[:, 0], planes.y_right[:, 0], system.plane_system(1.0)(x)):
        torch.testing.assert_close(end, same(x), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_one_plane_equals_an_interval_type_2_system(options: dict[str, object]) -> None:
    system, x = gt2(n_planes=1, **options), rows()
    alone = system.plane_system(0.01)
    assert isinstance(alone, IT2FLS)
    torch.testing.assert_close(system(x), alone(x), rtol=1e-12, atol=1e-12)
    for mine, other in zip(system.reduce(x), alone.reduce(x), strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-12, atol=1e-12)
    for alpha in (0.3, 0.001):
        plane, other = system.planes(x, alpha), system.plane_system(alpha)
        assert isinstance(other, IT2FLS)
        torch.testing.assert_close(plane.y_left[:, 0], other.reduce(x).y_left, rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(plane.y_right[:, 0], other.reduce(x).y_right, rtol=1e-12, atol=1e-12)


def test_planes_equal_grades_computed_input_by_input() -> None:
    system, x = gt2(shared_spread=False), rows(6)
    t = plane_width(torch.tensor(0.2, dtype=torch.float64))
    grades = torch.exp(-0.5 * ((x[:, None] - system.centers) / system.sigmas) ** 2)
    log_lower = ((1 - system.lower_spreads) ** t * grades).log().sum(dim=2)
    log_upper = (grades ** (1 - t * system.upper_spreads)).log().sum(dim=2)
    expected = type_reduced_set(log_lower, log_upper, system.consequents(x))
    found = system.planes(x, 0.2)
    torch.testing.assert_close(found.y_left[:, 0], expected.y_left)
    torch.testing.assert_close(found.y_right[:, 0], expected.y_right)


def test_output_is_the_mean_of_the_planes_by_their_levels() -> None:
    system, x = gt2(n_planes=3), rows()
    planes = system.planes(x)
    middle = 0.5 * (planes.y_left + planes.y_right)
    assert planes.alphas.tolist() == [0.01, 0.5, 1.0]
    torch.testing.assert_close(system(x), (0.01 * middle[:, 0] + 0.5 * middle[:, 1] + middle[:, 2]) / 1.51)
    torch.testing.assert_close(system.reduce(x).y, system(x))


def test_ends_at_one_level_for_every_row_equal_the_planes() -> None:
    system, x = gt2(shared_spread=False), rows(5)
    alphas = torch.tensor([1.0, 0.7, 0.2, 0.01, 0.002], dtype=torch.float64)
    found, planes = system.ends_at(x, alphas), system.planes(x, alphas)
    for row in range(5):
        torch.testing.assert_close(found.y_left[row], planes.y_left[row, row])
        torch.testing.assert_close(found.y_right[row], planes.y_right[row, row])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_no_plane_is_inverted_in_random_systems(dtype: torch.dtype) -> None:
    """100,000 rows of random systems, raw parameters and inputs from small to absurd."""
    alphas = [1e-6, 0.003, 0.01, 0.05, 0.3, 0.31, 0.9, 1.0]
    for number in range(50):
        torch.manual_seed(number)
        system = GT2FLS(3, 2, n_rules=1 + number % 7, shared_spread=number % 2 == 0, dtype=dtype)
        for parameter in system.parameters():
            nn.init.normal_(parameter, std=10.0 ** (number % 5 - 2))
        with torch.no_grad():
            planes = system.planes(torch.randn(1000, 3, dtype=dtype) * 10.0 ** (number % 4 - 1), alphas)
        assert torch.isfinite(planes.y_left).all()
        assert (planes.y_left <= planes.y_right).all()
        assert (planes.y_left.diff(dim=1) >= 0).all()
        assert (planes.y_right.diff(dim=1) <= 0).all()


@pytest.mark.parametrize("shared", [True, False])
def test_gradients_equal_finite_differences(shared: bool) -> None:
    system, x = gt2(shared_spread=shared, scale=0.5), rows(6)
    names = [name for name, _ in system.named_parameters()]

    def loss(*values: torch.Tensor) -> torch.Tensor:
        given = dict(zip(names, values, strict=True))
        return torch.func.functional_call(system, given, (x,)).square().sum()

    assert torch.autograd.gradcheck(loss, tuple(p.detach().requires_grad_() for p in system.parameters()), atol=1e-6)


def test_narrowed_planes_are_those_of_smaller_widths() -> None:
    torch.manual_seed(0)
    x, system = torch.randn(20, 3, dtype=torch.float64), GT2FLS(3, n_rules=4, shared_spread=False, dtype=torch.float64)
    narrower = copy.deepcopy(system)
    narrower.narrow_planes(0.5)
    for alpha in (0.01, 0.3):
        _, *expected = system.planes(x, [alpha**0.25])  # the width is the root of the logarithm of α
        _, *found = narrower.planes(x, [alpha])
        torch.testing.assert_close(found, expected)


def test_spreads_are_set_and_read_back() -> None:
    system = GT2FLS(3, n_rules=2, shared_spread=False, dtype=torch.float64)
    assert system.lower_spreads.shape == (2, 3)
    system.lower_spreads, system.upper_spreads = 0.25, 0.75
    torch.testing.assert_close(system.lower_spreads, torch.full((2, 3), 0.25, dtype=torch.float64))
    torch.testing.assert_close(system.upper_spreads, torch.full((2, 3), 0.75, dtype=torch.float64))
    assert GT2FLS(3, n_rules=2).lower_spreads.shape == (1, 1)
    narrow = GT2FLS(3, n_rules=2)  # in float32, whose smallest number is far above that of float64
    narrow.upper_spreads = 0.0
    assert 0.0 < narrow.upper_spreads.item() < 1e-12
    with pytest.raises(ValueError, match="lower_spreads must be between 0 and 1"):
        system.lower_spreads = 1.5
    with pytest.raises(ValueError, match="upper_spreads must be between 0 and 0"):
        system.upper_spreads = 1.0


@pytest.mark.parametrize(
    ("options", "message"),
    [({"n_planes": 0}, "n_planes must be at least 1, got 0."), ({"algorithm": "fast"}, "algorithm must be one of")],
)
def test_wrong_options_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        gt2(**options)


def test_state_dict_round_trip() -> None:
    system, x = gt2(shared_spread=False), rows()
    copy = GT2FLS(3, 2, n_rules=4, shared_spread=False, dtype=torch.float64)
    copy.load_state_dict(system.state_dict())
    torch.testing.assert_close(copy(x), system(x), rtol=0, atol=0)
