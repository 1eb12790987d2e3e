"""torch's own exporters take the layers as they are."""

from __future__ import annotations

import pytest
import torch

from deepfls.nn import IT2FLS, T1FLS


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch.export, about its own inside
@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("system", [T1FLS(3, 2, n_rules=4), IT2FLS(3, 2, n_rules=4)], ids=["t1", "it2"])
def test_torch_export_takes_a_system_with_a_dynamic_batch(system: torch.nn.Module) -> None:
    batch = torch.export.Dim("batch", min=2)
    program = torch.export.export(system, (torch.randn(5, 3),), dynamic_shapes=({0: batch},))
    for n_rows in (2, 64):
        x = torch.randn(n_rows, 3)
        torch.testing.assert_close(program.module()(x), system(x), rtol=1e-4, atol=1e-5)
