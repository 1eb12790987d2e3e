"""Settings of a training run: what they build, and what they refuse."""

from __future__ import annotations

import functools
import math
from typing import Any

import pytest
import torch
from torch import nn

from deepfls.functional.losses import LOSSES, huber
from deepfls.training import TrainConfig

OPTIMIZERS = [
    "adadelta",
    "adafactor",
    "adagrad",
    "adam",
    "adamax",
    "adamw",
    "asgd",
    "nadam",
    "radam",
    "rmsprop",
    "rprop",
    "sgd",
]
OFFERED = ", ".join(map(repr, OPTIMIZERS))


def weights() -> list[nn.Parameter]:
    return [nn.Parameter(torch.ones(3, 2, 4)), nn.Parameter(torch.ones(2))]


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizer_by_name_takes_a_step(name: str) -> None:
    parameters = weights()
    optimizer = TrainConfig(optimizer=name, learning_rate=0.1).build_optimizer(parameters)
    sum(p.square().sum() for p in parameters).backward()  # type: ignore[union-attr]
    optimizer.step()
    assert all(bool((p < 1.0).all()) for p in parameters)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("AdamW", torch.optim.AdamW),
        ("ADAM", torch.optim.Adam),
        ("sgd", torch.optim.SGD),
        (torch.optim.RMSprop, torch.optim.RMSprop),
    ],
    ids=str,
)
def test_optimizer_is_found_by_name_in_any_case_or_by_class(given: object, expected: type) -> None:
    assert TrainConfig(optimizer=given).optimizer_class() is expected  # type: ignore[arg-type]


def test_optimizer_of_ones_own_is_taken() -> None:
    class Mine(torch.optim.SGD):
        pass

    assert type(TrainConfig(optimizer=Mine).build_optimizer(weights())) is Mine


def test_optimizer_gets_rate_and_options() -> None:
    config = TrainConfig(optimizer="sgd", learning_rate=0.3, optimizer_options={"momentum": 0.9, "nesterov": True})
    group = config.build_optimizer(weights()).param_groups[0]
    assert (group["lr"], group["momentum"], group["nesterov"]) == (0.3, 0.9, True)


def test_optimizer_is_fused_where_torch_offers_it() -> None:
    assert TrainConfig(optimizer="adam").build_optimizer(weights()).param_groups[0]["fused"] is True


@pytest.mark.parametrize(("optimizer", "option"), [("adam", "foreach"), (torch.optim.Adam, "differentiable")])
def test_optimizer_is_not_fused_when_an_option_excludes_it(optimizer: Any, option: str) -> None:
    config = TrainConfig(optimizer=optimizer, optimizer_options={option: True})
    assert not config.build_optimizer(weights()).param_groups[0]["fused"]


@pytest.mark.parametrize("name", LOSSES)
def test_loss_by_name_is_the_function(name: str) -> None:
    assert TrainConfig(loss=name).loss_function() is LOSSES[name]


def test_loss_gets_its_options() -> None:
    bound = TrainConfig(loss="huber", loss_options={"delta": 0.5}).loss_function()
    assert isinstance(bound, functools.partial)
    assert (bound.func, bound.keywords) == (huber, {"delta": 0.5})


def test_callable_loss_gets_its_options() -> None:
    def scaled(y: torch.Tensor, target: torch.Tensor, factor: float) -> torch.Tensor:
        return factor * (y - target).abs()

    loss = TrainConfig(loss=scaled, loss_options={"factor": 3.0}).loss_function()
    assert loss(torch.ones(1, 1), torch.zeros(1, 1)).item() == 3.0


def rates(schedule: str, n_steps: int = 1000) -> list[float]:
    config = TrainConfig(schedule=schedule, learning_rate=2.0)
    return [config.rate(step, n_steps) for step in range(n_steps)]


def test_constant_schedule_keeps_the_rate() -> None:
    assert set(rates("constant")) == {2.0}


@pytest.mark.parametrize(("step", "expected"), [(0, 2.0), (500, 1.0), (1000, 0.0)], ids=["start", "middle", "end"])
def test_cosine_schedule_falls_from_the_rate_to_zero(step: int, expected: float) -> None:
    assert TrainConfig(schedule="cosine", learning_rate=2.0).rate(step, 1000) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("step", "expected"),
    [(0, 0.2), (50, 1.1), (100, 2.0), (550, 1.0), (1000, 0.0)],
    ids=["start", "up", "peak", "down", "end"],
)
def test_onecycle_schedule_rises_to_the_rate_and_falls_to_zero(step: int, expected: float) -> None:
    assert TrainConfig(schedule="onecycle", learning_rate=2.0).rate(step, 1000) == pytest.approx(expected)


def test_onecycle_schedule_has_one_peak() -> None:
    found = rates("onecycle")
    peak = found.index(max(found))
    assert found[: peak + 1] == sorted(found[: peak + 1])
    assert found[peak:] == sorted(found[peak:], reverse=True)


@pytest.mark.parametrize("schedule", ["constant", "cosine", "onecycle", "averaged"])
@pytest.mark.parametrize("n_steps", [1, 2, 3, 17])
def test_rate_is_positive_and_at_most_the_learning_rate_in_short_runs(schedule: str, n_steps: int) -> None:
    assert all(0.0 < rate <= 2.0 for rate in rates(schedule, n_steps))


