"""Inputs that are not known: grade 1 in every rule, and the center of the rule's set in its consequent."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch

from deepfls import FLSRegressor
from deepfls.inspection.plain import PlainSystem
from deepfls.nn.systems import IT2FLS, T1FLS

N_FEATURES, KNOWN = 3, [0, 2]
SYSTEMS = {
    "t1": lambda tnorm: T1FLS(N_FEATURES, 2, n_rules=4, tnorm=tnorm),
    "h": lambda tnorm: IT2FLS(N_FEATURES, 2, n_rules=4, uncertainty="h", tnorm=tnorm),
    "hs": lambda tnorm: IT2FLS(N_FEATURES, 2, n_rules=4, uncertainty="hs", tnorm=tnorm),
    "nt": lambda tnorm: IT2FLS(N_FEATURES, 2, n_rules=4, uncertainty="s", type_reduction="nt", tnorm=tnorm),
}
every_system = pytest.mark.parametrize("name", SYSTEMS)


def made(name: str, tnorm: str = "product") -> T1FLS | IT2FLS:
    torch.manual_seed(0)
    system = SYSTEMS[name](tnorm).double()
    system.slopes = torch.randn_like(system.slopes)
    system.missing = True
    return system


def rows(n_rows: int = 6) -> torch.Tensor:
    x = torch.randn(n_rows, N_FEATURES, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    x[:, 1] = torch.nan
    return x


@every_system
def test_unknown_input_drops_out_of_the_firing(name: str) -> None:
    system, x = made(name), rows()
    centers, widths = system.centers[:, KNOWN], getattr(system, "upper_sigmas", getattr(system, "sigmas", None))
    expected = -0.5 * ((x[:, None, KNOWN] - centers) / widths[:, KNOWN]).square().sum(dim=2)
    logs = system.antecedents(x)
    upper = logs if isinstance(logs, torch.Tensor) else logs.upper
    torch.testing.assert_close(upper, expected)
    if not isinstance(logs, torch.Tensor):
        heights = system.antecedents.log_heights[:, KNOWN].sum(dim=1)
        exponents = -0.5 * ((x[:, None, KNOWN] - centers) / system.lower_sigmas[:, KNOWN]).square().sum(dim=2)
        torch.testing.assert_close(logs.lower, torch.minimum(exponents + heights, expected))


@every_system
@pytest.mark.parametrize("tnorm", ["product", "htsk"])
def test_gradients_are_those_of_finite_differences(name: str, tnorm: str) -> None:
    system, x = made(name, tnorm), rows()
    x[0] = torch.nan  # nothing is known
    parameters = dict(system.named_parameters())

    def outputs(*values: torch.Tensor) -> torch.Tensor:
        return torch.func.functional_call(system, dict(zip(parameters, values, strict=True)), (x,))

    assert torch.autograd.gradcheck(outputs, tuple(parameters.values()), atol=1e-6)


@every_system
def test_complete_rows_do_not_change(name: str) -> None:
    system, x = made(name), torch.randn(5, N_FEATURES, dtype=torch.float64)
    plain = copy.deepcopy(system)
    plain.missing = False
    torch.testing.assert_close(system(x), plain(x), rtol=1e-12, atol=1e-12)
    assert plain(rows()).isnan().all()


@pytest.mark.parametrize("kind", ["t1", "it2"])
@pytest.mark.parametrize("order", [0, 1])
def test_estimator_and_its_plain_system_agree(kind: str, order: int) -> None:
    random = np.random.default_rng(0)
    x = random.normal(size=(60, 3))
    y = x @ [1.0, 2.0, 3.0]
    x[random.random(x.shape) < 0.2] = np.nan
    model = FLSRegressor(kind=kind, order=order, n_rules=4, epochs=3, random_state=0).fit(x, y)
    np.testing.assert_allclose(PlainSystem.of(model).output(x).y[:, 0], model.predict(x), rtol=1e-9)
    one_by_one = np.concatenate([model.predict(row[None]) for row in x])
    np.testing.assert_allclose(one_by_one, model.predict(x), rtol=1e-12)


def test_model_trained_on_complete_rows_predicts_others() -> None:
    x = np.random.default_rng(0).normal(size=(60, 2))
    model = FLSRegressor(n_rules=4, epochs=3, random_state=0).fit(x, x[:, 0])
    assert not model.system_.missing
    holes = np.where(np.eye(60, 2, dtype=bool), np.nan, x)
    found = model.predict(holes)
    assert np.isfinite(found).all()
    np.testing.assert_array_equal(found[2:], model.predict(x)[2:])
