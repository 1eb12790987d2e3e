"""T1FLS and IT2FLS as layers."""

from __future__ import annotations

import copy
import io

import pytest
import torch
from torch import nn

from deepfls.functional import interval_gaussian_grades, karnik_mendel
from deepfls.functional.karnik_mendel import ALGORITHMS
from deepfls.functional.reduction import REDUCTIONS
from deepfls.nn import GT2FLS, IT2FLS, T1FLS
from deepfls.training import TrainConfig, train
from deepfls.training.steps import Rows

UNCERTAINTIES = ["h", "s", "hs"]


def it2(dtype: torch.dtype = torch.float64, n_features: int = 3, n_outputs: int = 2, **options: object) -> IT2FLS:
    torch.manual_seed(0)
    system = IT2FLS(n_features, n_outputs, **{"n_rules": 4, **options}, dtype=dtype)  # type: ignore[arg-type]
    nn.init.normal_(system.consequents.raw_intercepts)
    return system


def t1(dtype: torch.dtype = torch.float64, n_features: int = 3, n_outputs: int = 2, **options: object) -> T1FLS:
    torch.manual_seed(0)
    system = T1FLS(n_features, n_outputs, **{"n_rules": 4, **options}, dtype=dtype)  # type: ignore[arg-type]
    nn.init.normal_(system.consequents.raw_intercepts)
    return system


def systems(dtype: torch.dtype = torch.float64) -> dict[str, T1FLS | IT2FLS]:
    found: dict[str, T1FLS | IT2FLS] = {f"t1 order {order}": t1(dtype, order=order) for order in (0, 1)}
    for uncertainty in UNCERTAINTIES:
        for reduction in REDUCTIONS:
            found[f"it2 {uncertainty} {reduction}"] = it2(dtype, uncertainty=uncertainty, type_reduction=reduction)
    found["it2 htsk paper"] = it2(dtype, tnorm="htsk", parameterization="paper")
    found["it2 order 0"] = it2(dtype, order=0)
    return found


NAMES = list(systems())


def test_t1_equals_the_papers_formula() -> None:
    system, x = t1(), torch.randn(6, 3, dtype=torch.float64)
    grades = torch.exp(-((x[:, None] - system.centers) ** 2) / (2 * system.sigmas**2))
    firing = grades.prod(dim=2)
    rule = torch.einsum("bm,pom->bpo", x, system.slopes) + system.intercepts
    expected = (firing[:, :, None] * rule).sum(1) / firing.sum(1, keepdim=True)
    torch.testing.assert_close(system(x), expected)


@pytest.mark.parametrize("uncertainty", UNCERTAINTIES)
@pytest.mark.parametrize("parameterization", ["ordered", "paper"])
def test_it2_equals_the_papers_formula(uncertainty: str, parameterization: str) -> None:
    system = it2(uncertainty=uncertainty, parameterization=parameterization)
    x = torch.randn(6, 3, dtype=torch.float64)
    grades = interval_gaussian_grades(x, system.centers, system.lower_sigmas, system.upper_sigmas, system.heights)
    rule = torch.einsum("bm,pom->bpo", x, system.slopes) + system.intercepts
    left, right = karnik_mendel(grades.lower.prod(dim=2), grades.upper.prod(dim=2), rule, "enumerate")
    reduced = system.reduce(x)
    torch.testing.assert_close(reduced.y_left, left)
    torch.testing.assert_close(reduced.y_right, right)
    torch.testing.assert_close(system(x), (left + right) / 2)


def test_it2_with_no_footprint_equals_t1() -> None:
    first, second = t1(), it2()
    second.centers, second.slopes, second.intercepts = first.centers, first.slopes, first.intercepts
    second.set_sigmas(first.sigmas, first.sigmas)
    second.heights = 1.0
    x = torch.randn(6, 3, dtype=torch.float64)
    for output in second.reduce(x):
        torch.testing.assert_close(output, first(x))


@pytest.mark.parametrize("name", NAMES)
def test_gradients_equal_finite_differences(name: str) -> None:
    system = systems()[name]
    names, parameters = zip(*system.named_parameters(), strict=True)
    x = torch.randn(3, 3, dtype=torch.float64, requires_grad=True)

    def output(x: torch.Tensor, *values: torch.Tensor) -> tuple[torch.Tensor, ...]:
        # Straight through autograd with replaced parameters, as training does it.
        call = torch.func.functional_call
        reduced = call(system, dict(zip(names, values, strict=True)), (x,))
        return (reduced,)

    assert torch.autograd.gradcheck(output, (x, *(p.detach().clone().requires_grad_() for p in parameters)))


