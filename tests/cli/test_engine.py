"""Options of --engine ray; what a cluster does is in tests/engines."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stream_cases import columns, write

Run = Callable[..., Any]
Refused = Callable[..., str]
TRAIN = ("train", "rows/*.parquet", "--target", "y", "--feature", "a", "--feature", "b", "--n-rules", "2", "--epochs", "1")


@pytest.fixture
def rows(folder: Path) -> Path:
    return write(folder / "rows", columns(120))


@pytest.mark.parametrize("command", ["train", "predict"])
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--engine", "rai"), "--engine must be one of 'local', 'ray', got 'rai'. Did you mean 'ray'?"),
        (("--num-workers", "2"), "--num-workers must be given with --engine ray."),
        (("--ray-address", "auto"), "--ray-address must be given with --engine ray."),
    ],
)
def test_options_of_ray_need_the_engine(
    rows: Path, refused: Refused, command: str, arguments: tuple[str, ...], message: str
) -> None:
    named = TRAIN if command == "train" else ("predict", "m.fls", "rows/*.parquet", "--out", "p")
    assert refused(*named, *arguments, code=2) == message


def test_ray_is_refused_under_torchrun(rows: Path, refused: Refused, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert refused(*TRAIN, "--engine", "ray", code=2) == (
        "--engine ray must be given without torchrun, because Ray starts the workers."
    )


def test_train_hands_the_table_and_its_options_to_ray(rows: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {}

    def fit(estimator: Any, source: Any, **options: Any) -> Any:
        given.update(options, names=list(source.layout.features))
        return estimator.fit(source)

    monkeypatch.setattr("deepfls.engines.ray.fit", fit)
    ray = ("--engine", "ray", "--num-workers", "3", "--ray-address", "auto", "--checkpoint-dir", "s3://bucket/runs")
    assert "Saved m.fls" in run(*TRAIN, *ray, "--checkpoint-every", "5min", "--resume", "--out", "m.fls").stdout
    assert given == {
        "names": ["a", "b"],
        "num_workers": 3,
        "address": "auto",
        "storage_path": "s3://bucket/runs",
        "checkpoint_every": "5min",
        "resume": True,
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--out", "p", "--resume"), "--resume must be given without --engine ray."),
        (("--out", "p", "--nulls", "drop"), "--nulls must be given without --engine ray."),
        (("--out", "p.csv"), "--out must be a folder for predictions in parts, got 'p.csv'."),
        ((), "--out must be a folder for predictions in parts, got '-'."),
        (("--out", "rows"), "'rows' already has files: replace them with --force, or give another --out."),
    ],
)
def test_predict_on_ray_refuses(rows: Path, refused: Refused, arguments: tuple[str, ...], message: str) -> None:
    assert refused("predict", "m.fls", "rows/*.parquet", "--engine", "ray", *arguments, code=2) == message
