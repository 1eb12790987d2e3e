"""The compiled kernels where nothing can be cached on disk."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


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
