"""A small version of benchmarks/hostile_files.py: altered files are read or refused, hostile names stay text."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import hostile_files


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    return hostile_files.good_files(tmp_path_factory.mktemp("good"))


@pytest.mark.filterwarnings("ignore")  # a file may be odd and still be read
@pytest.mark.parametrize("kind", ["model", "csv", "fis"])
def test_altered_files_are_read_or_refused_in_a_sentence(kind: str, good: dict[str, bytes], tmp_path: Path) -> None:
    path = tmp_path / f"altered.{'fls' if kind == 'model' else kind}"
    for number in range(60):
        source = random.Random(number)
        changes = (hostile_files.altered_description,) if kind == "model" and number % 2 else hostile_files.CHANGES
        path.write_bytes(source.choice(changes)(good[kind], source))
        assert hostile_files.opened(kind, path) in ("read", "refused"), f"{kind} {number}"


def test_altered_parquet_files_are_read_or_refused_by_a_process_of_bounded_memory() -> None:
    outcomes, examples = hostile_files.counted("parquet", 40)
    assert sum(outcomes.values()) == 40, examples
    assert set(outcomes) <= {"read", "refused"}, examples


def test_hostile_names_are_harmless_in_every_output(tmp_path: Path) -> None:
    assert [label for label, harmless in hostile_files.hostile_names(tmp_path) if not harmless] == []
    assert hostile_files.compiled_names(tmp_path) in (True, None)
