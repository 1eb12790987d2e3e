"""A whole system as one stage: the same numbers as its parts, and only where nobody could tell the difference."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from deepfls.functional import type_reduced_set, weighted_average
from deepfls.functional.tracing import array_of
from deepfls.nn import IT2FLS, T1FLS
from deepfls.nn.systems import forward_again, whole_stage
from deepfls.nn.whole import Whole, can_be_whole, raw_parameters

KINDS = ["t1", "h", "s", "hs"]
SETTINGS = list(itertools.product(KINDS, ["ordered", "paper"], ["product", "htsk"], [0, 1], [1, 2]))


def new_system(kind: str, **options: object) -> T1FLS | IT2FLS:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        options = {"n_rules": 4, "dtype": torch.float64, **options}
        return T1FLS(3, **options) if kind == "t1" else IT2FLS(3, uncertainty=kind, **options)  # type: ignore[arg-type]


def rows(n_rows: int = 20) -> Tensor:
    return torch.randn(n_rows, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(4))


def of_parts(system: T1FLS | IT2FLS, x: Tensor) -> Tensor:
    consequents = system.consequents(x)
    if isinstance(system, T1FLS):
        return weighted_average(system.antecedents(x), consequents)
    return 0.5 * sum(type_reduced_set(*system.antecedents(x), consequents), torch.zeros(()))


@pytest.mark.parametrize("n_rules", [4, 17])  # with rows of scratch as they are, and filled up
@pytest.mark.parametrize(("kind", "parameterization", "tnorm", "order", "n_outputs"), SETTINGS)
def test_whole_equals_its_parts(
    kind: str, parameterization: str, tnorm: str, order: int, n_outputs: int, n_rules: int
) -> None:
    options = {"parameterization": parameterization, "tnorm": tnorm, "order": order, "n_rules": n_rules}
    system = new_system(kind, n_outputs=n_outputs, **options)
    x = rows(150).requires_grad_()  # several blocks of scratch
    assert can_be_whole(system.antecedents, system.consequents, x)
    weights = torch.linspace(-1.0, 1.0, 150 * n_outputs, dtype=torch.float64).view(150, n_outputs)
    inputs = [x, *system.parameters()]
    whole, parts = system(x), of_parts(system, x)
    torch.testing.assert_close(whole, parts, rtol=1e-12, atol=1e-12)
    found, expected = (torch.autograd.grad((y * weights).sum(), inputs, allow_unused=True) for y in (whole, parts))
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_by_parameters_equal_finite_differences(kind: str) -> None:
    system, x = new_system(kind), rows(6)
    names, values = zip(*system.named_parameters(), strict=True)

    def outputs(*given: Tensor) -> Tensor:
        return torch.func.functional_call(system, dict(zip(names, given, strict=True)), (x,))

    assert torch.autograd.gradcheck(outputs, tuple(v.detach().requires_grad_() for v in values))


@pytest.mark.parametrize("algorithm", ["newton", "sort", "enumerate", "iterative"])
@pytest.mark.parametrize("kind", ["h", "hs"])
def test_all_algorithms_give_the_same_whole(kind: str, algorithm: str) -> None:
    torch.testing.assert_close(new_system(kind, algorithm=algorithm)(rows()), new_system(kind)(rows()))


@pytest.mark.parametrize("kind", KINDS)
def test_a_second_backward_pass_through_the_same_graph_adds_as_much_again(kind: str) -> None:
    system = new_system(kind)
    loss = system(rows()).square().sum()
    loss.backward(retain_graph=True)
    once = [p.grad.clone() for p in system.parameters()]
    loss.backward()
    for parameter, grad in zip(system.parameters(), once, strict=True):
        torch.testing.assert_close(parameter.grad, 2.0 * grad)


def test_frozen_parameters_get_no_gradient() -> None:
    system = new_system("hs")
    system.antecedents.raw_centers.requires_grad_(False)
    system(rows()).sum().backward()
    assert system.antecedents.raw_centers.grad is None
    assert system.antecedents.raw_sigmas.grad is not None


def test_hooks_of_the_parts_are_called() -> None:
    system = new_system("hs")
    seen: list[nn.Module] = []
    handles = [
        part.register_forward_hook(lambda module, inputs, output: seen.append(module))
        for part in (system.antecedents, system.consequents)
    ]
    with_hooks = system(rows())
    assert seen == [system.antecedents, system.consequents]
    for handle in handles:
        handle.remove()
    torch.testing.assert_close(system(rows()), with_hooks)
    assert len(seen) == 2


def test_a_part_of_another_class_is_used() -> None:
    class Doubled(type(new_system("t1").consequents)):  # type: ignore[misc]
        def forward(self, x: Tensor) -> Tensor:
            return 2.0 * super().forward(x)

    system = new_system("t1")
    expected = 2.0 * system(rows())
    system.consequents.__class__ = Doubled
    torch.testing.assert_close(system(rows()), expected)


@pytest.mark.parametrize("reduction", ["nt", "bmm", "sm"])
def test_other_reductions_have_no_whole_stage(reduction: str) -> None:
    assert whole_stage(new_system("hs", type_reduction=reduction)) is None


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("n_rules", "n_outputs"), [(4, 1), (4, 2), (17, 1), (17, 2)])
@pytest.mark.parametrize("kind", KINDS)
def test_gradients_in_place_of_what_they_are_of_are_the_same(
    kind: str, n_rules: int, n_outputs: int, dtype: torch.dtype
) -> None:
    system = new_system(kind, n_rules=n_rules, n_outputs=n_outputs, dtype=dtype)
    x = array_of(rows(150).to(dtype))
    values = [None if p is None else array_of(p) for p in raw_parameters(system.antecedents, system.consequents)]
    found = []
    for in_place in (False, True):
        stage = Whole(system.antecedents, "auto", in_place=in_place)
        grads = [np.full_like(output, 0.5) for output in stage.forward(x, *values)]
        found.append(stage.backward(grads, (True,)))
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("kind", KINDS)
def test_a_stage_used_again_gives_the_same(kind: str) -> None:
    system = new_system(kind)
    stage = whole_stage(system)
    assert stage is not None
    values = [None if p is None else array_of(p) for p in raw_parameters(system.antecedents, system.consequents)]
    for n_rows in (20, 7, 20):  # a last batch may be smaller
        x = rows(n_rows).numpy()
        fresh = whole_stage(system)
        assert fresh is not None
        outputs, expected = stage.forward(x, *values), fresh.forward(x, *values)
        grads = [np.ones_like(output) for output in outputs]
        found, wanted = stage.backward(grads, (False,)), fresh.backward(grads, (False,))
        for one, other in zip((*outputs, *found), (*expected, *wanted), strict=True):
            assert (one is None) == (other is None)
            assert one is None or np.array_equal(one, other)


def test_derivatives_through_a_system_of_itself_count_every_path_once() -> None:
    system = new_system("t1", n_outputs=3)
    parameters = list(system.parameters())
    loss = system(system(rows())).square().sum()
    plain = torch.autograd.grad(loss, parameters, retain_graph=True)
    again = torch.autograd.grad(loss, parameters, create_graph=True)
    for one, other in zip(plain, again, strict=True):
        torch.testing.assert_close(one, other.detach())


@pytest.mark.parametrize("name", ["antecedents.raw_sigmas", "antecedents.raw_heights", "consequents.raw_slopes"])
def test_torch_func_takes_one_parameter_alone(name: str) -> None:
    system, x = new_system("hs"), rows()
    value = system.get_parameter(name)

    def loss(given: Tensor) -> Tensor:
        return torch.func.functional_call(system, {name: given}, (x,)).sum()

    system(x).sum().backward()
    torch.testing.assert_close(torch.func.grad(loss)(value.detach()), value.grad)


@pytest.mark.parametrize(("part", "name"), [("consequents", "raw_slopes"), ("antecedents", "raw_heights")])
def test_a_parameter_that_became_a_buffer_is_still_used(part: str, name: str) -> None:
    system, x = new_system("hs"), rows()
    expected = system(x)
    module = getattr(system, part)
    value = getattr(module, name).detach()
    delattr(module, name)
    module.register_buffer(name, value)
    torch.testing.assert_close(system(x), expected)


def test_another_function_in_place_of_a_parts_forward_is_used() -> None:
    system, x = new_system("t1"), rows()
    expected = 2.0 * system(x)
    forward = system.consequents.forward
    system.consequents.forward = lambda z: 2.0 * forward(z)
    torch.testing.assert_close(system(x), expected)


def test_parts_of_different_dtypes_are_refused() -> None:
    system = new_system("t1", dtype=torch.float32, order=0)
    system.consequents.double()
    with pytest.raises(TypeError, match="intercepts must have the dtype of x"):
        system(rows().float())


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_of_many_rows_on_two_threads_equal_those_on_one(kind: str) -> None:
    system, x = new_system(kind), rows(40_000)
    before, found = torch.get_num_threads(), []
    try:
        for n_threads in (1, 2):
            torch.set_num_threads(n_threads)
            found.append(torch.autograd.grad(system(x).square().mean(), list(system.parameters())))
    finally:
        torch.set_num_threads(before)
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-13)


class Doubled(T1FLS):
    def forward(self, x: Tensor) -> Tensor:
        return 2.0 * super().forward(x)


@pytest.mark.parametrize(
    "system",
    [
        new_system("t1", n_outputs=2),
        new_system("hs"),
        new_system("h", dtype=torch.float32),
        new_system("s", type_reduction="nt"),
        new_system("hs", type_reduction="bmm"),
        Doubled(3, n_rules=4, dtype=torch.float64),
    ],
    ids=["t1", "hs", "h in float32", "nt", "bmm", "a system of one's own"],
)
def test_forward_again_is_forward_for_batches_of_any_size(system: T1FLS | IT2FLS) -> None:
    forward = forward_again(system)
    for n_rows in (20, 7, 20, 1):
        x = rows(n_rows).to(system.centers.dtype)
        found = forward(x)
        assert not found.requires_grad
        assert torch.equal(found, system(x).detach())


def test_forward_again_calls_hooks() -> None:
    system = new_system("t1")
    system.register_forward_hook(lambda module, inputs, output: output + 1.0)
    assert torch.equal(forward_again(system)(rows()), system(rows()).detach())
