"""Shared terms in the compiled step: the loss and gradient of the plain formulas."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from deepfls.functional import losses
from deepfls.kernels import compiled_outputs, compiled_step
from deepfls.nn import IT2FLS, T1FLS
from deepfls.training.steps import Batch, ByAutograd, ByKernel, FlatParameters, Rows

DOUBLE = torch.float64
TERMS = [[0, 1, -1], [1, 1, 0], [2, -1, 2], [0, 2, 1]]


def system(kind: str, parameterization: str, reduction: str = "km") -> T1FLS | IT2FLS:
    torch.manual_seed(0)
    options = {"n_rules": 4, "parameterization": parameterization, "dtype": DOUBLE, "tnorm": "htsk"}
    made = T1FLS(3, 2, **options) if kind == "t1" else IT2FLS(3, 2, type_reduction=reduction, **options)  # type: ignore[arg-type]
    made.antecedents.share_terms(TERMS, 3)
    torch.nn.init.normal_(made.consequents.raw_intercepts)
    return made


@pytest.mark.parametrize("parameterization", ["ordered", "paper"])
@pytest.mark.parametrize(("kind", "reduction"), [("t1", "km"), ("it2", "km"), ("it2", "bmm")])
def test_compiled_step_gives_loss_and_gradient_of_the_plain_formulas(
    kind: str, reduction: str, parameterization: str
) -> None:
    made = system(kind, parameterization, reduction)
    flat = FlatParameters(made)
    rows = Rows.of(torch.randn(40, 3, dtype=DOUBLE), torch.randn(40, 2, dtype=DOUBLE), None)
    step = compiled_step(made, losses.l2, flat.offsets)
    assert step is not None
    found = ByKernel(made, step, flat)(Batch.of(rows))
    gradient = flat.gradient.clone()
    expected = ByAutograd(made, losses.l2, flat)(Batch.of(rows))
    assert found == pytest.approx(float(expected), rel=1e-9)
    torch.testing.assert_close(gradient, flat.gradient, rtol=1e-7, atol=1e-10)


def test_compiled_outputs_follow_changed_terms() -> None:
    made = system("it2", "ordered").requires_grad_(False)
    assert isinstance(made, IT2FLS)
    outputs = compiled_outputs(made)
    assert outputs is not None
    x = torch.randn(9, 3, dtype=DOUBLE)
    for _ in range(2):
        np.testing.assert_allclose(outputs(x.numpy())[:, 2], made.reduce(x).y.numpy(), rtol=1e-9)
        assert made.antecedents.terms is not None
        made.antecedents.terms[0, 0] = -1
