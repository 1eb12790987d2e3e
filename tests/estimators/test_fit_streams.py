"""The fit pipeline on tables on disk: the result does not depend on row groups, interruptions or processes."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pyarrow import parquet

from deepfls import FLSClassifier, FLSRegressor, load
from deepfls.data.sources import ParquetSource
from deepfls.training.checkpoint import Checkpoints
from stream_cases import SETTINGS, StopError, StoppingLoss, assert_close, assert_same_bits, columns, regression, write


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write(tmp_path / "rows", columns())


def inputs(data: dict[str, Any]) -> Any:
    import pyarrow as pa

    return pa.table({name: data[name] for name in ("a", "b")})


# Learning


def test_regressor_learns_as_well_as_from_arrays(path: Path) -> None:
    data = columns(2_000, seed=1)
    settings = {"n_rules": 6, "epochs": 60, "schedule": "onecycle", "random_state": 0}
    streamed = FLSRegressor(**settings).fit(regression(path))
    x = np.stack([columns()["a"], columns()["b"]], axis=1)
    in_memory = FLSRegressor(**settings).fit(x, columns()["y"])
    error = np.std(streamed.predict(inputs(data)) - data["y"])
    other = np.std(in_memory.predict(np.stack([data["a"], data["b"]], axis=1)) - data["y"])
    assert error < 1.5 * other
    assert error < 0.15


def test_classifier_learns_text_classes(path: Path) -> None:
    model = FLSClassifier(n_rules=4, epochs=30, random_state=0).fit(
        ParquetSource(path, target="label", features=["a", "b"])
    )
    data = columns(500, seed=1)
    assert model.classes_.tolist() == ["down", "up"]
    assert np.mean(model.predict(inputs(data)) == data["label"]) > 0.93


def test_fitted_attributes_are_those_of_a_fit_to_arrays(path: Path, tmp_path: Path) -> None:
    model = FLSRegressor(**SETTINGS).fit(regression(path, target=["y", "z"]))
    data = columns()
    assert model.target_names_ == ("y", "z")
    assert model.feature_names_in_.tolist() == ["a", "b"]
    assert model.n_features_in_ == 2
    assert np.array_equal(model.input_range_, [[data[n].min() for n in "ab"], [data[n].max() for n in "ab"]])
    assert model.rule_shares_.sum() == pytest.approx(1.0)
    assert [row["epoch"] for row in model.history_] == [1.0, 2.0, 3.0]
    np.testing.assert_allclose(model.x_scaling_.shift, [data["a"].mean(), data["b"].mean()], atol=1e-12)
    model.save(tmp_path / "m.fls")
    assert np.array_equal(load(tmp_path / "m.fls").predict(inputs(data)), model.predict(inputs(data)))


def test_start_does_not_depend_on_the_row_groups(tmp_path: Path) -> None:
    settings = {**SETTINGS, "epochs": 0, "dtype": "float64"}
    models = [
        FLSRegressor(**settings).fit(regression(write(tmp_path / str(size), columns(), n_files=n, group_rows=size)))
        for size, n in ((13, 1), (70, 3), (600, 2))
    ]
    for other in models[1:]:
        assert_close(models[0], other, atol=1e-9)


def test_same_seed_gives_the_same_bits(path: Path) -> None:
    first, second = (FLSRegressor(**SETTINGS).fit(regression(path)) for _ in range(2))
    assert_same_bits(first, second)


def test_dropped_rows_are_not_trained_on_and_are_counted_in_a_warning(tmp_path: Path) -> None:
    data = columns()
    holes = {**data, "y": [None if row % 10 == 0 else value for row, value in enumerate(data["y"])]}
    whole = FLSRegressor(**{**SETTINGS, "epochs": 0, "dtype": "float64"})
    with pytest.warns(UserWarning, match=r"^60 rows without a target are left out\.$") as told:
        whole.fit(regression(write(tmp_path / "holes", holes), nulls="drop"))
    assert told[0].filename == __file__
    kept = np.arange(600) % 10 != 0
    assert whole.x_scaling_.shift[0] == pytest.approx(data["a"][kept].mean())


def test_source_without_whole_rows_is_refused(tmp_path: Path) -> None:
    data = {**columns(), "y": [None] * 599 + [float("nan")]}
    with pytest.raises(ValueError, match=r"must have rows to learn from, got none with a target\.$"):
        FLSRegressor(**SETTINGS).fit(regression(write(tmp_path, data), nulls="drop"))


def test_weights_weigh(path: Path) -> None:
    weighted = FLSRegressor(**{**SETTINGS, "epochs": 0}).fit(regression(path, weight="w"))
    data = columns()
    assert weighted.x_scaling_.shift[0] == pytest.approx(np.average(data["a"], weights=data["w"]))
    trained = FLSRegressor(**SETTINGS).fit(regression(path, weight="w"))
    assert not np.array_equal(
        trained.predict(inputs(data)), FLSRegressor(**SETTINGS).fit(regression(path)).predict(inputs(data))
    )


def test_patience_holds_rows_out_and_stops(path: Path) -> None:
    model = FLSRegressor(**{**SETTINGS, "epochs": 300, "learning_rate": 0.3, "patience": 2}).fit(regression(path))
    assert model.stopped_by_ == "patience"
    losses = [row["validation_loss"] for row in model.history_]
    assert len(losses) == losses.index(min(losses)) + 1 + 2


def test_warm_start_continues(path: Path) -> None:
    model = FLSRegressor(**SETTINGS, warm_start=True).fit(regression(path))
    before = model.system_.centers.clone()
    model.fit(regression(path))
    assert model.n_epochs_ == 6
    assert not torch.equal(model.system_.centers, before)


def test_warm_start_refuses_another_number_of_targets(path: Path) -> None:
    model = FLSRegressor(**SETTINGS, warm_start=True).fit(regression(path))
    with pytest.raises(ValueError, match=r"^n_outputs must stay 1 with warm_start=True, got 2"):
        model.fit(regression(path, target=["y", "z"]))


def test_warm_start_refuses_other_classes(path: Path, tmp_path: Path) -> None:
    model = FLSClassifier(**SETTINGS, warm_start=True).fit(ParquetSource(path, target="label", features=["a", "b"]))
    other = write(tmp_path / "other", {**columns(), "label": np.where(columns()["y"] > 0, "yes", "no")})
    message = r"^classes must stay \['down', 'up'\] with warm_start=True, got \['no', 'yes'\]"
    with pytest.raises(ValueError, match=message):
        model.fit(ParquetSource(other, target="label", features=["a", "b"]))
    assert model.classes_.tolist() == ["down", "up"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"y": [1.0]}, "y must not be given beside a source: it names its target itself."),
        ({"sample_weight": [1.0]}, "sample_weight must not be given beside a source: it names a column of weights itself."),
    ],
)
def test_targets_beside_a_source_are_refused(path: Path, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        FLSRegressor(**SETTINGS).fit(regression(path), **arguments)


def test_checkpoints_need_a_source(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"^checkpoints must come with a source such as ParquetSource, got it without\.$"):
        FLSRegressor().fit([[0.0], [1.0]], [0.0, 1.0], checkpoints=Checkpoints(tmp_path))


def test_failed_fit_leaves_the_earlier_one(path: Path, tmp_path: Path) -> None:
    model = FLSRegressor(**SETTINGS).fit(regression(path))
    before = model.system_
    data = {**columns(), "y": [float("nan")] * 600}
    with pytest.raises(ValueError, match="got none with a target"):
        model.fit(regression(write(tmp_path / "bad", data)))
    assert model.system_ is before


# Many processes

_TWO = Path(__file__).parents[1] / "two_processes.py"


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("localhost", 0))
        return int(found.getsockname()[1])


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """Models that two processes fitted together, by name, and the output of each process."""
    folder = tmp_path_factory.mktemp("two")
    write(folder / "rows", columns())
    write(folder / "single", columns(130), n_files=1, group_rows=1000)
    bad = {**columns(), "y": [None if row == 80 else v for row, v in enumerate(columns()["y"])]}
    write(folder / "bad", bad)
    half: Any = FLSRegressor(**{**SETTINGS, "loss": StoppingLoss(20)}, dtype="float64")
    with pytest.raises(StopError):
        half.fit(regression(folder / "rows" / "*.parquet"), checkpoints=Checkpoints(folder / "kept", every=3))
    common = {**os.environ, "MASTER_ADDR": "localhost", "MASTER_PORT": str(free_port()), "OMP_NUM_THREADS": "1"}
    processes = [
        subprocess.Popen(
            [sys.executable, str(_TWO), str(folder)],
            env={**common, "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    reports = [process.communicate(timeout=240) for process in processes]
    assert [process.returncode for process in processes] == [0, 0], reports
    lines_of = [out.splitlines() for out, _ in reports]
    return folder, {str(rank): {**json.loads(lines[-1]), "lines": lines[:-1]} for rank, lines in enumerate(lines_of)}


CASES: dict[str, dict[str, Any]] = {
    "plain": {},
    "uneven": {"batch_size": 37},
    "patience": {"patience": 1, "epochs": 4},
    "float32": {"dtype": "float32"},
    "coverage": {"coverage": 0.8, "calibration": "cqr"},
}


@pytest.mark.parametrize("name", CASES)
def test_two_processes_give_the_parameters_of_one(shared: tuple[Path, Any], name: str) -> None:
    folder, _ = shared
    alone = FLSRegressor(**{**SETTINGS, "dtype": "float64", **CASES[name]}).fit(regression(folder / "rows" / "*.parquet"))
    assert_close(alone, load(folder / f"{name}.fls"), atol=1e-4 if name == "float32" else 1e-9)


def test_two_processes_give_the_intervals_of_one(shared: tuple[Path, Any]) -> None:
    folder, _ = shared
    settings = {**SETTINGS, "dtype": "float64", **CASES["coverage"]}
    alone = FLSRegressor(**settings).fit(regression(folder / "rows" / "*.parquet"))
    together = load(folder / "coverage.fls")
    ends = [model.predict_interval(inputs(columns())) for model in (alone, together)]
    np.testing.assert_allclose(ends[0].lower, ends[1].lower, rtol=0, atol=1e-8)
    np.testing.assert_allclose(ends[0].upper, ends[1].upper, rtol=0, atol=1e-8)


def test_two_processes_give_the_classifier_of_one(shared: tuple[Path, Any]) -> None:
    folder, _ = shared
    source = ParquetSource(folder / "rows" / "*.parquet", target="label", features=["a", "b"], buffer_rows=200)
    alone = FLSClassifier(**SETTINGS, dtype="float64").fit(source)
    assert_close(alone, load(folder / "classes.fls"), atol=1e-9)


def test_process_without_a_row_group_changes_nothing(shared: tuple[Path, Any]) -> None:
    folder, _ = shared
    alone = FLSRegressor(**SETTINGS, dtype="float64").fit(regression(folder / "single" / "*.parquet"))
    assert_close(alone, load(folder / "single.fls"), atol=1e-9)


def test_all_processes_end_with_the_same_bits(shared: tuple[Path, Any]) -> None:
    _, reports = shared
    assert reports["0"]["digest"] == reports["1"]["digest"]


def test_history_is_reduced_over_processes(shared: tuple[Path, Any]) -> None:
    folder, reports = shared
    alone = FLSRegressor(**SETTINGS, dtype="float64").fit(regression(folder / "rows" / "*.parquet"))
    assert reports["0"]["losses"] == reports["1"]["losses"]
    assert reports["0"]["losses"] == pytest.approx([row["loss"] for row in alone.history_], abs=1e-9)


def test_error_of_one_process_ends_all_and_is_printed_once(shared: tuple[Path, Any]) -> None:
    _, reports = shared
    assert "row group 1 of" in reports["0"]["error"]
    assert reports["0"]["error"] == reports["1"]["error"]
    assert (reports["0"]["told"], reports["1"]["told"]) == (False, True)


def test_two_processes_predict_and_evaluate_and_one_prints(shared: tuple[Path, Any]) -> None:
    folder, reports = shared
    assert reports["1"]["lines"] == []
    wrote, evaluated = "".join(reports["0"]["lines"][:-1]), json.loads(reports["0"]["lines"][-1])
    assert wrote.startswith("Wrote 600 predictions to 5 parts in ")
    data, model = columns(), load(folder / "plain.fls")
    predicted = model.predict(inputs(data))
    np.testing.assert_allclose(parquet.read_table(folder / "p").column("y").to_numpy(), predicted, rtol=1e-12)
    rmse = np.sqrt(np.mean((predicted - data["y"]) ** 2))
    assert evaluated["scores"]["y"]["rmse"] == pytest.approx(rmse, rel=1e-12)
    assert (evaluated["rows"], evaluated["processes"]) == (600, 2)


def test_two_processes_continue_from_the_checkpoint_of_one(shared: tuple[Path, Any]) -> None:
    folder, _ = shared
    alone = FLSRegressor(**SETTINGS, dtype="float64").fit(regression(folder / "rows" / "*.parquet"))
    assert_close(alone, load(folder / "resumed.fls"), atol=1e-9)
