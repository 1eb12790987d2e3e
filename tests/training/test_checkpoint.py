"""Checkpoints: runs go on from them to the bit, and no fault of disk, folder or settings loses one."""

from __future__ import annotations

import errno
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch.nn import functional

from deepfls import FLSClassifier, FLSRegressor
from deepfls.data.sources import ParquetSource
from deepfls.training import checkpoint
from deepfls.training.checkpoint import CheckpointError, Checkpoints
from stream_cases import SETTINGS, StopError, StoppingLoss, assert_same_bits, columns, regression, write


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write(tmp_path / "rows", columns())


def interrupted(path: Path, folder: Path, calls: int, every: int = 5, **options: Any) -> None:
    """A run that ends after so many batches."""
    with pytest.raises(StopError):
        FLSRegressor(**{**SETTINGS, **options, "loss": StoppingLoss(calls)}).fit(
            regression(path), checkpoints=Checkpoints(folder, every=every)
        )


def resumed(path: Path, folder: Path, **options: Any) -> FLSRegressor:
    settings = {**SETTINGS, **options, "loss": StoppingLoss(10**9)}
    return FLSRegressor(**settings).fit(regression(path), checkpoints=Checkpoints(folder, every=5, resume=True))


def undisturbed(path: Path, **options: Any) -> FLSRegressor:
    return FLSRegressor(**{**SETTINGS, **options, "loss": StoppingLoss(10**9)}).fit(regression(path))


def steps(folder: Path) -> list[int]:
    return sorted(int(file.stem.split("-")[1]) for file in folder.glob("step-*.safetensors"))


# Going on


@pytest.mark.parametrize("calls", [4, 5, 11, 12, 13, 30, 35])
def test_run_that_was_stopped_goes_on_to_the_same_bits(path: Path, tmp_path: Path, calls: int) -> None:
    interrupted(path, tmp_path / "run", calls)
    assert_same_bits(resumed(path, tmp_path / "run"), undisturbed(path))


@pytest.mark.parametrize(
    "options",
    [
        {"patience": 1, "epochs": 6, "learning_rate": 0.3},
        {"optimizer": "sgd", "optimizer_options": {"momentum": 0.9}, "learning_rate": 0.01},
        {"optimizer": "nadam"},
        {"optimizer": "adagrad"},
        {"kind": "t1", "schedule": "cosine", "gradient_clip": 0.5, "weight_decay": 0.1, "dtype": "float64"},
    ],
    ids=["patience", "momentum", "nadam", "adagrad", "t1"],
)
def test_every_part_of_a_run_is_kept(path: Path, tmp_path: Path, options: dict[str, Any]) -> None:
    interrupted(path, tmp_path / "run", 20, **options)
    again, whole = resumed(path, tmp_path / "run", **options), undisturbed(path, **options)
    assert_same_bits(again, whole)
    assert again.stopped_by_ == whole.stopped_by_

    def plain(rows: list[dict[str, float]]) -> list[dict[str, float]]:
        return [{name: value for name, value in row.items() if name != "seconds"} for row in rows]

    assert plain(again.history_) == plain(whole.history_)


def test_run_that_lost_the_finite_numbers_goes_on_as_it_would_have(path: Path, tmp_path: Path) -> None:
    options = {"optimizer": "sgd", "learning_rate": 300.0, "schedule": "constant", "epochs": 5, "centers_within": "free"}
    whole = undisturbed(path, **options)
    assert len(whole.history_) < 5, "the test needs a run that goes back"
    interrupted(path, tmp_path / "run", 30, **options)
    assert_same_bits(resumed(path, tmp_path / "run", **options), whole)


def test_several_stops_in_one_run(path: Path, tmp_path: Path) -> None:
    interrupted(path, tmp_path / "run", 7)
    for _ in range(3):
        settings = {**SETTINGS, "loss": StoppingLoss(9)}
        with pytest.raises(StopError):
            FLSRegressor(**settings).fit(regression(path), checkpoints=Checkpoints(tmp_path / "run", every=5, resume=True))
    assert_same_bits(resumed(path, tmp_path / "run"), undisturbed(path))


def test_run_ended_by_ctrl_c_is_usable_and_goes_on(path: Path, tmp_path: Path) -> None:
    model = FLSRegressor(**{**SETTINGS, "loss": StoppingLoss(17, KeyboardInterrupt)})
    with pytest.warns(UserWarning, match=r"^Training was interrupted in epoch 2 of 3; the parameters reached are kept\.$"):
        model.fit(regression(path), checkpoints=Checkpoints(tmp_path / "run", every=5))
    assert model.stopped_by_ == "interrupt"
    assert steps(tmp_path / "run") == [10, 15]
    assert_same_bits(resumed(path, tmp_path / "run"), undisturbed(path))


def test_folder_alone_is_enough(path: Path, tmp_path: Path) -> None:
    FLSRegressor(**SETTINGS).fit(regression(path), checkpoints=tmp_path / "run")
    assert steps(tmp_path / "run") == [36]


def test_resume_begins_where_there_is_no_checkpoint_yet(path: Path, tmp_path: Path) -> None:
    assert_same_bits(resumed(path, tmp_path / "new" / "run"), undisturbed(path))


