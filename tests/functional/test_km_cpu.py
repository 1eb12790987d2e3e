"""The compiled row kernels: blocks of rows, padded scratch, and where nothing can be cached on disk."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from deepfls.functional.karnik_mendel import log_end_points


def _system(n_rows: int, n_rules: int, n_outputs: int = 2) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(n_rules)
    log_upper = -8.0 * torch.rand(n_rows, n_rules, generator=generator, dtype=torch.float64)
    log_lower = log_upper - torch.rand(n_rows, n_rules, generator=generator, dtype=torch.float64)
    y = torch.randn(n_rows, n_rules, n_outputs, generator=generator, dtype=torch.float64)
    return log_lower.requires_grad_(), log_upper.requires_grad_(), y.requires_grad_()


# Below and above the number of rules from which rows are padded, with and without a pad, and more rules than a block holds.
@pytest.mark.parametrize("n_rules", [1, 12, 13, 15, 16, 50, 3_000])
def test_a_row_is_not_changed_by_its_neighbours(n_rules: int) -> None:
    inputs = _system(200, n_rules)
    together = torch.autograd.grad(sum(end.sum() for end in log_end_points(*inputs)), inputs)
    for row in (0, 1, 99, 199):
        alone = [t[row : row + 1] for t in inputs]
        for end, one in zip(log_end_points(*inputs), log_end_points(*alone), strict=True):
            assert torch.equal(end[row : row + 1], one)
        grads = torch.autograd.grad(sum(end.sum() for end in log_end_points(*alone)), alone)
        for all_rows, grad in zip(together, grads, strict=True):
            assert torch.equal(all_rows[row : row + 1], grad)


@pytest.mark.parametrize("n_rules", [5, 15, 50])
def test_a_row_that_is_no_number_leaves_the_others_alone(n_rules: int) -> None:
    clean = _system(40, n_rules)
    spoilt = [t.detach().clone() for t in clean]
    spoilt[0][7], spoilt[1][7] = torch.nan, torch.nan
    spoilt[2][23, 0] = torch.nan
    spoilt = [t.requires_grad_() for t in spoilt]
    good = [row for row in range(40) if row not in (7, 23)]
    for expected, given in zip(log_end_points(*clean), log_end_points(*spoilt), strict=True):
        assert torch.equal(expected[good], given[good])
        assert given[7].isnan().all()
    grads = [torch.autograd.grad(sum(end.sum() for end in log_end_points(*each)), each) for each in (clean, spoilt)]
    for expected, given in zip(*grads, strict=True):
        assert torch.equal(expected[good], given[good])


def test_kernels_work_where_no_cache_can_be_written(tmp_path: Path) -> None:
    source = (
        "import sys\n"
        "import numba.core.caching as caching\n"
        "for locator in caching.CacheImpl._locator_classes:\n"
        "    locator.from_function = classmethod(lambda cls, *args: None)\n"
        "import torch\n"
        "from deepfls.functional import karnik_mendel\n"
        "print(karnik_mendel(torch.ones(1, 2), torch.ones(1, 2), torch.tensor([[[1.0], [3.0]]])).y_left.item())\n"
        "print(type(sys.modules['deepfls.functional._km_cpu'].end_points._cache).__name__)\n"
    )
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["2.0", "NullCache"]
