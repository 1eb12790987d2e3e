"""Unusual sizes, layouts and environments: the same numbers and gradients as the plain formula."""

from __future__ import annotations

import copy
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from deepfls import FLSRegressor
from deepfls.functional import karnik_mendel
from deepfls.nn import IT2FLS, T1FLS
from deepfls.training import TrainConfig, train
from deepfls.training.steps import Rows

KINDS = ["t1", "h", "s", "hs"]
# batch, features, rules, outputs
SIZES = {
    "one rule": (16, 3, 1, 1),
    "10,000 rules": (3, 2, 10_000, 1),
    "10,000 inputs": (3, 10_000, 4, 1),
    "batch of one": (1, 3, 5, 1),
    "one of everything": (1, 1, 1, 1),
    "several outputs": (9, 4, 6, 3),
}


@pytest.fixture(autouse=True)
def one_thread() -> object:
    """The plain formula on small tensors is many times slower on two threads of a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def new_system(kind: str, n_features: int, n_rules: int, n_outputs: int = 1, tnorm: str = "htsk") -> T1FLS | IT2FLS:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        if kind == "t1":
            system: T1FLS | IT2FLS = T1FLS(n_features, n_outputs, n_rules=n_rules, tnorm=tnorm)
        else:
            system = IT2FLS(n_features, n_outputs, n_rules=n_rules, uncertainty=kind, tnorm=tnorm)
        system.intercepts = torch.randn(n_rules, n_outputs)
        system.slopes = torch.randn(n_rules, n_outputs, n_features) / n_features**0.5
    return system


def rows_like(batch: int, n_features: int, seed: int = 1) -> Tensor:
    return torch.randn(batch, n_features, generator=torch.Generator().manual_seed(seed))


def plain(system: T1FLS | IT2FLS, x: Tensor) -> Tensor:
    """The formulas as they are written down: a tensor (batch, rules, features), and end points by sorting."""
    share = 1.0 if system.tnorm == "product" else 1.0 / system.n_features
    squares = (x.unsqueeze(1) - system.centers).square()
    consequents = torch.einsum("bm,pom->bpo", x, system.slopes) + system.intercepts
    if isinstance(system, T1FLS):
        firing = torch.softmax(-0.5 * share * (squares / system.sigmas**2).sum(dim=2), dim=1)
        return torch.einsum("bp,bpo->bo", firing, consequents)
    log_upper = -0.5 * share * (squares / system.upper_sigmas**2).sum(dim=2)
    log_lower = -0.5 * share * (squares / system.lower_sigmas**2).sum(dim=2)
    log_lower = log_lower + share * system.antecedents.log_heights.sum(dim=1)
    peak = log_upper.detach().amax(dim=1, keepdim=True)
    ends = karnik_mendel((log_lower - peak).exp(), (log_upper - peak).exp(), consequents, algorithm="sort")
    return 0.5 * (ends.y_left + ends.y_right)


def gradients(system: T1FLS | IT2FLS, y: Tensor) -> Tensor:
    """All gradients of a smooth loss in one vector."""
    loss = (y - 0.3).square().mean()
    return torch.cat([g.reshape(-1).double() for g in torch.autograd.grad(loss, list(system.parameters()))])


def assert_plain(system: T1FLS | IT2FLS, x: Tensor, tolerance: float) -> None:
    """Outputs and gradients equal those of the plain formula in float64."""
    reference = copy.deepcopy(system).double()
    expected = plain(reference, x.double())
    y = system(x)
    assert (y.double() - expected).abs().max() <= tolerance * (1.0 + expected.abs().max())
    wanted, found = gradients(reference, expected), gradients(system, y)
    assert (found - wanted).norm() <= 10.0 * tolerance * wanted.norm() + 1e-12


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("name", SIZES)
def test_step_equals_the_plain_formula(name: str, dtype: torch.dtype, kind: str) -> None:
    batch, n_features, n_rules, n_outputs = SIZES[name]
    system = new_system(kind, n_features, n_rules, n_outputs).to(dtype)
    assert_plain(system, rows_like(batch, n_features).to(dtype), 1e-4 if dtype == torch.float32 else 1e-9)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("distance", [13.2, 13.8, 14.4])
def test_step_is_right_where_firing_would_be_denormal(kind: str, distance: float) -> None:
    """e^-87 to e^-104 are the denormal numbers of float32: the second rule fires that weakly."""
    system = new_system(kind, 1, 2, tnorm="product")
    system.centers = torch.tensor([[0.0], [distance]])
    assert -104.0 < -0.5 * distance**2 < -87.0
    x = torch.tensor([[0.0], [0.01], [-0.02]])
    assert_plain(system, x, 1e-4)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("layout", ["every second column", "transposed", "every second row", "expanded", "offset"])
def test_layout_of_the_input_changes_nothing(layout: str, kind: str) -> None:
    system = new_system(kind, 4, 5)
    x = {
        "every second column": rows_like(7, 8)[:, ::2],
        "transposed": rows_like(4, 7).t(),
        "every second row": rows_like(14, 4)[::2],
        "expanded": rows_like(1, 4).expand(7, 4),
        "offset": rows_like(7, 9)[:, 3:7],
    }[layout]
    assert not x.is_contiguous()
    given, packed = x.detach().requires_grad_(), x.detach().contiguous().requires_grad_()
    results = []
    for rows in (given, packed):
        y = system(rows)
        results.append((y, *torch.autograd.grad(y.square().sum(), [rows, *system.parameters()])))
    for found, expected in zip(*results, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_last_batch_may_be_smaller(kind: str) -> None:
    rows = Rows.of(rows_like(11, 3), rows_like(11, 1, seed=2))
    system = new_system(kind, 3, 4)
    with torch.no_grad():
        before = float((system(rows.x) - rows.target).square().mean())
    config = TrainConfig(epochs=1, batch_size=4, learning_rate=1e-9)
    result = train(system, rows, config, generator=torch.Generator().manual_seed(0))
    assert result.n_steps == 3
    # At a rate of almost nothing, the loss of the epoch is that of all rows, the last three of them included.
    assert result.history[0]["loss"] == pytest.approx(before, rel=1e-4)


@pytest.mark.parametrize("kind", ["t1", "it2"])
def test_threads_are_as_before_after_fit_and_predict(kind: str) -> None:
    x = np.random.default_rng(0).standard_normal((5_000, 4))
    for number in (1, 2, 3):
        torch.set_num_threads(number)
        model = FLSRegressor(kind=kind, n_rules=4, epochs=1, random_state=0).fit(x, x[:, 0])
        assert torch.get_num_threads() == number
        model.predict(x)
        assert torch.get_num_threads() == number


def test_fit_and_predict_work_where_nothing_can_be_written(tmp_path: Path) -> None:
    """No home, no cache of Numba or deepfls: /proc takes no files, not even from root."""
    if not Path("/proc/self").is_dir():
        pytest.skip("needs a folder that is not writable, such as /proc")
    source = (
        "import sys\n"
        "import numpy as np\n"
        "from deepfls import FLSRegressor\n"
        "x = np.random.RandomState(0).normal(size=(40, 2))\n"
        "for kind in ('t1', 'it2'):\n"
        "    model = FLSRegressor(kind=kind, n_rules=3, epochs=2, random_state=0).fit(x, x[:, 0])\n"
        "    print(repr(model.predict(x[:3]).tolist()))\n"
    )
    nowhere = dict.fromkeys(("HOME", "XDG_CACHE_HOME", "NUMBA_CACHE_DIR", "DEEPFLS_CACHE"), "/proc/nowhere")
    done = subprocess.run(
        [sys.executable, "-c", source], capture_output=True, text=True, cwd=tmp_path, env={**os.environ, **nowhere}
    )
    assert done.returncode == 0, done.stderr
    predictions = done.stdout.splitlines()
    x = np.random.RandomState(0).normal(size=(40, 2))
    for kind, printed in zip(("t1", "it2"), predictions, strict=True):
        model = FLSRegressor(kind=kind, n_rules=3, epochs=2, random_state=0).fit(x, x[:, 0])
        assert repr(model.predict(x[:3]).tolist()) == printed
    assert not list(tmp_path.iterdir())