def test_resume_of_a_finished_run_gives_its_model_at_once(path: Path, tmp_path: Path) -> None:
    first = resumed(path, tmp_path / "run")
    settings = {**SETTINGS, "loss": StoppingLoss(0)}
    again = FLSRegressor(**settings).fit(regression(path), checkpoints=Checkpoints(tmp_path / "run", resume=True))
    assert_same_bits(first, again)


def test_classifier_with_weights_and_dropped_rows_goes_on(tmp_path: Path) -> None:
    data = columns()
    data["label"] = [None if row % 50 == 3 else value for row, value in enumerate(data["label"])]
    path = write(tmp_path / "rows", data)

    def fitted(calls: int, **options: Any) -> FLSClassifier:
        source = ParquetSource(path, target="label", features=["a", "b"], weight="w", nulls="drop", buffer_rows=200)

        class Loss(StoppingLoss):
            def __call__(self, y: Any, target: Any) -> Any:
                super().__call__(y, y)
                return functional.cross_entropy(y, target[:, 0].long(), reduction="none")

        return FLSClassifier(**SETTINGS, loss=Loss(calls)).fit(source, **options)

    with pytest.raises(StopError):
        fitted(20, checkpoints=Checkpoints(tmp_path / "run", every=3))
    told = r"^12 rows without a target or a weight are left out\.$"
    with pytest.warns(UserWarning, match=told):
        whole = fitted(10**9)
    with pytest.warns(UserWarning, match=told):
        again = fitted(10**9, checkpoints=Checkpoints(tmp_path / "run", resume=True))
    assert_same_bits(again, whole)


# When


def test_two_newest_are_kept_at_the_steps_asked(path: Path, tmp_path: Path) -> None:
    interrupted(path, tmp_path / "run", 23)
    assert steps(tmp_path / "run") == [15, 20]


