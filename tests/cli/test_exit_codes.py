"""A failing command ends with its exit code although threads of pyarrow are still alive."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from deepfls import FLSRegressor

COMMANDS = {
    "evaluate model.fls narrow.csv --target y": 1,
    "predict model.fls narrow.csv": 1,
    "explain model.fls rows.csv --row 1000": 2,
}


def test_failing_commands_end_with_their_exit_code(tmp_path: Path) -> None:
    values = np.random.default_rng(0).normal(size=(300, 3))
    frame = pd.DataFrame(values, columns=["a", "b", "c"])
    FLSRegressor(n_rules=2, epochs=1, random_state=0).fit(frame, values[:, 0]).save(tmp_path / "model.fls")
    frame.to_csv(tmp_path / "rows.csv", index=False)
    frame[["a", "c"]].assign(y=1.0).to_csv(tmp_path / "narrow.csv", index=False)
    # All at once: an abort at the end of a process needs a late thread, which a busy machine makes likely.
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "deepfls", *command.split()],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for command in COMMANDS
    ]
    ends = [(process.communicate(timeout=600)[0], process.returncode) for process in processes]
    for (message, code), expected in zip(ends, COMMANDS.values(), strict=True):
        assert code == expected, message
        assert message.startswith("Error: ")
        assert "terminate called" not in message


@pytest.mark.skipif(os.name != "posix", reason="closes standard streams by a POSIX shell")
def test_closed_streams_are_no_error_of_the_program(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": np.arange(20.0)})
    FLSRegressor(n_rules=2, epochs=1, random_state=0).fit(frame, frame["a"]).save(tmp_path / "model.fls")
    frame.to_csv(tmp_path / "rows.csv", index=False)
    command = f"exec '{sys.executable}' -m deepfls predict model.fls rows.csv"
    done = subprocess.run(["sh", "-c", f"{command} --out p.csv >&- 2>&-"], cwd=tmp_path, check=False)
    assert done.returncode == 0
    assert len(pd.read_csv(tmp_path / "p.csv")) == 20
    done = subprocess.run(["sh", "-c", f"{command} >&-"], cwd=tmp_path, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "Error: --out must be given, because standard output is closed.\n")


def test_output_in_an_encoding_without_its_characters_is_printed(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("größe,y\n" + "".join(f"{k},{k * k}\n" for k in range(20)), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "deepfls", "train", "rows.csv", "--target", "y", "--epochs", "1", "--n-rules", "2"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "R?" in done.stdout
    assert "Saved model.fls" in done.stdout