def test_gradients_of_the_end_points_equal_finite_differences() -> None:
    system = it2()
    x = torch.randn(3, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: tuple(system.reduce(x)), (x,))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_algorithms_give_the_same_system(algorithm: str) -> None:
    x = torch.randn(20, 3, dtype=torch.float64)
    torch.testing.assert_close(it2(algorithm=algorithm)(x), it2()(x))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_reduce_keeps_order_and_forward_is_its_crisp_output(name: str, dtype: torch.dtype) -> None:
    system = systems(dtype)[name]
    x = torch.randn(50, 3, dtype=dtype) * 5
    assert system(x).dtype == dtype
    if isinstance(system, IT2FLS):
        y_left, y_right, y = system.reduce(x)
        assert (y_left <= y).all()
        assert (y <= y_right).all()
        torch.testing.assert_close(y, system(x))


@pytest.mark.parametrize("tnorm", ["product", "htsk"])
@pytest.mark.parametrize("kind", [T1FLS, IT2FLS])
def test_outputs_and_gradients_are_finite_with_2000_inputs_and_100_rules(kind: type, tnorm: str) -> None:
    torch.manual_seed(0)
    system = kind(2000, n_rules=100, tnorm=tnorm)
    y = system(torch.randn(64, 2000))
    y.square().sum().backward()
    assert torch.isfinite(y).all()
    for name, parameter in system.named_parameters():
        assert torch.isfinite(parameter.grad).all(), name
    # The product of 2,000 heights is e^-1000: each end is one rule's consequent, and the sets have no influence on it.
    moves = system.consequents.raw_slopes if (kind, tnorm) == (IT2FLS, "product") else system.antecedents.raw_centers
    assert moves.grad.abs().max() > 0


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.Adam, torch.optim.RMSprop])
@pytest.mark.parametrize("parameterization", ["ordered", "paper"])
def test_constraints_hold_after_violent_optimiser_steps(
    optimizer: type[torch.optim.Optimizer], parameterization: str
) -> None:
    system = it2(torch.float32, parameterization=parameterization)
    descent = optimizer(system.parameters(), lr=5.0)  # type: ignore[call-arg]
    for _ in range(20):
        descent.zero_grad()
        nn.functional.huber_loss(system(torch.randn(32, 3)), torch.randn(32, 2)).backward()
        descent.step()
        assert (system.lower_sigmas > 0).all()
        assert (system.lower_sigmas <= system.upper_sigmas).all()
        assert (system.heights > 0).all()
        assert (system.heights <= 1).all()
    assert torch.isfinite(system(torch.randn(32, 3))).all()


@pytest.mark.parametrize("name", NAMES)
def test_empty_batch_and_batch_of_one(name: str) -> None:
    system = systems()[name]
    empty = torch.zeros(0, 3, dtype=torch.float64)
    output = system(empty)
    assert output.shape == (0, 2)
    output.sum().backward()
    assert system(torch.zeros(1, 3, dtype=torch.float64)).shape == (1, 2)


@pytest.mark.parametrize("kind", [T1FLS, IT2FLS, GT2FLS])
def test_system_without_memory_gets_it_afterwards(kind: type[nn.Module]) -> None:
    system = kind(3, device="meta")
    assert system(torch.empty(2, 3, device="meta")).shape == (2, 1)
    system = system.to_empty(device="cpu")
    system.reset_parameters()  # type: ignore[operator]  # every system has it
    assert system(torch.zeros(2, 3)).isfinite().all()


@pytest.mark.parametrize("name", NAMES)
def test_state_dict_and_deepcopy_keep_the_system(name: str) -> None:
    system, fresh = systems()[name], systems()[name]
    fresh.reset_parameters()
    x = torch.randn(5, 3, dtype=torch.float64)
    buffer = io.BytesIO()
    torch.save(system.state_dict(), buffer)
    buffer.seek(0)
    fresh.load_state_dict(torch.load(buffer, weights_only=True))
    assert torch.equal(fresh(x), system(x))
    assert torch.equal(copy.deepcopy(system)(x), system(x))


