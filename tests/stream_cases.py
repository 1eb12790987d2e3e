"""Small Parquet tables, and settings that fit them fast, for the tests of streams."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from deepfls.data.sources import ParquetSource

SETTINGS: dict[str, Any] = {"kind": "it2", "n_rules": 3, "epochs": 3, "batch_size": 50, "random_state": 0}


def columns(n_rows: int = 600, seed: int = 0) -> dict[str, Any]:
    """Two inputs, two targets, weights and classes."""
    random = np.random.default_rng(seed)
    a, b = random.normal(size=n_rows), random.uniform(-1, 1, size=n_rows)
    y = np.sin(2 * a) + b
    return {"a": a, "b": b, "y": y, "z": a * b, "w": 1.0 + np.arange(n_rows) % 3, "label": np.where(y > 0, "up", "down")}


def write(folder: Path, data: dict[str, Any], *, n_files: int = 3, group_rows: int = 70) -> Path:
    """Write columns to files of equal size, and give their pattern."""
    folder.mkdir(parents=True, exist_ok=True)
    table = pa.table(data)
    size = -(-table.num_rows // n_files)
    for number in range(n_files):
        parquet.write_table(table.slice(number * size, size), folder / f"part-{number}.parquet", row_group_size=group_rows)
    return folder / "*.parquet"


def regression(path: Any, **options: Any) -> ParquetSource:
    return ParquetSource(path, **{"target": "y", "features": ["a", "b"], "buffer_rows": 200, **options})


def system_arrays(estimator: Any) -> dict[str, Any]:
    """All that training finds: parameters and scaling."""
    arrays = {name: value.numpy() for name, value in estimator.system_.state_dict().items()}
    for name in ("x_scaling_", "y_scaling_"):
        arrays |= {f"{name}{part}": getattr(getattr(estimator, name), part) for part in ("shift", "scale")}
    return {**arrays, "shares": estimator.rule_shares_, "range": estimator.input_range_}


def assert_same_bits(first: Any, second: Any) -> None:
    one, two = system_arrays(first), system_arrays(second)
    assert one.keys() == two.keys()
    assert [name for name in one if not np.array_equal(one[name], two[name])] == []


def assert_close(first: Any, second: Any, *, atol: float) -> None:
    one, two = system_arrays(first), system_arrays(second)
    for name, value in one.items():
        np.testing.assert_allclose(value, two[name], rtol=0, atol=atol, err_msg=name)


class StopError(Exception):
    """Ends a run in the middle."""


class StoppingLoss:
    """The squared error, until it has been asked so many times."""

    def __init__(self, calls: int, error: type[BaseException] = StopError) -> None:
        self.left, self.error = calls, error

    def __call__(self, y: Any, target: Any) -> Any:
        self.left -= 1
        if self.left < 0:
            raise self.error
        return (y - target).square()
