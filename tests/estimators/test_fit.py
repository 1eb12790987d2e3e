"""The fit pipeline on arrays: systems learn, options do what they say, and equal fits give equal bits."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import make_friedman1
from sklearn.linear_model import LinearRegression

from deepfls.data.arrays import ArraySource
from deepfls.estimators.fit import fit
from deepfls.estimators.settings import RegressorSettings
from deepfls.functional.losses import l2
from estimator_cases import LABELS, X, Y, both, classifier, regressor

# Learning


@pytest.mark.parametrize("kind", ["t1", "it2"])
def test_regressor_learns_what_a_line_cannot(kind: str) -> None:
    r2 = regressor(kind=kind, n_rules=8, epochs=60).fit(X, Y).score(X, Y)
    assert r2 > 0.9 > LinearRegression().fit(X, Y).score(X, Y)


@pytest.mark.parametrize("kind", ["t1", "it2"])
def test_classifier_learns_three_classes(kind: str) -> None:
    assert classifier(kind=kind, n_rules=8, epochs=60).fit(X, LABELS).score(X, LABELS) > 0.9


@pytest.mark.parametrize("kind", ["t1", "it2"])
def test_regressor_beats_a_line_on_unseen_rows(kind: str) -> None:
    x, y = make_friedman1(n_samples=700, noise=1.0, random_state=0)
    line = LinearRegression().fit(x[:350], y[:350]).score(x[350:], y[350:])
    assert regressor(kind=kind, n_rules=5, epochs=20).fit(x[:350], y[:350]).score(x[350:], y[350:]) > line + 0.05


def test_pipeline_gives_what_the_estimator_adopts() -> None:
    settings = RegressorSettings(n_rules=4, epochs=3, random_state=0, coverage=0.8)
    result = fit(settings, ArraySource(X, Y[:, None]))
    model = regressor(coverage=0.8).fit(X, Y)
    np.testing.assert_array_equal(result.model.predictions(X)[:, 0], model.predict(X))
    assert result.part is not None
    assert model.interval_model_ is not None
    np.testing.assert_array_equal(result.part.model.predictions(X)[:, 0], model.interval_model_.predict(X))
    assert (result.stopped_by, result.history[-1]["epoch"]) == ("epochs", 3.0)


def test_fit_to_arrays_imports_nothing_that_reads_tables() -> None:
    source = (
        "import sys, numpy as np; from deepfls import FLSRegressor; x = np.arange(20.0).reshape(-1, 1); "
        "FLSRegressor(n_rules=2, epochs=1).fit(x, x[:, 0]).predict(x); "
        "print([name for name in ('deepfls.data.tables', 'deepfls.training.stream_batches') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# What the options do


@pytest.mark.parametrize("uncertainty", ["h", "s", "hs"])
@pytest.mark.parametrize("type_reduction", ["km", "nt", "bmm", "sm"])
def test_every_it2_system_learns_with_the_uncertainty_asked_for(uncertainty: str, type_reduction: str) -> None:
    model = regressor(uncertainty=uncertainty, type_reduction=type_reduction, epochs=10).fit(X, Y)
    assert model.history_[-1]["loss"] < model.history_[0]["loss"]
    assert torch.equal(model.system_.lower_sigmas, model.system_.upper_sigmas) == (uncertainty == "h")
    assert bool((model.system_.heights == 1.0).all()) == (uncertainty == "s")


def test_type_reductions_form_the_crisp_output_as_they_are_defined() -> None:
    models = {name: regressor(type_reduction=name, epochs=0).fit(X, Y) for name in ("km", "nt", "bmm", "sm")}
    lower, upper, _ = models["km"]._model.reduced(X)
    y = {name: model.predict(X) for name, model in models.items()}
    np.testing.assert_allclose(y["km"], 0.5 * (lower + upper)[:, 0], rtol=1e-12)
    # The learned mix of "bmm" starts at a half, which is the mix of "sm".
    np.testing.assert_allclose(y["bmm"], y["sm"], rtol=1e-12)
    nt = models["nt"]
    outputs = nt.system_.consequents(torch.from_numpy(nt.x_scaling_.apply(X)))[:, :, 0].detach().numpy()
    average = (nt._model.rule_weights(X) * outputs).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(y["nt"], nt.y_scaling_.invert(average)[:, 0], rtol=1e-9)


def test_order_zero_has_constant_consequents() -> None:
    model = regressor(order=0).fit(X, Y)
    values = model.y_scaling_.invert(model.system_.intercepts.numpy())
    assert values.min() - 1e-9 <= model.predict(100.0 * X).min()
    assert model.predict(100.0 * X).max() <= values.max() + 1e-9


@pytest.mark.parametrize(("tnorm", "used"), [("auto", "htsk"), ("htsk", "htsk"), ("product", "product")])
def test_tnorm_decides_how_grades_combine(tnorm: str, used: str) -> None:
    model = regressor(tnorm=tnorm, epochs=1).fit(X, Y)
    assert model.system_.tnorm == used
    firing = model.firing_strengths(X).upper
    z = model.x_scaling_.apply(X)
    centers, sigmas = model.system_.centers.numpy(), model.system_.upper_sigmas.numpy()
    squares = np.square((z[:, None] - centers) / sigmas).sum(axis=2)
    np.testing.assert_allclose(firing, np.exp(-0.5 * squares / (3 if used == "htsk" else 1)), rtol=1e-9)


def test_huber_loss_follows_an_outlier_less_than_squares_do() -> None:
    y = np.append(Y, 500.0)
    x = np.vstack([X, X[:1]])
    errors = {
        name: np.abs(regressor(epochs=60, loss=name, loss_options=options, outliers="keep").fit(x, y).predict(X) - Y).mean()
        for name, options in (("l2", None), ("huber", {"delta": 0.01}))
    }
    assert errors["huber"] < 0.5 * errors["l2"]


def test_pinball_loss_predicts_a_quantile() -> None:
    x = np.repeat([[0.0], [1.0]], 100, axis=0)
    y = np.tile(np.arange(100.0), 2)
    model = regressor(n_rules=2, epochs=60, loss="pinball", loss_options={"quantile": 0.8}).fit(x, y)
    assert model.predict([[0.0], [1.0]]) == pytest.approx(79.0, abs=5.0)


def test_callable_loss_trains_as_the_loss_of_that_name() -> None:
    order = np.argsort(X[:, 0])  # the order of merged rows; those of a callable loss keep theirs
    own = regressor(loss=lambda y, target: l2(y, target)).fit(X[order], Y[order])
    np.testing.assert_allclose(own.predict(X), regressor().fit(X, Y).predict(X), rtol=1e-4)
    torch_loss = regressor(loss=torch.nn.MSELoss()).fit(X[order], Y[order])
    np.testing.assert_allclose(torch_loss.predict(X), own.predict(X), rtol=1e-4)


def test_optimizer_gets_its_options_and_the_learning_rate() -> None:
    seen = []

    class WatchedSGD(torch.optim.SGD):
        def __init__(self, params: Any, lr: float, momentum: float = 0.0) -> None:
            seen.append((lr, momentum))
            super().__init__(params, lr=lr, momentum=momentum)

    regressor(optimizer=WatchedSGD, optimizer_options={"momentum": 0.9}, learning_rate=0.02).fit(X, Y)
    assert seen == [(0.02, 0.9)]


def test_constant_schedule_keeps_the_learning_rate_and_the_others_end_low() -> None:
    rates = {
        name: [row["learning_rate"] for row in regressor(schedule=name, learning_rate=0.02, epochs=5).fit(X, Y).history_]
        for name in ("constant", "cosine", "onecycle")
    }
    assert rates["constant"] == [0.02] * 5
    assert all(rates[name][-1] < 0.1 * 0.02 for name in ("cosine", "onecycle"))


def test_gradient_clip_bounds_the_way_of_a_step() -> None:
    steady = {"optimizer": "sgd", "schedule": "constant", "learning_rate": 1.0, "weight_decay": 0.0, "batch_size": 48}

    def moved(**options: Any) -> float:
        start, end = (regressor(**{**steady, **options, "epochs": n}).fit(X, Y).system_.state_dict() for n in (0, 1))
        return float(sum((start[name] - end[name]).square().sum() for name in start) ** 0.5)

    assert moved() > 0.01
    assert moved(gradient_clip=1e-3) == pytest.approx(1e-3, rel=1e-3)


def test_weight_decay_pulls_the_slopes_of_the_rules_together() -> None:
    def spread(decay: float) -> float:
        return float(regressor(weight_decay=decay, epochs=20).fit(X, Y).system_.slopes.std(dim=0).mean())

    assert spread(1000.0) < 0.1 * spread(0.0)


def test_batch_size_is_the_number_of_rows_of_a_step() -> None:
    sizes = []

    def watching(y: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        sizes.append(len(y))
        return l2(y, target)

    regressor(loss=watching, batch_size=7, epochs=1).fit(X, Y)
    assert sizes == [7] * 6 + [6]


def test_dtype_is_that_of_training_and_predictions_are_in_float64() -> None:
    for name, dtype in (("float32", torch.float32), ("float64", torch.float64)):
        seen = set()

        def watching(y: torch.Tensor, target: torch.Tensor, seen: set[Any] = seen) -> torch.Tensor:
            seen |= {y.dtype, target.dtype}
            return l2(y, target)

        model = regressor(loss=watching, dtype=name).fit(X, Y)
        assert seen == {dtype}
        assert model.system_.centers.dtype == torch.float64


def test_grid_starts_evenly_and_k_means_where_the_rows_are() -> None:
    x = np.concatenate([np.zeros(20), np.ones(20), [10.0]])[:, None]
    starts = {
        name: np.sort(regressor(n_rules=3, centers=name, epochs=0).fit(x, x[:, 0]).initial_sets_[0, :, 0])
        for name in ("grid", "kmeans", "kmeans-per-input")
    }
    np.testing.assert_allclose(starts["grid"], [0.0, 5.0, 10.0], atol=1e-5)
    for name in ("kmeans", "kmeans-per-input"):
        np.testing.assert_allclose(starts[name], [0.0, 1.0, 10.0], atol=1e-5)


def test_k_means_per_input_combines_sets_freely() -> None:
    x = np.repeat([[0.0, 0.0], [1.0, 5.0], [2.0, 10.0]], 5, axis=0)
    centers = regressor(n_rules=3, centers="kmeans-per-input", epochs=0).fit(x, x[:, 0]).initial_sets_[0]
    for column, values in ((0, [0.0, 1.0, 2.0]), (1, [0.0, 5.0, 10.0])):
        np.testing.assert_allclose(np.sort(centers[:, column]), values, atol=1e-5)


def test_random_consequents_start_near_zero_and_learn() -> None:
    start = regressor(consequents="random", epochs=0).fit(X, Y).system_
    for values in (start.intercepts, start.slopes):
        assert values.min() >= 0.0
        assert values.max() <= 0.01
    assert regressor(consequents="random", epochs=60, weight_decay=0.0).fit(X, Y).score(X, Y) > 0.5


def test_ridge_start_is_a_fit_already() -> None:
    r2 = {ridge: regressor(n_rules=8, epochs=0, ridge=ridge).fit(X, Y).score(X, Y) for ridge in (1e-4, 1e3)}
    assert r2[1e-4] > 0.9
    assert r2[1e3] < r2[1e-4]


def test_width_is_in_standard_deviations_of_the_input() -> None:
    model = regressor(kind="t1", width=0.5, epochs=0).fit(X, Y)
    np.testing.assert_allclose(model.initial_sets_[1], np.tile(0.5 * X.std(axis=0, ddof=1), (4, 1)), rtol=1e-5)


def test_scaling_none_keeps_the_units_of_the_data() -> None:
    model = regressor(scaling="none").fit(X, Y)
    for scaling in (model.x_scaling_, model.y_scaling_):
        assert (scaling.shift == 0).all()
        assert (scaling.scale == 1).all()


@pytest.mark.filterwarnings("ignore:n_rules=100 is more than the 48 rows")
@pytest.mark.parametrize("n_rules", [1, 4, 100])
def test_rules_are_at_most_as_many_as_rows(n_rules: int) -> None:
    model = regressor(n_rules=n_rules).fit(X, Y)
    assert model.rule_shares_.shape == (min(n_rules, 48),)
    assert np.isfinite(model.predict(X)).all()


def test_patience_stops_and_keeps_the_best_epoch() -> None:
    settings = {"patience": 2, "learning_rate": 0.3, "schedule": "constant"}
    model = regressor(**settings, epochs=300).fit(X, Y)
    losses = [row["validation_loss"] for row in model.history_]
    assert model.stopped_by_ == "patience"
    assert len(losses) == losses.index(min(losses)) + 3
    best = regressor(**settings, epochs=losses.index(min(losses)) + 1).fit(X, Y)
    np.testing.assert_array_equal(model.predict(X), best.predict(X))


# Same in, same out


@both
@pytest.mark.parametrize("kind", ["t1", "it2"])
def test_same_random_state_gives_the_same_bits(make: Callable[..., Any], y: np.ndarray, kind: str) -> None:
    first, second = (make(kind=kind, patience=2).fit(X, y) for _ in range(2))
    state = second.system_.state_dict()
    assert all(torch.equal(value, state[name]) for name, value in first.system_.state_dict().items())


def test_another_random_state_gives_another_model() -> None:
    assert not np.array_equal(regressor().fit(X, Y).predict(X), regressor(random_state=1).fit(X, Y).predict(X))


@both
def test_second_fit_forgets_the_first(make: Callable[..., Any], y: np.ndarray) -> None:
    model = make().fit(X[:, :2], y[::-1]).fit(X, y)
    np.testing.assert_array_equal(model.predict(X), make().fit(X, y).predict(X))
    assert len(model.history_) == 3


@both
def test_order_of_rows_does_not_matter(make: Callable[..., Any], y: np.ndarray) -> None:
    np.testing.assert_array_equal(make().fit(X[::-1], y[::-1]).predict(X), make().fit(X, y).predict(X))


@both
def test_weights_equal_repeats(make: Callable[..., Any], y: np.ndarray) -> None:
    counts = np.arange(48) % 3
    weighted = make().fit(X, y, sample_weight=counts.astype(float))
    repeated = make().fit(np.repeat(X, counts, axis=0), np.repeat(y, counts))
    np.testing.assert_array_equal(weighted.predict(X), repeated.predict(X))


@pytest.mark.filterwarnings("ignore:No column of X varies")
def test_weights_pull_the_model() -> None:
    x, y = np.zeros((2, 1)), np.array([0.0, 1.0])
    model = regressor(n_rules=1, weight_decay=0.0, epochs=0).fit(x, y, sample_weight=[1.0, 3.0])
    assert model.predict([[0.0]])[0] == pytest.approx(0.75, abs=1e-3)


@pytest.mark.filterwarnings("ignore:No column of X varies")
def test_equal_rows_count_each_when_the_loss_averages_by_itself() -> None:
    x, y = np.zeros((4, 1)), np.array([0.0, 0.0, 0.0, 1.0])
    model = regressor(loss=torch.nn.MSELoss(), n_rules=1, epochs=30).fit(x, y)
    assert model.predict([[0.0]])[0] == pytest.approx(0.25, abs=0.02)


def test_loss_that_averages_by_itself_is_refused_with_weights() -> None:
    with pytest.raises(
        ValueError, match=r"^loss must return shape \(batch, \.\.\.\) with batch=48 so that sample weights can apply"
    ):
        regressor(loss=torch.nn.MSELoss(), batch_size=48).fit(X, Y, sample_weight=np.arange(1.0, 49.0))


# Runs that end early


def test_interrupted_fit_leaves_a_usable_model() -> None:
    calls = []

    def interrupted(y: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return l2(y, target)

    model = regressor(loss=interrupted, batch_size=16)
    with pytest.warns(UserWarning, match=r"^Training was interrupted in epoch 2 of 3; the parameters reached are kept\.$"):
        model.fit(X, Y)
    assert model.stopped_by_ == "interrupt"
    assert np.isfinite(model.predict(X)).all()


def test_diverging_fit_leaves_a_usable_model() -> None:
    model = regressor(learning_rate=1e30, epochs=20)
    with pytest.warns(UserWarning, match=r"^Training left the finite numbers in epoch \d+ at ever smaller rates"):
        model.fit(X, Y)
    assert model.stopped_by_ == "divergence"
    assert np.isfinite(model.predict(X)).all()


def failing_loss(y: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    raise RuntimeError("a bug in the loss")


@both
@pytest.mark.parametrize("warm_start", [False, True], ids=["cold", "warm"])
def test_error_in_the_loss_leaves_an_earlier_fit(make: Callable[..., Any], y: np.ndarray, warm_start: bool) -> None:
    model = make(warm_start=warm_start).fit(X, y)
    before = model.predict(X)
    with pytest.raises(RuntimeError, match=r"^a bug in the loss$"):
        model.set_params(loss=failing_loss).fit(X, y)
    np.testing.assert_array_equal(model.predict(X), before)
    assert len(model.history_) == 3
