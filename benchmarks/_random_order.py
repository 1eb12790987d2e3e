"""A plugin of pytest: tests in a random order that follows from DEEPFLS_TEST_SEED. Used by repeat_tests.py."""

from __future__ import annotations

import os
import random

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # The same order in every process of pytest-xdist, which requires it.
    random.Random(os.environ["DEEPFLS_TEST_SEED"]).shuffle(items)