@pytest.mark.parametrize("name", ["t1 order 1", "it2 hs km", "it2 h km", "it2 s nt", "it2 hs bmm"])
def test_export_keeps_the_outputs_for_any_batch(name: str) -> None:
    system = systems(torch.float32)[name]
    exported = torch.export.export(
        system, (torch.randn(5, 3),), dynamic_shapes={"x": {0: torch.export.Dim("batch", min=1, max=1024)}}
    )
    x = torch.randn(9, 3)
    torch.testing.assert_close(exported.module()(x), system(x))


@pytest.mark.parametrize("name", ["t1 order 1", "it2 hs km", "it2 h km", "it2 hs bmm"])
def test_compiled_system_takes_the_same_step(name: str) -> None:
    """Traced whole by torch.compile, forward and backward; "aot_eager" does so without a C++ compiler."""
    system, x = systems(torch.float64)[name], torch.randn(6, 3, dtype=torch.float64)
    gradients = []
    for call in (system, torch.compile(system, fullgraph=True, backend="aot_eager")):
        system.zero_grad()
        call(x).square().sum().backward()
        gradients.append([p.grad.clone() for p in system.parameters()])  # type: ignore[union-attr]
    for eager, compiled in zip(*gradients, strict=True):
        torch.testing.assert_close(eager, compiled)


def test_vmap_over_an_ensemble_equals_a_loop() -> None:
    members = [it2() for _ in range(3)]
    for member in members:
        member.reset_parameters()
    parameters, buffers = torch.func.stack_module_state(members)
    x = torch.randn(5, 3, dtype=torch.float64)
    together = torch.func.vmap(lambda p, b: torch.func.functional_call(members[0], (p, b), (x,)))(parameters, buffers)
    torch.testing.assert_close(together, torch.stack([member(x) for member in members]))


def test_layers_learn_inside_a_torch_model() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 3), nn.BatchNorm1d(3), IT2FLS(3, 2, n_rules=5), nn.Tanh(), nn.Linear(2, 1))
    x = torch.randn(256, 5)
    target = (x[:, :1] * x[:, 1:2]).tanh()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    losses = []
    for _ in range(60):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), target)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.6 * losses[0]


@pytest.mark.parametrize("kind", [T1FLS, IT2FLS, GT2FLS])
@pytest.mark.parametrize("order", [0, 1])
def test_autocast_changes_no_output_and_its_half_precision_is_taken(kind: type[nn.Module], order: int) -> None:
    torch.manual_seed(0)
    system, x = kind(3, 2, n_rules=4, order=order), torch.randn(6, 3)
    expected = system(x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(system(x), expected)
        if kind is not T1FLS:
            torch.testing.assert_close(system.reduce(x).y, expected)
        half = nn.Linear(3, 3)(x)
        assert half.dtype == torch.bfloat16
        assert torch.equal(system(half), system(half.float()))
        system(half).sum().backward()
    assert system.antecedents.raw_centers.grad.dtype == torch.float32


def test_setting_values_maps_back_to_raw() -> None:
    system = it2()
    system.centers = torch.full((4, 3), 0.3)
    system.upper_sigmas = 2.0
    system.lower_sigmas = torch.full((4, 3), 0.5)
    system.heights = 0.25
    system.slopes = torch.ones(4, 2, 3)
    system.intercepts = [[1.0, 2.0]] * 4
    expected = {"centers": 0.3, "upper_sigmas": 2.0, "lower_sigmas": 0.5, "heights": 0.25, "slopes": 1.0}
    for name, value in expected.items():
        torch.testing.assert_close(getattr(system, name).detach(), torch.full_like(getattr(system, name), value), msg=name)
    torch.testing.assert_close(system.intercepts[2].detach(), torch.tensor([1.0, 2.0], dtype=torch.float64))
    mixed = it2(type_reduction="bmm")
    mixed.mix = [0.1, 0.8]
    torch.testing.assert_close(mixed.mix.detach(), torch.tensor([0.1, 0.8], dtype=torch.float64))


def test_height_only_sets_share_their_widths() -> None:
    system = it2(uncertainty="h")
    system.upper_sigmas = 0.7
    torch.testing.assert_close(system.lower_sigmas, system.upper_sigmas)
    with pytest.raises(ValueError, match=r"lower_sigmas / upper_sigmas must be 1 where uncertainty='h', got 0\.5"):
        system.set_sigmas(0.5, 1.0)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("centers", torch.ones(2, 2), r"centers must have shape \(4, 3\), got \(2, 2\)\."),
        ("centers", float("nan"), r"centers must be finite, got nan at index \(0, 0\)\."),
        ("heights", 1.5, r"heights must be between 1\.80485e-35 and 1, got 1\.5 at index \(0, 0\)\."),
        ("heights", 0.0, r"heights must be between"),
        ("upper_sigmas", -1.0, r"upper_sigmas must be between 1\.523e-08 and 6\.566e\+07, got -1 at index \(0, 0\)\."),
        ("lower_sigmas", 3.0, r"lower_sigmas must not exceed upper_sigmas, got 3 > 1 at index \(0, 0\)\."),
    ],
)
def test_setting_impossible_values_is_refused_and_changes_nothing(name: str, value: object, message: str) -> None:
    system = it2()
    before = copy.deepcopy(system.state_dict())
    with pytest.raises(ValueError, match=message):
        setattr(system, name, value)
    for key, tensor in system.state_dict().items():
        assert torch.equal(tensor, before[key])


