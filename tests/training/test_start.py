"""Starting points: from any table, cleanly, and the linear part exactly."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from deepfls.nn import IT2FLS, T1FLS
from deepfls.training import start as initialize
from deepfls.training.start import (
    CENTERS,
    initialize_system,
    solve_consequents,
    start_centers,
    start_sigmas,
    width_limits,
)

RIDGE = 1e-3


def seeded() -> np.random.RandomState:
    return np.random.RandomState(0)


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


NASTY_ROWS = {
    "1 row": np.array([[1.0, 2.0]]),
    "2 rows": np.array([[1.0, 2.0], [3.0, -1.0]]),
    "duplicates": np.tile([[0.0, 1.0], [2.0, -1.0], [0.0, 1.0]], (10, 1)),
    "constant column": np.column_stack([np.arange(20.0), np.full(20, 0.1)]),
    "all constant": np.full((20, 2), 0.1),
    "1 column": np.arange(12.0).reshape(-1, 1),
    "2 distinct values": (np.arange(40.0) % 2).reshape(-1, 1),
    "rows that differ by rounding": 1.0 + np.arange(30.0).reshape(-1, 1) * 2.0**-52,
    "1,000 columns": seeded().normal(size=(12, 1000)),
}


@pytest.mark.parametrize("method", CENTERS)
@pytest.mark.parametrize("name", NASTY_ROWS)
def test_centers_lie_within_the_data(method: str, name: str) -> None:
    rows = NASTY_ROWS[name]
    centers = start_centers(rows, 7, method, seeded())
    assert centers.shape == (7, rows.shape[1])
    room = 1e-12 * np.abs(rows).max()
    assert (centers >= rows.min(axis=0) - room).all()
    assert (centers <= rows.max(axis=0) + room).all()


@pytest.mark.parametrize("method", ["kmeans", "kmeans-per-input"])
def test_centers_are_the_distinct_values_when_there_are_fewer_than_rules(method: str) -> None:
    rows = np.array([[3.0], [1.0], [3.0], [1.0]])
    centers = start_centers(rows, 5, method, seeded())
    assert sorted(set(centers[:, 0])) == [1.0, 3.0]


@pytest.mark.parametrize("method", CENTERS)
def test_centers_are_the_same_for_the_same_seed(method: str) -> None:
    rows = seeded().normal(size=(50, 3))
    np.testing.assert_array_equal(*(start_centers(rows, 6, method, seeded()) for _ in range(2)))


def test_kmeans_finds_clusters() -> None:
    middles = np.array([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0]])
    rows = np.concatenate([m + 0.1 * seeded().normal(size=(20, 2)) for m in middles])
    found = start_centers(rows, 3, "kmeans", seeded())
    distances = np.abs(found[:, None] - middles).sum(axis=2).min(axis=0)
    assert distances.max() < 0.3


def test_kmeans_per_input_covers_every_input() -> None:
    rows = np.column_stack([np.repeat([0.0, 5.0], 10), np.tile([1.0, 7.0], 10)])
    found = start_centers(rows, 2, "kmeans-per-input", seeded())
    assert [sorted(column) for column in found.T] == [[0.0, 5.0], [1.0, 7.0]]


def test_kmeans_looks_at_a_share_of_the_rows_when_they_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(initialize, "_KMEANS_SAMPLE", 50)
    seen = []
    monkeypatch.setattr(initialize, "_kmeans", lambda rows, *others: seen.append((len(rows), others[-1])))
    for n_rows, n_rules in ((50, 2), (100, 2), (100, 4), (100, 5)):
        start_centers(np.arange(float(n_rows)).reshape(-1, 1), n_rules, "kmeans", seeded())
    # All of few rows, in as many rounds as they take; of many a sample, but twenty rows for each rule at least.
    assert seen == [(50, 300), (50, 25), (80, 25), (100, 300)]


def test_grid_is_even_over_one_input() -> None:
    rows = np.array([[0.0], [4.0], [1.0]])
    np.testing.assert_allclose(start_centers(rows, 5, "grid", seeded())[:, 0], [0.0, 1.0, 2.0, 3.0, 4.0])


def test_grid_takes_the_corners_of_the_box() -> None:
    rows = np.array([[0.0, 0.0], [1.0, 1.0], [0.5, 0.2]])
    found = start_centers(rows, 4, "grid", seeded())
    assert sorted(map(tuple, found)) == [(0.0, 0.0), (0.0, 1.0), (1.0, 0.0), (1.0, 1.0)]


def test_grid_fills_up_with_rows_of_the_data() -> None:
    rows = np.array([[0.0, 0.0], [1.0, 1.0], [0.5, 0.2]])
    extra = start_centers(rows, 5, "grid", seeded())[4]
    assert extra.tolist() in rows.tolist()


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
