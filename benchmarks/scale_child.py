"""What ``scale.py`` measures: tables on disk, and one training in processes of its own."""

from __future__ import annotations

import json
import os
import resource
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

GROUP_ROWS = 65_536


# Tables


def write_table(folder: Path, n_rows: int, n_inputs: int = 10, **options: Any) -> Path:
    """Random inputs and a target that is no sum of functions of one input, in files of at most 5 million rows.

    Without dictionaries: pyarrow makes one for every column unless told otherwise, and where all numbers differ that makes
    files larger and slower to read. ``options`` go to pyarrow.
    """
    import pyarrow as pa
    from pyarrow import parquet

    check_room(folder, n_rows * (n_inputs + 1) * 4)
    folder.mkdir()
    names = [*(f"x{m}" for m in range(n_inputs)), "y"]
    schema = pa.schema([(name, pa.float32()) for name in names])
    per_file = 76 * GROUP_ROWS
    for number, first in enumerate(range(0, n_rows, per_file)):
        file = folder / f"rows-{number:04d}.parquet"
        with parquet.ParquetWriter(file, schema, **{"use_dictionary": False, **options}) as writer:
            for start in range(first, min(first + per_file, n_rows), GROUP_ROWS):
                random = np.random.default_rng([1, start])
                x = random.standard_normal((min(GROUP_ROWS, n_rows - start), n_inputs), dtype=np.float32)
                noise = 0.1 * random.standard_normal(len(x), dtype=np.float32)
                y = np.sin(2 * x[:, 0]) + x[:, 1] * x[:, 2] + np.abs(x[:, 3]) + noise
                columns = [*(np.ascontiguousarray(column) for column in x.T), y]
                writer.write_table(pa.table(dict(zip(names, columns, strict=True))))
    return folder / "*.parquet"


def write_turbidity(folder: Path, n_rows: int) -> Path:
    """The first rows of the turbidity set, from the files in the package pvlib."""
    import pyarrow as pa
    from pyarrow import parquet

    from deepfls.data.datasets import turbidity_blocks
    from deepfls.data.turbidity import FEATURE_NAMES

    check_room(folder, n_rows * 7 * 4)
    folder.mkdir()
    names = [*FEATURE_NAMES, "turbidity"]
    schema = pa.schema([(name, pa.float32()) for name in names])
    written = 0
    with parquet.ParquetWriter(folder / "turbidity.parquet", schema) as writer:
        for block in turbidity_blocks(map_rows=10):
            columns = [*block.x.T.astype(np.float32), block.y[:, 0].astype(np.float32)]
            part = pa.table(dict(zip(names, columns, strict=True))).slice(0, n_rows - written)
            writer.write_table(part, row_group_size=GROUP_ROWS)
            written += part.num_rows
            if written >= n_rows:
                break
    return folder / "*.parquet"


def check_room(folder: Path, n_bytes: int) -> None:
    free = shutil.disk_usage(folder.parent).free
    if free < 1.3 * n_bytes + 2**30:
        sys.exit(f"{folder.parent} must have {1.3 * n_bytes / 2**30 + 1:.1f} GB free, got {free / 2**30:.1f}.")


# One measurement, in processes of its own


def measured(task: dict[str, Any], n_processes: int = 1) -> list[dict[str, Any]]:
    """What fresh processes, one thread of torch's each, say of a task, by rank."""
    with socket.socket() as found:
        found.bind(("localhost", 0))
        port = found.getsockname()[1]
    common = {**os.environ, "OMP_NUM_THREADS": "1"}
    if n_processes > 1:
        common |= {"MASTER_ADDR": "localhost", "MASTER_PORT": str(port), "WORLD_SIZE": str(n_processes)}
    command = [sys.executable, __file__, json.dumps({key: str(v) if key == "rows" else v for key, v in task.items()})]
    running = [
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**common, "RANK": str(k), "LOCAL_RANK": str(k)})
        for k in range(n_processes)
    ]
    said = [process.communicate()[0] for process in running]
    if any(process.returncode for process in running):
        sys.exit(f"a measurement failed: {task}")
    return [json.loads(text.splitlines()[-1]) for text in said]


