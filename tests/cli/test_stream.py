"""Streams on the command line: train, predict, evaluate, by one process and by several."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from deepfls import FLSRegressor, load
from deepfls.data.sources import ParquetSource
from deepfls.estimators import table_model as batch_module
from stream_cases import assert_close, assert_same_bits, columns, write

Run = Callable[..., Any]
Refused = Callable[..., str]
ROWS = "rows/*.parquet"
FAST = ("--n-rules", "3", "--epochs", "3", "--batch-size", "50", "--random-state", "0", "--feature", "a", "--feature", "b")
STREAM = ("train", ROWS, "--target", "y", "--stream", "--buffer-rows", "200", *FAST)


@pytest.fixture
def rows(folder: Path) -> Path:
    write(folder / "rows", columns())
    return folder / "rows"


@pytest.fixture
def model(rows: Path, run: Run) -> str:
    run(*STREAM, "--quiet", "--out", "m.fls")
    return "m.fls"


def fitted() -> FLSRegressor:
    source = ParquetSource(ROWS, target="y", features=["a", "b"], buffer_rows=200)
    return FLSRegressor(n_rules=3, epochs=3, batch_size=50, random_state=0).fit(source)


# Train


def test_train_is_the_estimator_on_a_source(rows: Path, model: str) -> None:
    assert_same_bits(load(model), fitted())
    assert load(model).target_names_ == ("y",)


def test_train_prints_what_training_from_memory_prints(rows: Path, run: Run) -> None:
    lines = run(*STREAM, "--test-fraction", "0.25").stdout.splitlines()
    assert lines[0] == "Training on 3 files: 450 of 600 rows, 2 inputs, target y"
    assert [line.split()[-4] for line in lines[4:6]] == ["train", "test"]
    assert lines[-1].startswith("Saved model.fls: it2, 3 rules, 3 epochs, ")


def test_train_gives_the_json_of_training_from_memory(rows: Path, run: Run) -> None:
    flags = ("--stream", "--buffer-rows", "200")
    streamed = json.loads(run(*STREAM, "--json", "--out", "a.fls").stdout)
    whole = json.loads(run(*(word for word in STREAM if word not in flags), "--json", "--out", "b.fls").stdout)
    assert list(streamed) == list(whole)
    for name in ("command", "data", "task", "targets", "inputs", "rows", "processes", "settings", "epochs", "stopped_by"):
        assert streamed[name] == whole[name]


def test_train_measures_what_the_model_does(rows: Path, run: Run) -> None:
    result = json.loads(run(*STREAM, "--json", "--out", "m.fls").stdout)
    data = columns()
    predicted = load("m.fls").predict(pa.table({name: data[name] for name in ("a", "b")}))
    rmse = np.sqrt(np.mean((predicted - data["y"]) ** 2))
    assert result["scores"]["train"]["y"]["rmse"] == pytest.approx(rmse)
    assert result["rows"] == {"train": 600, "test": 0}
    assert result["processes"] == 1


def test_train_reads_a_csv_through_the_cache(folder: Path, run: Run) -> None:
    run(
        "train",
        "plant.csv",
        "--target",
        "y",
        "--feature",
        "x",
        "--stream",
        "--n-rules",
        "2",
        "--epochs",
        "2",
        "--random-state",
        "0",
    )
    (copy,) = (folder / "cache" / "parquet").glob("plant.csv-*.parquet")
    stamp = copy.stat().st_mtime_ns
    run("evaluate", "model.fls", "plant.csv", "--stream")
    assert copy.stat().st_mtime_ns == stamp


def test_train_classifies_text(rows: Path, run: Run) -> None:
    arguments = ("train", ROWS, "--target", "label", "--stream", *FAST, "--json", "--test-fraction", "0.2")
    result = json.loads(run(*arguments).stdout)
    assert result["task"] == "classification"
    assert result["scores"]["test"]["label"]["accuracy"] > 0.8
    streamed = json.loads(run("evaluate", "model.fls", ROWS, "--stream", "--json").stdout)["scores"]["label"]
    assert streamed == pytest.approx(json.loads(run("evaluate", "model.fls", ROWS, "--json").stdout)["scores"]["label"])


def test_train_tells_how_many_rows_it_dropped(folder: Path, run: Run) -> None:
    data = {**columns(), "y": [None if row < 7 else value for row, value in enumerate(columns()["y"])]}
    write(folder / "rows", data)
    assert run(*STREAM, "--nulls", "drop").stderr == "Warning: 7 rows without a target are left out.\n"


def test_train_tells_of_rows_without_a_weight(folder: Path, run: Run, refused: Refused) -> None:
    write(folder / "rows", {**columns(), "weight": [None if row < 7 else 1.0 for row in range(600)]})
    assert run(*STREAM, "--weight", "weight").stderr == "Warning: 7 rows without a target or a weight are left out.\n"
    write(folder / "rows", {**columns(), "weight": [0.0] * 600})
    message = refused(*STREAM, "--weight", "weight", "--force", code=1)
    assert message.endswith("must have rows to learn from, got none with a target and a weight greater than 0.")


def test_train_continues_after_it_was_stopped(rows: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    read = ParquetSource.read

    def stopping(self: ParquetSource, *arguments: Any, **options: Any) -> Any:
        if not Path("stopped").exists() and list(Path("run").glob("step-*")):
            Path("stopped").touch()
            raise OSError("pulled the plug")
        return read(self, *arguments, **options)

    monkeypatch.setattr(ParquetSource, "read", stopping)
    keep = ("--checkpoint-dir", "run", "--checkpoint-every", "4", "--resume", "--out", "m.fls")
    assert run(*STREAM, *keep, code=1).stderr == "Error: pulled the plug\n"
    assert not Path("m.fls").exists()
    run(*STREAM, *keep)
    assert_same_bits(load("m.fls"), fitted())
    run(*STREAM, *keep)  # finished: the same model again, at once
    message = run(*STREAM, *keep[:2], "--out", "other.fls", code=1).stderr
    assert message.endswith("continue from it with --resume, or give another folder.\n")


@pytest.mark.parametrize(
    ("arguments", "message", "code"),
    [
        (("--nulls", "keep"), "--nulls must be one of 'error', 'drop', got 'keep'.", 2),
        (("--buffer-rows", "0"), "--buffer-rows must be at least 1, got 0.", 2),
        (("--resume",), "--resume must be given with --checkpoint-dir.", 2),
        (("--checkpoint-every", "3"), "--checkpoint-every must be given with --checkpoint-dir.", 2),
        (
            ("--checkpoint-dir", "run", "--checkpoint-every", "never"),
            "--checkpoint-every must be a number of steps such as 200 or a time such as 30s, 5min or 1h, got 'never'.",
            2,
        ),
        (
            ("--target", "label", "--interval-weight", "2"),
            "Several targets must all hold numbers, got text in column 'label'.",
            1,
        ),
        (
            ("--task", "classification", "--interval-weight", "2"),
            "--interval-weight must be given for numbers only, got a target of classes.",
            2,
        ),
        (("--kind", "it3"), "--kind must be one of 't1', 'it2', 'gt2', got 'it3'. Did you mean 'it2'?", 2),
        (("--weight", "weight"), "'rows/*.parquet' has no column 'weight' of weights. Its columns are", 1),
    ],
)
def test_train_refuses(rows: Path, refused: Refused, arguments: tuple[str, ...], message: str, code: int) -> None:
    assert refused(*STREAM, *arguments, code=code).startswith(message)
    assert not Path("model.fls").exists()


@pytest.mark.parametrize("name", ["--buffer-rows=9", "--checkpoint-dir=run", "--resume"])
def test_train_refuses_what_only_a_stream_has(folder: Path, refused: Refused, name: str) -> None:
    flag = name.split("=")[0]
    assert refused("train", "plant.csv", "--target", "y", name, code=2) == f"{flag} must be given with --stream."


def test_train_tells_a_null_with_its_file_and_row_group(folder: Path, refused: Refused) -> None:
    write(folder / "rows", {**columns(), "y": [None if row == 99 else v for row, v in enumerate(columns()["y"])]})
    assert refused(*STREAM, "--nulls", "error", code=1) == (
        "Column 'y' of row group 1 of 'rows/part-0.parquet' must have a number in every row, got a missing value in data "
        "row 30; --nulls drop leaves such rows out."
    )


# Evaluate


def test_evaluate_of_a_stream_is_that_of_the_table(rows: Path, model: str, run: Run) -> None:
    streamed, whole = (json.loads(run("evaluate", model, ROWS, "--json", *flags).stdout) for flags in (("--stream",), ()))
    assert streamed["rows"] == whole["rows"] == 600
    assert streamed["scores"]["y"] == pytest.approx(whole["scores"]["y"], rel=1e-12)


def test_evaluate_leaves_rows_out_when_asked(folder: Path, model: str, run: Run, refused: Refused) -> None:
    write(folder / "rows", {**columns(), "y": [None if row < 5 else v for row, v in enumerate(columns()["y"])]})
    message = refused("evaluate", model, ROWS, "--stream", "--nulls", "error", code=1)
    assert message.startswith("row group 0 of 'rows/part-0.parquet' must have a target in every row, got 5 rows without")
    for flags in (("--stream",), ()):
        assert json.loads(run("evaluate", model, ROWS, *flags, "--json").stdout)["rows"] == 595


def test_a_row_group_without_any_target_is_left_out(folder: Path, model: str, run: Run, refused: Refused) -> None:
    targets = columns()["y"]
    write(folder / "rows", {**columns(), "y": [None if row < 300 else value for row, value in enumerate(targets)]})
    result = run("evaluate", model, ROWS, "--stream", "--json")
    assert json.loads(result.stdout)["rows"] == 300
    assert result.stderr == "Warning: 300 rows without a target are left out.\n"
    write(folder / "rows", {**columns(), "y": pa.array([None] * 600, type=pa.float64())})
    message = refused("evaluate", model, ROWS, "--stream", code=1)
    assert message == "The table must have rows with a target, got no value in column 'y'."


# Predict


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    write_parts = batch_module.write_parts
    monkeypatch.setattr(batch_module, "write_parts", lambda *a, **o: write_parts(*a, **{**o, "part_rows": 130}))


@pytest.mark.usefixtures("small_parts")
def test_predict_writes_parts_in_the_order_of_the_rows(rows: Path, model: str, run: Run) -> None:
    result = run("predict", model, ROWS, "--out", "p", "--keep", "a", "--keep", "label", "--prefix", "predicted_")
    assert result.stdout == "Wrote 600 predictions to 5 parts in p\n"
    run("predict", model, ROWS, "--out", "p.parquet", "--keep", "a", "--keep", "label", "--prefix", "predicted_")
    assert parquet.read_table("p").equals(parquet.read_table("p.parquet"))
    assert sorted(file.name for file in Path("p").iterdir()) == [
        "_deepfls.json",
        *(f"part-{number:06d}.parquet" for number in range(5)),
    ]


@pytest.mark.usefixtures("small_parts")
def test_predict_goes_on_with_parts_that_are_missing(rows: Path, model: str, run: Run) -> None:
    run("predict", model, ROWS, "--out", "p")
    whole = parquet.read_table("p")
    stamps = {file: file.stat().st_mtime_ns for file in Path("p").glob("part-*")}
    for gone in ("part-000001.parquet", "part-000004.parquet"):
        (Path("p") / gone).unlink()
    (Path("p") / ".part-000004.parquet.tmp").write_bytes(b"half")
    result = run("predict", model, ROWS, "--out", "p", "--resume")
    assert result.stdout == "Wrote 600 predictions to 5 parts (3 existed) in p\n"
    assert parquet.read_table("p").equals(whole)
    assert not list(Path("p").glob(".part*"))
    kept = Path("p") / "part-000000.parquet"
    assert kept.stat().st_mtime_ns == stamps[kept]


@pytest.mark.parametrize(("flags", "code"), [((), 1), (("--resume", "--prefix", "other_"), 1), (("--force",), 0)])
def test_predict_keeps_other_predictions_unless_forced(rows: Path, model: str, run: Run, flags: Any, code: int) -> None:
    run("predict", model, ROWS, "--out", "p")
    before = parquet.read_table("p")
    result = run("predict", model, ROWS, "--out", "p", *flags, code=code)
    if code:
        assert re.match("Error: 'p' (already has predictions|must hold predictions of this model)", result.stderr)
    assert parquet.read_table("p").equals(before)


def test_predict_that_fails_leaves_whole_parts_only(folder: Path, model: str, refused: Refused, run: Run) -> None:
    write(folder / "rows", {**columns(), "a": [float("inf") if row == 599 else v for row, v in enumerate(columns()["a"])]})
    message = refused("predict", model, ROWS, "--out", "p", code=1)
    assert message.startswith("Column 'a' of row group 2 of 'rows/part-2.parquet' must have a finite number")
    assert [file.name for file in Path("p").iterdir()] == ["_deepfls.json"]
    write(folder / "rows", {**columns(), "a": [None if row == 599 else v for row, v in enumerate(columns()["a"])]})
    run("predict", model, ROWS, "--out", "p", "--nulls", "drop", "--force")
    assert parquet.read_table("p").num_rows == 599
    run("predict", model, ROWS, "--out", "p", "--force")
    assert parquet.read_table("p").num_rows == 600


def test_predict_leaves_out_whole_row_groups_and_parts(rows: Path, model: str, run: Run) -> None:
    write(rows, {**columns(), "a": [None] * 400 + list(columns()["a"][400:])})
    assert run("predict", model, ROWS, "--out", "p", "--nulls", "drop").stdout == "Wrote 200 predictions to 1 part in p\n"
    write(rows, {**columns(), "a": pa.nulls(600, pa.float64())})
    assert run("predict", model, ROWS, "--out", "none", "--nulls", "drop").stdout.startswith("Wrote 0 predictions")
    assert parquet.read_table("none").schema.names == ["y"]


def test_predict_leaves_out_rows_that_the_model_refuses(rows: Path, run: Run) -> None:
    run("train", ROWS, "--target", "y", "--missing", "error", "--epochs", "1", "--n-rules", "2", "--out", "strict.fls")
    write(rows, {**columns(), "a": [None, *columns()["a"][1:]]})
    done = run("predict", "strict.fls", ROWS, "--out", "p", "--nulls", "drop")
    assert done.stdout == "Wrote 599 predictions to 1 part in p\n"


def test_predict_makes_the_parts_of_new_rows_again(rows: Path, model: str, refused: Refused, run: Run) -> None:
    run("predict", model, ROWS, "--out", "p")
    write(rows, {**columns(), "a": np.roll(columns()["a"], 1)})
    message = "'p' must hold predictions of this model for this table to continue with --resume, got others: "
    assert refused("predict", model, ROWS, "--out", "p", "--resume", code=1).startswith(message)


@pytest.mark.parametrize("flags", [(), ("--force",)])
def test_predict_keeps_files_that_are_no_predictions(
    rows: Path, model: str, refused: Refused, folder: Path, flags: tuple[str, ...]
) -> None:
    before = sorted(rows.iterdir())
    message = "'rows' is the folder of files that are read: give another one as --out."
    assert refused("predict", model, ROWS, "--out", "rows", *flags, code=1) == message
    assert sorted(rows.iterdir()) == before
    other = folder / "other" / "part-00000-abc.parquet"  # as Spark names them
    other.parent.mkdir()
    other.write_bytes(before[0].read_bytes())
    message = "'other' holds 'part-00000-abc.parquet', which is no prediction: give another folder."
    assert refused("predict", model, ROWS, "--out", "other", *flags, code=1) == message
    assert list(other.parent.iterdir()) == [other]


def test_workbook_is_told_how_to_be_streamed(refused: Refused, folder: Path) -> None:
    (folder / "t.xlsx").write_bytes(b"PK")
    message = "'t.xlsx' is not a Parquet file, or it is truncated or damaged: save the sheet as CSV."
    assert refused("train", "t.xlsx", "--target", "y", "--stream", code=1) == message


def test_predict_tells_a_full_disk(rows: Path, model: str, refused: Refused, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Any, *_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(parquet.ParquetWriter, "write_table", full)
    message = refused("predict", model, ROWS, "--out", "p", code=1)
    assert (
        message == "'p/part-000000.parquet' cannot be written: No space left on device; the parts before it are complete."
    )
    assert not list(Path("p").glob("*part*"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--resume",), "--resume must be used with a folder as --out, got '-'."),
        (("--nulls", "drop", "--out", "p.csv"), "--nulls must be used with a folder as --out, got 'p.csv'."),
        (("--out", "no/p"), "--out must be in a folder that exists, got 'no/p'."),
        (("--out", "p", "--nulls", "no"), "--nulls must be one of 'keep', 'drop', got 'no'."),
    ],
)
def test_predict_refuses(rows: Path, model: str, refused: Refused, arguments: tuple[str, ...], message: str) -> None:
    assert refused("predict", model, ROWS, *arguments, code=2) == message


def test_predict_tells_a_missing_column(folder: Path, model: str, refused: Refused) -> None:
    write(folder / "rows", {name: value for name, value in columns().items() if name != "b"})
    assert refused("predict", model, ROWS, "--out", "p", code=1).startswith(
        "'rows/*.parquet' has no column 'b' that is needed."
    )


# torchrun


def torchrun(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
        check=False,
    )


def test_torchrun_trains_speaks_once_and_survives_the_kill_of_a_worker(rows: Path, folder: Path) -> None:
    # The worker of rank 1 kills itself when it reads rows after the first checkpoint.
    (folder / "deadly.py").write_text(
        "import os, signal\n"
        "from pathlib import Path\n"
        "from deepfls.data.sources import ParquetSource\n"
        "read = ParquetSource.read\n"
        "def deadly(*arguments, **options):\n"
        "    if os.environ['RANK'] == '1' and not Path('killed').exists() and list(Path('run').glob('step-*')):\n"
        "        Path('killed').touch()\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "    return read(*arguments, **options)\n"
        "ParquetSource.read = deadly\n"
        "from deepfls.cli.app import main\n"
        "main()\n"
    )
    keep = ("--checkpoint-dir", "run", "--checkpoint-every", "4", "--resume", "--out", "m.fls", "--dtype", "float64")
    done = torchrun("--max-restarts", "2", "deadly.py", *STREAM, *keep)
    assert done.returncode == 0, done.stderr
    assert (folder / "killed").exists()
    assert done.stdout.count("Saved m.fls: it2, 3 rules, 3 epochs") == 1
    source = ParquetSource(ROWS, target="y", features=["a", "b"], buffer_rows=200)
    alone = FLSRegressor(n_rules=3, epochs=3, batch_size=50, random_state=0, dtype="float64").fit(source)
    assert_close(load("m.fls"), alone, atol=1e-9)


def test_text_dates_and_missing_values_are_streamed(run: Run, folder: Path) -> None:
    lines = [
        f"{'red' if k % 3 else ''},2024-01-{k % 28 + 1:02d},{k / 7:.3f},{-999 if k % 9 == 0 else k}" for k in range(60)
    ]
    (folder / "t.csv").write_text("colour,day,a,y\n" + "\n".join(lines).replace(",red", ",blue") + "\n")
    settings = ("--n-rules", 2, "--epochs", 1, "--random-state", 0, "--missing-values", "-999", "--out", "m.fls")
    result = run("train", "t.csv", "--target", "y", "--stream", *settings)
    assert "7 rows without a target are left out" in result.stderr
    assert "R²" in result.stdout
    assert "53 rows" in run("evaluate", "m.fls", "t.csv", "--stream").stdout