@pytest.mark.parametrize(
    ("x", "error", "message"),
    [
        (torch.ones(2, 4), ValueError, r"x must have shape \(batch, features\) with features=3, got \(2, 4\)\."),
        (torch.ones(3), ValueError, r"got \(3,\)\."),
        (
            torch.ones(2, 3),
            TypeError,
            r"x must have the dtype of the module's parameters, torch\.float64, got torch\.float32\.",
        ),
        (torch.ones(2, 3, dtype=torch.long), TypeError, r"x must have a floating-point dtype, got torch\.int64\."),
        ([[1.0, 2.0, 3.0]], TypeError, r"x must be a torch\.Tensor, got list\."),
        (
            torch.ones(2, 3, dtype=torch.float64, device="meta"),
            ValueError,
            "x must be on the device of the module's parameters",
        ),
    ],
)
@pytest.mark.parametrize("build", [t1, it2])
def test_forward_refuses_bad_input_in_one_sentence(build: object, x: object, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        build()(x)  # type: ignore[operator]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"n_rules": 0}, ValueError, r"n_rules must be at least 1, got 0\."),
        ({"n_rules": 2.5}, TypeError, r"n_rules must be an integer, got 2\.5\."),
        ({"order": 2}, ValueError, r"order must be between 0 and 1, got 2\."),
        ({"uncertainty": "sh"}, ValueError, r"uncertainty must be one of 'h', 's', 'hs', got 'sh'\. Did you mean"),
        ({"type_reduction": "KM"}, ValueError, r"type_reduction must be one of 'km', 'nt', 'bmm', 'sm', got 'KM'\."),
        ({"tnorm": None}, TypeError, r"tnorm must be a string, one of 'product', 'htsk', got None\."),
        ({"parameterization": "papr"}, ValueError, r"Did you mean 'paper'\?"),
    ],
)
def test_constructor_refuses_bad_options(options: dict[str, object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        IT2FLS(3, **options)  # type: ignore[arg-type]


def test_firing_is_relative_to_the_strongest_rule() -> None:
    x = torch.randn(10, 3, dtype=torch.float64)
    torch.testing.assert_close(t1().firing(x).amax(dim=1), torch.ones(10, dtype=torch.float64))
    lower, upper = it2().firing(x)
    assert (lower <= upper).all()
    torch.testing.assert_close(upper.amax(dim=1), torch.ones(10, dtype=torch.float64))


def test_type_reduction_without_a_kernel_trains_by_autograd(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(REDUCTIONS, "new", REDUCTIONS["sm"])
    system, known = (IT2FLS(2, n_rules=3, type_reduction=name) for name in ("new", "sm"))
    known.load_state_dict(system.state_dict())
    assert known.form() is not None
    assert system.form() is None
    rows = Rows.of(torch.randn(20, 2), torch.randn(20, 1))
    for one in (system, known):
        train(one, rows, TrainConfig(epochs=2, batch_size=8), generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(system.centers, known.centers)
