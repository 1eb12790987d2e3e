"""Starting points: from any table, cleanly, and the linear part exactly."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from deepfls._checks.values import evenly_spaced
from deepfls.nn import GT2FLS, IT2FLS, T1FLS
from deepfls.training import start as initialize
from deepfls.training.partition import CENTERS
from deepfls.training.start import (
    initialize_system,
    solve_consequents,
    start_from_tree,
    start_sigmas,
    width_limits,
)
from start_cases import NASTY_ROWS, RANDOM, STEPS, X, seeded

RIDGE = 1e-3


def sample_table(n_rows: int = 60, n_features: int = 2) -> tuple[Tensor, Tensor]:
    """A target that no single linear model can follow."""
    x = torch.from_numpy(seeded().normal(size=(n_rows, n_features)))
    return x, torch.sin(2.0 * x[:, :1]) + x[:, -1:] ** 2


def t1(n_features: int = 2, n_outputs: int = 1, n_rules: int = 4, **options: object) -> T1FLS:
    return T1FLS(n_features, n_outputs, n_rules=n_rules, dtype=torch.float64, **options)  # type: ignore[arg-type]


def it2(n_features: int = 2, n_outputs: int = 1, n_rules: int = 4, **options: object) -> IT2FLS:
    return IT2FLS(n_features, n_outputs, n_rules=n_rules, dtype=torch.float64, **options)  # type: ignore[arg-type]


def squared_error(system: T1FLS | IT2FLS, x: Tensor, y: Tensor) -> float:
    with torch.no_grad():
        return float((system(x) - y).square().mean())


def test_sigmas_are_the_spread_of_each_input_times_the_width() -> None:
    rows = seeded().normal(size=(30, 2)) * [1.0, 5.0]
    np.testing.assert_allclose(start_sigmas(rows, 0.5), 0.5 * rows.std(axis=0, ddof=1))


def test_narrowest_width_follows_from_the_number_of_different_values() -> None:
    rows = np.array([[0.0, 2.0, 5.0, np.nan], [4.0, 2.0, np.nan, np.nan], [1.0, 3.0, 6.0, np.nan], [0.0, 3.0, 5.0, np.nan]])
    span = np.array([[0.0, 2.0, 5.0, 0.0], [4.0, 3.0, 6.0, 1.0]])
    gaps = [2, 1, 2, 1]  # a value that is not known counts as another one
    np.testing.assert_allclose(width_limits(rows, span)[0], 0.05 * (span[1] - span[0]) / gaps)


def test_category_has_the_weight_of_one_input() -> None:
    """Its inputs have one width, and a number beside it acts as beside one other number in a geometric mean."""
    rows = np.column_stack([np.linspace(-1, 1, 12), np.eye(3)[np.arange(12) % 3]])
    together = np.sqrt(rows[:, 1:].var(axis=0, ddof=1).sum())
    np.testing.assert_allclose(start_sigmas(rows, 0.5, [(1, 4)]), 0.5 * np.array([rows[:, 0].std(ddof=1)] + [together] * 3))
    acting = []
    for n_features, groups in ((4, [(1, 4)]), (2, [])):
        x, system = torch.from_numpy(rows[:, :n_features]), T1FLS(n_features, n_rules=2, tnorm="htsk").double()
        initialize_system(system, x, x[:, :1], groups=groups, random_state=seeded())
        acting.append(system.sigmas[0, 0].item() * np.sqrt(n_features))
    assert acting[0] == pytest.approx(acting[1])


def test_sigmas_of_many_rows_are_those_of_a_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(initialize, "_WIDTH_ROWS", 20)
    (x, y), system = sample_table(60), t1()
    initialize_system(system, x, y, random_state=seeded())
    np.testing.assert_allclose(system.sigmas[0].detach(), start_sigmas(x.numpy()[evenly_spaced(60, 20)], 1.0))


@pytest.mark.parametrize("name", ["1 row", "constant column", "all constant"])
def test_sigmas_are_positive_when_an_input_does_not_vary(name: str) -> None:
    assert (start_sigmas(NASTY_ROWS[name], 1.0) > 0).all()


@pytest.mark.parametrize("magnitude", [1e-150, 1e-12, 1e12, 1e150])
def test_sigmas_stay_within_what_a_set_can_have(magnitude: float) -> None:
    sigmas = start_sigmas(np.array([[0.0], [magnitude]]), 1.0)
    system = t1(1)
    system.sigmas = torch.from_numpy(sigmas)
    assert torch.isfinite(system.sigmas).all()


@pytest.mark.parametrize("kind", ["t1", "it2 h", "it2 s", "it2 hs"])
@pytest.mark.parametrize("consequents", ["ridge", "random"])
@pytest.mark.parametrize("name", NASTY_ROWS)
def test_start_is_finite(kind: str, consequents: str, name: str) -> None:
    rows = torch.from_numpy(NASTY_ROWS[name])
    n_features = rows.shape[1]
    system = t1(n_features) if kind == "t1" else it2(n_features, uncertainty=kind.split()[1])
    initialize_system(system, rows, rows[:, :1] ** 2, consequents=consequents, random_state=seeded())
    with torch.no_grad():
        assert torch.isfinite(system(rows)).all()


@pytest.mark.parametrize("kind", ["t1", "it2"])
@pytest.mark.parametrize("centers", CENTERS)
@pytest.mark.parametrize("consequents", ["ridge", "random"])
def test_start_is_the_same_for_the_same_seed(kind: str, centers: str, consequents: str) -> None:
    x, y = sample_table()
    states = []
    for _ in range(2):
        system = t1() if kind == "t1" else it2()
        initialize_system(system, x, y, centers=centers, consequents=consequents, random_state=seeded())
        states.append(system.state_dict())
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])


def test_start_leaves_the_global_generators_alone() -> None:
    x, y = sample_table()
    system = it2()
    numpy_before, torch_before = np.random.get_state()[1].copy(), torch.get_rng_state()  # noqa: NPY002  # the global one
    initialize_system(system, x, y, random_state=seeded())
    assert torch.equal(torch.get_rng_state(), torch_before)
    np.testing.assert_array_equal(np.random.get_state()[1], numpy_before)  # noqa: NPY002  # the global one


def test_random_consequents_are_small_as_in_the_paper() -> None:
    x, y = sample_table()
    system = t1()
    initialize_system(system, x, y, consequents="random", random_state=seeded())
    values = torch.cat([system.intercepts.flatten(), system.slopes.flatten()])
    assert ((values >= 0.0) & (values <= 0.01)).all()


def test_heights_start_as_in_the_paper() -> None:
    x, y = sample_table()
    system = it2()
    initialize_system(system, x, y, random_state=seeded())
    assert ((system.heights >= 0.5) & (system.heights <= torch.sigmoid(torch.tensor(1.0)).item())).all()


def normalised_firing(system: T1FLS, x: Tensor) -> Tensor:
    grades = torch.exp(-0.5 * ((x[:, None] - system.centers) / system.sigmas) ** 2)
    firing = grades.prod(dim=2)
    return (firing / firing.sum(dim=1, keepdim=True)).detach()


def dense_ridge(design: Tensor, y: Tensor, ridge: float, weight: Tensor, free: int = 0) -> Tensor:
    """Minimiser of Σ w (design b - y)² + ridge Σw |b|², by a least-squares solve of the augmented system."""
    penalty = torch.full((design.shape[1],), ridge * float(weight.sum()), dtype=torch.float64)
    if free:
        penalty[-free:] = 0.0
    root = weight.sqrt().unsqueeze(1)
    augmented = torch.cat([design * root, penalty.sqrt().diag()])
    target = torch.cat([y * root, torch.zeros(design.shape[1], y.shape[1], dtype=torch.float64)])
    return torch.linalg.lstsq(augmented, target, driver="gelsd").solution


@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize("weighted", [False, True], ids=["unweighted", "weighted"])
def test_ridge_consequents_equal_a_dense_solution(order: int, weighted: bool) -> None:
    x, y = sample_table()
    y = torch.cat([y, y**2], dim=1)
    weight = torch.rand(len(x), generator=torch.Generator().manual_seed(0), dtype=torch.float64) + 0.1
    if not weighted:
        weight = torch.ones_like(weight)
    system = t1(n_outputs=2, order=order)
    initialize_system(system, x, y, ridge=RIDGE, random_state=seeded(), sample_weight=weight if weighted else None)
    ones = torch.ones(len(x), 1, dtype=torch.float64)
    basis = torch.cat([x, ones], dim=1) if order == 1 else ones
    common = dense_ridge(basis, y, RIDGE, weight, free=1)
    design = (normalised_firing(system, x).unsqueeze(2) * basis.unsqueeze(1)).flatten(1)
    local = dense_ridge(design, y - basis @ common, RIDGE, weight).view(4, -1, 2) + common
    torch.testing.assert_close(system.intercepts.detach(), local[:, -1], rtol=1e-6, atol=1e-8)
    if order == 1:
        torch.testing.assert_close(system.slopes.detach(), local[:, :-1].transpose(1, 2), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("kind", ["t1", "it2"])
def test_ridge_start_beats_the_common_linear_model(kind: str) -> None:
    x, y = sample_table()
    system = t1() if kind == "t1" else it2()
    initialize_system(system, x, y, ridge=RIDGE, random_state=seeded())
    basis = torch.cat([x, torch.ones(len(x), 1, dtype=torch.float64)], dim=1)
    linear = torch.linalg.lstsq(basis, y).solution
    assert squared_error(system, x, y) < 0.5 * float((basis @ linear - y).square().mean())


def test_ridge_start_is_the_mean_when_the_penalty_is_huge() -> None:
    x, y = sample_table()
    system = t1()
    initialize_system(system, x, y, ridge=1e12, random_state=seeded())
    with torch.no_grad():
        torch.testing.assert_close(system(x), y.mean(dim=0).expand(len(x), 1), rtol=0.0, atol=1e-6)


@pytest.mark.parametrize("ridge", [1e-12, 1e-20, 1e-300])
def test_ridge_start_is_finite_when_the_penalty_is_tiny_and_columns_are_equal(ridge: float) -> None:
    x, y = sample_table(n_features=1)
    system = t1(3)
    initialize_system(system, x.expand(-1, 3), y, ridge=ridge, random_state=seeded())
    assert squared_error(system, x.expand(-1, 3), y) < float(y.var())


def test_weights_equal_repeats() -> None:
    x, y = sample_table(20)
    counts = torch.arange(20) % 3 + 1
    first, second = t1(), t1()
    for system in (first, second):
        system.centers, system.sigmas = x[:4], 0.7
    solve_consequents(first, x, y, ridge=RIDGE, sample_weight=counts.double())
    solve_consequents(second, x.repeat_interleave(counts, 0), y.repeat_interleave(counts, 0), ridge=RIDGE)
    torch.testing.assert_close(first.slopes, second.slopes)
    torch.testing.assert_close(first.intercepts, second.intercepts)


def test_ridge_does_not_depend_on_the_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = sample_table()
    first, second = t1(), t1()
    initialize_system(first, x, y, random_state=seeded())
    monkeypatch.setattr(initialize, "_CHUNK_ELEMENTS", 50)
    initialize_system(second, x, y, random_state=seeded())
    torch.testing.assert_close(first.slopes, second.slopes)


@pytest.mark.parametrize(
    ("limit", "same_slopes", "same_intercepts"),
    [(8, True, False), (3, True, True)],
    ids=["intercepts only", "common model"],
)
def test_ridge_solves_less_when_the_unknowns_are_too_many(
    monkeypatch: pytest.MonkeyPatch, limit: int, same_slopes: bool, same_intercepts: bool
) -> None:
    """With 4 rules and 2 inputs: 12 unknowns, then 4 intercepts, then one model for all rules."""
    monkeypatch.setattr(initialize, "_MAX_UNKNOWNS", limit)
    x, y = sample_table()
    system = t1()
    initialize_system(system, x, y, random_state=seeded())
    assert bool((system.slopes == system.slopes[0]).all()) == same_slopes
    assert bool((system.intercepts == system.intercepts[0]).all()) == same_intercepts


def test_ridge_leaves_out_slopes_when_the_inputs_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(initialize, "_MAX_UNKNOWNS", 4)
    x, y = sample_table(n_features=6)
    system = t1(6)
    initialize_system(system, x, y, random_state=seeded())
    assert not system.slopes.any()
    assert squared_error(system, x, y) < float(y.var())


def test_one_rule_gets_the_common_model() -> None:
    x, y = sample_table()
    system = t1(n_rules=1)
    initialize_system(system, x, y, ridge=1e-9, random_state=seeded())
    basis = torch.cat([x, torch.ones(len(x), 1, dtype=torch.float64)], dim=1)
    expected = basis @ torch.linalg.lstsq(basis, y).solution
    with torch.no_grad():
        torch.testing.assert_close(system(x), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (
            {"centers": "k-means"},
            ValueError,
            "centers must be one of 'kmeans', 'kmeans-per-input', 'grid', got 'k-means'. Did you mean 'kmeans'?",
        ),
        (
            {"consequents": "rigde"},
            ValueError,
            "consequents must be one of 'ridge', 'random', got 'rigde'. Did you mean 'ridge'?",
        ),
        ({"consequents": None}, TypeError, "consequents must be a string, one of 'ridge', 'random', got None."),
        ({"width": 0.0}, ValueError, "width must be greater than 0, got 0.0."),
        ({"ridge": -1.0}, ValueError, "ridge must be greater than 0, got -1.0."),
        ({"ridge": float("inf")}, ValueError, "ridge must be greater than 0 and finite, got inf."),
    ],
    ids=str,
)
def test_start_refuses_an_option(options: dict[str, object], error: type[Exception], message: str) -> None:
    x, y = sample_table()
    with pytest.raises(error) as caught:
        initialize_system(t1(), x, y, random_state=seeded(), **options)  # type: ignore[arg-type]
    assert str(caught.value) == message


def test_start_refuses_numbers_whose_squares_overflow() -> None:
    x, y = sample_table()
    system = T1FLS(2, n_rules=4)
    x[3, 1] = 1e20
    with pytest.raises(
        ValueError, match=r"^x must be within ±1e\+15 in torch.float32, got 1e\+20 at index \(3, 1\); scale"
    ) as e:
        initialize_system(system, x.float(), y.float(), random_state=seeded())
    assert str(e.value).endswith("scale the data.")


# Starts at the leaves of a tree


def test_many_inputs_have_a_tree_of_constants() -> None:
    wide = np.column_stack([X, RANDOM.uniform(-1, 1, size=(600, 30))])
    system = T1FLS(33, 1, n_rules=24, dtype=torch.float64)
    x, y = torch.from_numpy(wide), torch.from_numpy(STEPS)
    start_from_tree(system, x, y, random_state=np.random.RandomState(0))
    assert float(((system(x).detach() - y) ** 2).mean().sqrt()) < 0.8 * STEPS.std()


@pytest.mark.parametrize("cls", [T1FLS, IT2FLS, GT2FLS])
def test_narrow_parts_of_an_input_are_found_without_training(cls: type) -> None:
    system = cls(3, 1, n_rules=24, dtype=torch.float64)
    x, y = torch.from_numpy(X), torch.from_numpy(STEPS)
    start_from_tree(system, x, y, random_state=np.random.RandomState(0))
    error = float(((system(x).detach() - y) ** 2).mean().sqrt())
    assert error < 0.5 * STEPS.std()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_planes_of_a_general_system_have_no_width(dtype: torch.dtype) -> None:
    system = GT2FLS(3, 1, n_rules=24, dtype=dtype)
    x, y = torch.from_numpy(X).to(dtype), torch.from_numpy(STEPS).to(dtype)
    start_from_tree(system, x, y, random_state=np.random.RandomState(0))
    _, y_left, y_right = system.planes(x, [0.01, 1.0])
    torch.testing.assert_close(y_left, y_right, atol=1e-5, rtol=0.0)


def test_a_tree_of_one_leaf_gives_a_line() -> None:
    system = T1FLS(3, 1, n_rules=4, dtype=torch.float64)
    x = torch.from_numpy(X[:8])
    y = x[:, :1] + 2.0
    start_from_tree(system, x, y, random_state=np.random.RandomState(0))
    torch.testing.assert_close(system(x).detach(), y, atol=0.05, rtol=0.0)


def test_heavy_rows_decide() -> None:
    system = T1FLS(3, 1, n_rules=6, dtype=torch.float64)
    x, y = torch.from_numpy(X), torch.from_numpy(np.where(np.arange(600) % 2, 1.0, -1.0)[:, None])
    weight = torch.from_numpy(np.where(np.arange(600) % 2, 1.0, 1e-6))
    start_from_tree(system, x, y, sample_weight=weight, random_state=np.random.RandomState(0))
    assert float(system(x).detach().mean()) > 0.95


@pytest.mark.parametrize("cls", [T1FLS, IT2FLS, GT2FLS])
def test_sets_that_are_trained_afterwards_are_wider_and_keep_a_footprint(cls: type) -> None:
    x, y = torch.from_numpy(X), torch.from_numpy(STEPS)
    first, second = cls(3, 1, n_rules=24, dtype=torch.float64), cls(3, 1, n_rules=24, dtype=torch.float64)
    start_from_tree(first, x, y, random_state=np.random.RandomState(0))
    start_from_tree(second, x, y, random_state=np.random.RandomState(0), trained=True)
    torch.testing.assert_close(first.centers, second.centers)
    widths = [system.upper_sigmas if isinstance(system, IT2FLS) else system.sigmas for system in (first, second)]
    assert (widths[1] >= widths[0]).all()
    assert (widths[1] > widths[0]).any()
    if cls is not T1FLS:
        spreads = [(y_right - y_left).mean().item() for y_left, y_right, _ in (s.reduce(x) for s in (first, second))]
        assert spreads[1] > 5.0 * spreads[0]


def test_trees_of_shares_of_the_rows_differ_by_their_seed() -> None:
    x, y = torch.from_numpy(X), torch.from_numpy(STEPS)
    centers = []
    for seed in (0, 1, 0):
        system = T1FLS(3, 1, n_rules=12, dtype=torch.float64)
        start_from_tree(system, x, y, random_state=np.random.RandomState(seed), trained=True, row_share=0.7)
        centers.append(system.centers.detach().clone())
    assert not torch.equal(centers[0], centers[1])
    assert torch.equal(centers[0], centers[2])
