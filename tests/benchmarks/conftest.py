"""Made tables of the shape of the paper's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from deepfls.data.datasets import DATASETS


@pytest.fixture(scope="session")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with boston.csv and enb.csv: the columns and numbers of rows of the sets, and made values.

    As in the real set, the inputs of enb take few values each.
    """
    folder = tmp_path_factory.mktemp("tables")
    rng = np.random.default_rng(0)
    for name, levels in (("boston", None), ("enb", 4)):
        info = DATASETS[name]
        x = rng.normal(size=(info.n_rows, len(info.feature_names)))
        x = x if levels is None else np.round(x * levels / 4)
        y = np.stack([np.sin(x[:, k]) + x[:, k + 1] * x[:, k + 2] for k in range(len(info.target_names))], axis=1)
        values = np.column_stack([x, y + 0.1 * rng.normal(size=y.shape)])
        header = ",".join((*info.feature_names, *info.target_names))
        np.savetxt(folder / f"{name}.csv", values, delimiter=",", header=header, comments="")
    return folder
