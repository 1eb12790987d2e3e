"""The automatic settings follow the number of rows within their bounds."""

from __future__ import annotations

import pytest

from deepfls.training import recipe


@pytest.mark.parametrize(
    ("n_rows", "batch_size", "epochs", "rate", "width", "decay"),
    [
        (1, 32, 5, 0.05, 1.0, 1.0),
        (354, 32, 133, 0.05, 1.0, 350 / 354),
        (6698, 512, 388, 0.0298, 0.5227, 350 / 6698),
        (10_000_000, 4096, 14, 0.01, 0.3, 3.5e-5),
    ],
)
def test_settings_follow_the_number_of_rows(
    n_rows: int, batch_size: int, epochs: int, rate: float, width: float, decay: float
) -> None:
    assert recipe.batch_size(n_rows) == batch_size
    assert recipe.epochs(n_rows, batch_size) == epochs
    assert recipe.learning_rate(n_rows) == pytest.approx(rate, rel=1e-2)
    assert recipe.width(n_rows) == pytest.approx(width, rel=1e-2)
    assert recipe.weight_decay(n_rows) == pytest.approx(decay)


@pytest.mark.parametrize(
    ("n_rows", "numbers", "usual"), [(3, (3,), 3), (60, (3, 6), 3), (1_000, (3, 6, 12, 25, 50, 100), 12)]
)
def test_numbers_of_rules_need_eight_rows_to_a_rule(n_rows: int, numbers: tuple[int, ...], usual: int) -> None:
    assert recipe.rule_numbers(n_rows) == numbers
    assert recipe.usual_rules(n_rows) == usual


def test_large_tables_hold_out_one_part_instead_of_folds() -> None:
    assert recipe.fold_shares(3_999) == (3, 3)
    assert recipe.fold_shares(4_000) == (5, 1)


@pytest.mark.parametrize(("n_rows", "several", "n_narrow"), [(1_999, True, 1), (2_000, True, 0), (1_999, False, 0)])
def test_narrow_sets_are_compared_for_several_systems_of_few_rows(n_rows: int, several: bool, n_narrow: int) -> None:
    found = recipe.paths(n_rows, several=several)
    assert sum(path.width < 1.0 for path in found) == n_narrow
    assert found[0].shares[-1] == 1.0
    assert [path.decay for path in found if path.below < 1.0] == [1.0, 0.0]


@pytest.mark.parametrize(("n_rows", "longest"), [(3_999, 2.0), (4_000, 1.0)])
def test_small_tables_with_little_noise_may_have_twice_the_epochs(n_rows: int, longest: float) -> None:
    assert {path.shares[-1] for path in recipe.paths(n_rows, several=False) if path.below < 1.0} == {longest}


def test_slow_paths_replace_the_fast_one() -> None:
    usual, *others = recipe.paths(1_000, several=False, slow=True)
    assert usual == recipe.paths(1_000, several=False)[0]
    assert {path.rate for path in others} == {0.4}


def test_very_large_tables_have_no_path_of_less_decay() -> None:
    assert [path.decay for path in recipe.paths(200_000, several=False) if path.below < 1.0] == [0.0]


@pytest.mark.parametrize(("n_rows", "tree", "n_trees"), [(4_000, True, 1), (4_000, False, 0), (3_999, True, 0)])
def test_a_run_from_a_tree_is_compared_for_many_rows(n_rows: int, tree: bool, n_trees: int) -> None:
    found = recipe.paths(n_rows, several=False, tree=tree)
    assert sum(path.tree for path in found) == n_trees
    assert not found[0].tree


def test_the_rate_falls_with_the_number_of_many_inputs() -> None:
    assert recipe.learning_rate(200, 64) == recipe.learning_rate(200)
    assert recipe.learning_rate(200, 1_500) == pytest.approx(0.05 * 64 / 1_500)
