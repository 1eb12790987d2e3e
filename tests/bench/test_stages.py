"""benchmarks/stages.py finds every part of a step, and the parts make up what a step computes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from deepfls.bench.timing import Work, new_system, random_rows
from deepfls.functional.tracing import quietly
from script_cases import benchmark_script


@pytest.fixture(scope="module")
def stages() -> Any:
    return benchmark_script("stages")


@pytest.mark.parametrize("kind", ["t1", "h", "hs"])
def test_parts_are_those_of_a_step(stages: Any, kind: str) -> None:
    work = Work(16, 3, 5)
    with quietly():
        found = {name: part() for name, part in stages.parts(kind, work).items()}
    assert len(found) == 9
    system, x = new_system(kind, work), random_rows(16, 3).x
    y = system(x)
    ends = found["average or end points"]
    np.testing.assert_allclose(sum(ends) / len(ends), y.detach().numpy(), rtol=1e-5, atol=1e-6)
    slopes, *_ = torch.autograd.grad(y.mean(), [system.consequents.raw_slopes])
    np.testing.assert_allclose(found["gradient of the slopes"], len(ends) * slopes.numpy()[:, 0], rtol=1e-4, atol=1e-6)
