"""Fixtures of the tests of data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import pytest

from dataset_cases import N_ROWS
from deepfls.data import datasets
from local_server import LocalServer, local_server


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache in place of the user's, and no folder in the environment."""
    monkeypatch.setenv("DEEPFLS_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("DEEPFLS_DATA", raising=False)
    return tmp_path / "cache"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalServer]:
    """A web server on this machine."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with local_server() as server:
        yield server


@pytest.fixture
def small_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Named sets of few rows, at an address where no server is."""
    unreachable = "http://127.0.0.1:9/none.csv"
    small = {name: replace(info, n_rows=N_ROWS, url=unreachable) for name, info in datasets.DATASETS.items()}
    monkeypatch.setattr(datasets, "DATASETS", MappingProxyType(small))