BAD = [
    ({"learning_rate": 0.0}, ValueError, "learning_rate must be greater than 0, got 0.0."),
    ({"learning_rate": math.nan}, ValueError, "learning_rate must be greater than 0, got nan."),
    ({"learning_rate": math.inf}, ValueError, "learning_rate must be greater than 0 and finite, got inf."),
    ({"learning_rate": "0.1"}, TypeError, "learning_rate must be a number, got '0.1'."),
    ({"learning_rate": True}, TypeError, "learning_rate must be a number, got True."),
    (
        {"schedule": "cosin"},
        ValueError,
        "schedule must be one of 'constant', 'cosine', 'onecycle', 'averaged', got 'cosin'. Did you mean 'cosine'?",
    ),
    (
        {"schedule": None},
        TypeError,
        "schedule must be a string, one of 'constant', 'cosine', 'onecycle', 'averaged', got None.",
    ),
    ({"weight_decay": -0.1}, ValueError, "weight_decay must be at least 0, got -0.1."),
    ({"epochs": -1}, ValueError, "epochs must be at least 0, got -1."),
    ({"epochs": 1.5}, TypeError, "epochs must be an integer, got 1.5."),
    ({"batch_size": 0}, ValueError, "batch_size must be at least 1, got 0."),
    ({"batch_size": "all"}, TypeError, "batch_size must be an integer, got 'all'."),
    ({"gradient_clip": 0}, ValueError, "gradient_clip must be greater than 0, got 0."),
    ({"patience": 0}, ValueError, "patience must be at least 1, got 0."),
    ({"patience": 2.0}, TypeError, "patience must be an integer, got 2.0."),
    (
        {"loss": "hubert"},
        ValueError,
        "loss must be one of 'l1', 'l2', 'huber', 'log-cosh', 'pinball', 'cross-entropy', 'quantiles', got 'hubert'. "
        "Did you mean 'huber'?",
    ),
    (
        {"loss": 3},
        TypeError,
        "loss must be a string, one of 'l1', 'l2', 'huber', 'log-cosh', 'pinball', 'cross-entropy', 'quantiles', got 3.",
    ),
    (
        {"loss_options": {"delta": 1.0}},
        ValueError,
        "loss_options has 'delta', which l2 does not take (it takes none).",
    ),
    (
        {"loss": "pinball", "loss_options": {"quantil": 0.9}},
        ValueError,
        "loss_options has 'quantil', which pinball does not take (it takes 'quantile'). Did you mean 'quantile'?",
    ),
    ({"loss_options": 3}, TypeError, "loss_options must be a dictionary, got 3."),
    ({"loss": huber, "loss_options": 3}, TypeError, "loss_options must be a dictionary, got 3."),
    (
        {"optimizer": "adm"},
        ValueError,
        f"optimizer must be one of {OFFERED}, got 'adm'. Did you mean 'adam'?",
    ),
    ({"optimizer": nn.Linear}, TypeError, f"optimizer must be a string, one of {OFFERED}, got {nn.Linear!r}."),
    *(
        ({"optimizer": unfit}, ValueError, f"optimizer must be one of {OFFERED}, got {name!r}.")
        for unfit, name in [("LBFGS", "lbfgs"), (torch.optim.LBFGS, "lbfgs"), ("muon", "muon")]
    ),
    (
        {"optimizer": "adagrad", "optimizer_options": {"lr_decey": 0.1}},
        ValueError,
        "optimizer_options has 'lr_decey', which Adagrad does not take (it takes 'lr_decay', 'weight_decay', "
        "'initial_accumulator_value', 'eps', 'foreach', 'maximize', 'differentiable', 'fused'). Did you mean 'lr_decay'?",
    ),
    (
        {"optimizer_options": {"betas": [2, 3]}},
        ValueError,
        "optimizer_options must be values that the optimizer takes, got {'betas': [2, 3]} (Invalid beta "
        "parameter at index 0: 2).",
    ),
    (
        {"loss": "huber", "loss_options": {"delta": -1}},
        ValueError,
        "loss_options must be values that the loss takes, got {'delta': -1} (delta must be greater than 0, got -1).",
    ),
    ({"optimizer_options": ["momentum"]}, TypeError, "optimizer_options must be a dictionary, got ['momentum']."),
]


@pytest.mark.parametrize(
    ("options", "error", "message"), BAD, ids=[f"{place}-{list(options)}" for place, (options, _, _) in enumerate(BAD)]
)
def test_config_refuses_an_option(options: dict[str, object], error: type[Exception], message: str) -> None:
    with pytest.raises(error) as caught:
        TrainConfig(**options)  # type: ignore[arg-type]
    assert str(caught.value) == message


def test_config_refuses_the_rate_as_an_option_of_the_optimizer() -> None:
    with pytest.raises(ValueError, match=r"^optimizer_options has 'lr', which SGD does not take"):
        TrainConfig(optimizer="sgd", optimizer_options={"lr": 0.1})
