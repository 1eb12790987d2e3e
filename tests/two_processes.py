"""Run by test_fit_streams.py in two processes at once: fits sources together and writes the results."""

from __future__ import annotations

import contextlib
import hashlib
import json
import sys
from pathlib import Path
from typing import Any

from deepfls import FLSClassifier, FLSRegressor
from deepfls.cli.app import app
from deepfls.data.sources import ParquetSource
from deepfls.estimators import table_model as batch
from deepfls.training.checkpoint import Checkpoints
from deepfls.training.distributed import process_group
from stream_cases import SETTINGS, StoppingLoss, regression, system_arrays


def commands(folder: Path) -> None:
    """Predict and evaluate together; small parts, so that each process has some."""
    write_parts = batch.write_parts
    batch.write_parts = lambda *given, **options: write_parts(*given, **{**options, "part_rows": 130})  # type: ignore[assignment]
    model, rows = str(folder / "plain.fls"), str(folder / "rows" / "*.parquet")
    for arguments in (("predict", model, rows, "--out", str(folder / "p")), ("evaluate", model, rows, "--json")):
        # Ends by leaving the process, with its exit code.
        with contextlib.suppress(SystemExit):
            app(list(arguments))


def main(folder: Path) -> None:
    rows = folder / "rows" / "*.parquet"
    cases: dict[str, dict[str, Any]] = {
        "plain": {},
        "uneven": {"batch_size": 37},
        "patience": {"patience": 1, "epochs": 4},
        "float32": {"dtype": "float32"},
        "coverage": {"coverage": 0.8, "calibration": "cqr"},
    }
    said: dict[str, Any] = {}
    with process_group() as group:
        for name, options in cases.items():
            model = FLSRegressor(**{**SETTINGS, "dtype": "float64", **options}).fit(regression(rows))
            if group.leads:
                model.save(folder / f"{name}.fls")
            if name == "plain":
                digest = hashlib.sha256()
                for value in system_arrays(model).values():
                    digest.update(value.tobytes())
                said |= {"digest": digest.hexdigest(), "losses": [row["loss"] for row in model.history_]}
        single = FLSRegressor(**SETTINGS, dtype="float64").fit(regression(folder / "single" / "*.parquet"))
        source = ParquetSource(rows, target="label", features=["a", "b"], buffer_rows=200)
        classes = FLSClassifier(**SETTINGS, dtype="float64").fit(source)
        # The half-finished run of another process, taken up by both.
        settings = {**SETTINGS, "loss": StoppingLoss(10**9)}
        resumed = FLSRegressor(**settings, dtype="float64").fit(
            regression(rows), checkpoints=Checkpoints(folder / "kept", every=3, resume=True)
        )
        if group.leads:
            single.save(folder / "single.fls")
            classes.save(folder / "classes.fls")
            resumed.save(folder / "resumed.fls")
        group.barrier()
        commands(folder)
        try:
            FLSRegressor(**SETTINGS).fit(regression(folder / "bad" / "*.parquet", nulls="error"))
        except ValueError as error:
            said |= {"error": str(error), "told": getattr(error, "reported_by_leader", False)}
    print(json.dumps(said))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