def test_time_between_checkpoints(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(np.arange(0.0, 1e6, 1.0))
    monkeypatch.setattr(checkpoint.time, "monotonic", lambda: float(next(clock)))
    with pytest.raises(StopError):
        FLSRegressor(**{**SETTINGS, "loss": StoppingLoss(30)}).fit(
            regression(path), checkpoints=Checkpoints(tmp_path / "run", every="10s")
        )
    # The clock moves at every look: once a step, and once when a checkpoint is written.
    assert np.diff(steps(tmp_path / "run")).tolist() == [10]


@pytest.mark.parametrize("every", [0, -1, 2.5, True, "often", "0s", "10 days", "", None])
def test_other_intervals_are_refused(tmp_path: Path, every: Any) -> None:
    message = "checkpoint_every must be a number of steps such as 200 or a time such as 30s, 5min or 1h, got "
    with pytest.raises(ValueError, match=f"^{re.escape(message + repr(every))}\\.$"):
        Checkpoints(tmp_path, every=every)


@pytest.mark.parametrize(
    ("every", "expected"), [(7, (7, None)), ("7", (7, None)), ("1.5min", (None, 90.0)), ("2 h", (None, 7200.0))]
)
def test_intervals_are_read(tmp_path: Path, every: Any, expected: tuple[Any, Any]) -> None:
    assert tuple(Checkpoints(tmp_path, every=every).interval) == expected


# Faults


def test_full_disk_is_told_and_loses_nothing(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "run"
    write_whole = checkpoint.write_whole

    def full(file: Path, content: bytes) -> None:
        if file.name == "step-000000000015.safetensors":
            # What a full disk does: part of the content is there, then the error.
            handle = os.open(file.with_name(f".{file.name}.0.tmp"), os.O_CREAT | os.O_WRONLY)
            os.write(handle, content[:100])
            os.close(handle)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write_whole(file, content)

    monkeypatch.setattr(checkpoint, "write_whole", full)
    message = (
        f"checkpoint '{folder}/step-000000000015.safetensors' could not be written (No space left on device); the "
        "checkpoint of step 10 is whole: make room and continue with resume=True (--resume)."
    )
    with pytest.raises(CheckpointError, match=f"^{re.escape(message)}$"):
        FLSRegressor(**{**SETTINGS, "loss": StoppingLoss(10**9)}).fit(
            regression(path), checkpoints=Checkpoints(folder, every=5)
        )
    assert steps(folder) == [5, 10]
    monkeypatch.undo()
    assert_same_bits(resumed(path, folder), undisturbed(path))
    assert list(folder.glob("*.tmp")) + list(folder.glob(".*.tmp")) == []


def test_full_disk_leaves_the_file_that_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from deepfls import _files as model_file

    file = tmp_path / "step-000000000005.safetensors"
    file.write_bytes(b"whole")

    def no_space(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(model_file.os, "fsync", no_space)
    with pytest.raises(OSError, match="No space left"):
        model_file.write_whole(file, b"half")
    assert file.read_bytes() == b"whole"
    assert [entry.name for entry in tmp_path.iterdir()] == [file.name]


@pytest.mark.parametrize("damage", [lambda b: b[:-7], lambda b: b[:-1] + bytes([b[-1] ^ 1]), lambda b: b""])
def test_damaged_checkpoint_is_told_and_the_one_before_it_serves(path: Path, tmp_path: Path, damage: Any) -> None:
    folder = tmp_path / "run"
    interrupted(path, folder, 23)
    newest = folder / "step-000000000020.safetensors"
    newest.write_bytes(damage(newest.read_bytes()))
    with pytest.warns(UserWarning, match=r"step-000000000020.* (damaged|truncated).* The checkpoint before it is used\.$"):
        again = resumed(path, folder)
    assert_same_bits(again, undisturbed(path))


def test_folder_whose_checkpoints_are_all_damaged_is_refused(path: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    interrupted(path, folder, 23)
    for file in folder.glob("step-*"):
        file.write_bytes(b"nothing")
    with pytest.warns(UserWarning, match="is used"), pytest.raises(CheckpointError, match=r"step-000000000020.*truncated"):
        resumed(path, folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_rules": 4}, "where n_rules was 3 and now is 4: "),
        ({"learning_rate": 0.5}, 'where learning_rate was "auto" and now is 0.5: '),
        ({"random_state": 1}, "where random_state was 0 and now is 1: "),
    ],
)
def test_checkpoint_of_other_settings_is_refused(path: Path, tmp_path: Path, change: dict[str, Any], message: str) -> None:
    interrupted(path, tmp_path / "run", 12)
    before = {file.name: file.read_bytes() for file in (tmp_path / "run").glob("*.safetensors")}
    with pytest.raises(CheckpointError, match=f"^checkpoint_dir must hold a run of the same .*{re.escape(message)}"):
        resumed(path, tmp_path / "run", **change)
    assert {file.name: file.read_bytes() for file in (tmp_path / "run").glob("*.safetensors")} == before


def test_checkpoint_of_other_data_is_refused(path: Path, tmp_path: Path) -> None:
    interrupted(path, tmp_path / "run", 12)
    write(path.parent, columns(630))
    with pytest.raises(CheckpointError, match=r'where files was .*"part-0.parquet", 200.* and now is .*210'):
        resumed(path, tmp_path / "run")


def test_other_device_and_verbosity_are_the_same_run(path: Path, tmp_path: Path) -> None:
    interrupted(path, tmp_path / "run", 12)
    assert_same_bits(resumed(path, tmp_path / "run", device="cpu"), undisturbed(path))


def test_new_run_in_a_folder_with_checkpoints_is_refused(path: Path, tmp_path: Path) -> None:
    interrupted(path, tmp_path / "run", 12)
    message = (
        f"checkpoint_dir must be an empty folder for a new run, got '{tmp_path}/run' with a checkpoint of step 10: "
        "continue from it with resume=True (--resume), or give another folder."
    )
    with pytest.raises(CheckpointError, match=f"^{re.escape(message)}$"):
        FLSRegressor(**SETTINGS).fit(regression(path), checkpoints=Checkpoints(tmp_path / "run"))
    assert_same_bits(resumed(path, tmp_path / "run"), undisturbed(path))


def test_second_run_in_the_same_folder_is_refused_while_the_first_goes_on(path: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    seen: list[str] = []

    class Loss(StoppingLoss):
        def __call__(self, y: Any, target: Any) -> Any:
            if self.left == 10**9 - 12:
                with pytest.raises(CheckpointError) as caught:
                    resumed(path, folder)
                seen.append(str(caught.value))
            return super().__call__(y, target)

    first = FLSRegressor(**{**SETTINGS, "loss": Loss(10**9)}).fit(
        regression(path), checkpoints=Checkpoints(folder, every=5, resume=True)
    )
    assert re.fullmatch(
        f"checkpoint_dir must be used by one run at a time, got '{re.escape(str(folder))}', which process {os.getpid()} on "
        r"\S+ has in use\.",
        seen[0],
    )
    assert_same_bits(first, undisturbed(path))


def test_folder_that_cannot_be_made_is_told(path: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(
        CheckpointError, match=r"^checkpoint_dir must be a folder that can be written to, got '.*/file/run' "
    ):
        resumed(path, tmp_path / "file" / "run")


def test_folder_with_another_kind_of_file_is_refused(path: Path, tmp_path: Path) -> None:
    undisturbed(path).save(tmp_path / "m.fls")
    folder = tmp_path / "run"
    folder.mkdir()
    for name in ("start.safetensors", "step-000000000001.safetensors"):
        (folder / name).write_bytes((tmp_path / "m.fls").read_bytes())
    with pytest.raises(CheckpointError, match=r"is a safetensors file, but not a deepfls checkpoint\.$"):
        resumed(path, folder)


# Kill -9 at random moments


def test_run_killed_at_random_moments_ends_in_the_same_bits(path: Path, tmp_path: Path) -> None:
    script = Path(__file__).parents[1] / "killed_runs.py"
    done = subprocess.run(
        [sys.executable, str(script), str(path), str(tmp_path / "runs"), "12"],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    assert result["kills"] == [-signal.SIGKILL] * 12
    assert result["different"] == []
    # The moments were spread over the run: some before the first checkpoint, some near the end.
    assert len(set(result["steps"])) > 4