def trained(task: dict[str, Any]) -> dict[str, Any]:
    """Train as the task says, and tell what it took.

    Keys of a task: rows (path), target, rules, batch, epochs; how ("stream" or "memory"); test (hold out 1 % of the rows
    and measure on them); start ("sample" or "all": the rows whose normal equations give the first consequents).
    """
    from deepfls import FLSRegressor
    from deepfls.data.sources import ParquetSource
    from deepfls.estimators import fit as pipeline

    source = ParquetSource(task["rows"], target=task["target"])
    used = source.part(0, 0.01, 1.0) if task.get("test") else source
    settings = {"kind": "it2", "n_rules": task["rules"], "batch_size": task["batch"], "epochs": task["epochs"]}
    model = FLSRegressor(**settings, random_state=0, device="cpu")
    # What is imported and compiled at the first step of a process is no cost of rows.
    random = np.random.default_rng(0)
    FLSRegressor(n_rules=2, epochs=1).fit(random.normal(size=(50, 2)), random.normal(size=50))
    if task.get("start") == "all":
        solve_from_all(used)
    processor = watched(pipeline, "train", time.process_time)
    began = time.perf_counter()
    if task["how"] == "memory":
        parts = [part for _, part in source.all_rows(range(source.n_groups))]
        x, y = (np.concatenate([getattr(part, name) for part in parts]) for name in ("x", "y"))
        del parts
        began = time.perf_counter()
        model.fit(x, y[:, 0])
    else:
        model.fit(used)
    seconds = time.perf_counter() - began
    marks = [row["seconds"] for row in model.history_] or [0.0]
    n_rows = source.files.n_rows * (0.99 if task.get("test") else 1.0)
    # Later epochs alone, where there are any: the first one may wait for its first rows.
    epoch = (marks[-1] - marks[0]) / (len(marks) - 1) if len(marks) > 1 else marks[0]
    result = {
        "rows_per_second": n_rows / epoch if epoch else 0.0,
        "epoch_seconds": epoch,
        "before_seconds": seconds - marks[-1],
        "epoch_processor_seconds": sum(processor) / max(task["epochs"], 1),
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }
    if task.get("test"):
        result["rmse"] = test_error(model, source.part(0, 0.0, 0.01))
    return result


def watched(module: Any, name: str, clock: Any) -> list[float]:
    """A list that gets how far a clock went in each call of a function; processor time is stretched less by other work."""
    function, spent = getattr(module, name), []

    def timed(*given: Any, **options: Any) -> Any:
        before = clock()
        result = function(*given, **options)
        spent.append(clock() - before)
        return result

    setattr(module, name, timed)
    return spent


def solve_from_all(source: Any) -> None:
    """Let the first consequents come from the normal equations of all rows, as a second pass would find them."""
    import torch

    from deepfls.estimators import fit as pipeline
    from deepfls.training.start import solve_consequents

    first_system = pipeline._first_system

    def and_solve(run: Any, structure: Any, data: Any, *rest: Any) -> Any:
        system = first_system(run, structure, data, *rest)
        parts = [part for _, part in source.all_rows(range(source.n_groups))]
        x, y = (
            torch.from_numpy(np.concatenate([getattr(data, f"{name}_scaling").apply(getattr(p, name)) for p in parts]))
            for name in ("x", "y")
        )
        solve_consequents(system, x.float(), y.float(), ridge=run.settings.ridge)
        return system

    pipeline._first_system = and_solve


def test_error(model: Any, source: Any) -> float:
    import pyarrow as pa

    total, count = 0.0, 0
    for _, part in source.all_rows(range(source.n_groups)):
        x = pa.table(dict(zip(source.layout.input_names, part.x.T.copy(), strict=True)))
        total += float(np.square(model.predict(x) - part.y[:, 0]).sum())
        count += len(part.y)
    return float(np.sqrt(total / count))


if __name__ == "__main__":
    import torch

    torch.set_num_threads(1)
    TASK = json.loads(sys.argv[1])
    if TASK["how"] == "exchange":
        from scale_costs import exchanged

        print(json.dumps(exchanged(TASK)))
    else:
        print(json.dumps(trained(TASK)))
