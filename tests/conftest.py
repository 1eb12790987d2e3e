"""Fixtures that several test files share."""

from __future__ import annotations

from pathlib import Path

import pytest

SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of the benchmark tables, beside the repository."""
    if not SHARED_DATA.is_dir():
        pytest.skip(f"the benchmark tables are not at {SHARED_DATA}")
    return SHARED_DATA
