"""Do fits on Ray survive losses, are two workers faster than one, and is the memory of predictions bounded?

    python benchmarks/ray_cluster.py [--quick] [--json FILE] [--markdown FILE]

A Ray cluster of two nodes with a CPU each runs on this machine. One fit loses a worker and another one a node, each while
the worker reads rows after a checkpoint; both must end with the model of one process. Then two workers are compared with
one, and rows pass through predictions while the memory of all workers is watched. --quick is the fit that loses a node, and
predictions of few rows.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import ray
from pyarrow import parquet
from ray.cluster_utils import Cluster

import deepfls.engines.ray as engine
from _report import Row, Target, answer
from deepfls import FLSRegressor
from deepfls.data.sources import ParquetSource
from deepfls.data.summary import SourceRows

TITLE = "A Ray cluster of two nodes"
METHOD = "Both nodes are on this machine, with one CPU each; the driver is a third process."
_STORE = 400 * 2**20  # bytes of objects of a node
_CHECKPOINT_STEPS = 4
_SMALL: dict[str, Any] = {
    "kind": "it2", "n_rules": 3, "epochs": 3, "batch_size": 50, "dtype": "float64", "random_state": 0
}  # fmt: skip
# Rows that pass through predictions, and how much more memory the larger number may take.
_PREDICTED, _BOUNDED = (1_000_000, 5_000_000), Target("<=", 1.2)


class LostSource(ParquetSource):
    """A source whose second reader is lost once, after a checkpoint: it dies, or waits for its node to be removed."""

    storage: Path
    dies: bool

    def read(self, number: int, *, classes: bool = False) -> SourceRows:
        mark = self.storage / "lost"
        if os.environ.get("RANK") == "1" and not mark.exists() and self._has_checkpoint():
            mark.write_text(ray.get_runtime_context().get_node_id())
            if self.dies:
                os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(600)  # the removal of the node ends it
        return super().read(number, classes=classes)

    def _has_checkpoint(self) -> bool:
        # The second one is written when Ray has taken note of the first one.
        return len(list(self.storage.glob("*/checkpoint_2*"))) >= 2

    def prepared(self, *arguments: Any) -> Any:
        with (self.storage / "starts").open("a") as file:
            file.write(os.environ["RANK"])
        return super().prepared(*arguments)


def write_rows(folder: Path, n_rows: int, n_inputs: int, group_rows: int, n_files: int = 1) -> Path:
    """Random rows in Parquet files, and their pattern."""
    folder.mkdir()
    for number in range(n_files):
        values = np.random.default_rng(number).standard_normal((n_rows // n_files, n_inputs), dtype=np.float32)
        table = {f"x{place}": values[:, place] for place in range(n_inputs)}
        table["y"] = np.sin(2 * values[:, 0]) + values[:, 1]
        parquet.write_table(pa.table(table), folder / f"part-{number:02d}.parquet", row_group_size=group_rows)
    return folder / "*.parquet"


@contextlib.contextmanager
def two_nodes() -> Iterator[Cluster]:
    """A cluster of a head without CPUs and two nodes with one each."""
    head = {"num_cpus": 0, "object_store_memory": _STORE, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    try:
        for _ in range(2):
            cluster.add_node(num_cpus=1, object_store_memory=_STORE)
        ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
        ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
        yield cluster
    finally:
        ray.shutdown()
        cluster.shutdown()


def arrays_of(estimator: FLSRegressor) -> list[Any]:
    return [value.numpy() for value in estimator.system_.state_dict().values()]


def largest_difference(first: FLSRegressor, second: FLSRegressor) -> float:
    return max(float(np.abs(one - two).max()) for one, two in zip(arrays_of(first), arrays_of(second), strict=True))


def remove_node_of(mark: Path, cluster: Cluster, done: threading.Event) -> None:
    """Remove the node whose worker wrote the mark."""
    while not done.wait(0.05):
        if mark.exists() and mark.read_text():
            node = next(node for node in cluster.list_all_nodes() if node.node_id == mark.read_text())
            cluster.remove_node(node, allow_graceful=False)
            return


def lossy_fit(rows: Path, storage: Path, cluster: Cluster, *, dies: bool) -> FLSRegressor:
    """A fit of two workers of which the second is lost: its process, or its node."""
    storage.mkdir()
    source = LostSource(rows, target="y", buffer_rows=200)
    source.storage, source.dies = storage, dies
    done = threading.Event()
    remover = threading.Thread(target=remove_node_of, args=(storage / "lost", cluster, done))
    with contextlib.ExitStack() as stack:
        if not dies:
            remover.start()
            stack.callback(remover.join)
            stack.callback(done.set)
        workers = 2 if dies else (1, 2)
        options = {"storage_path": storage, "checkpoint_every": _CHECKPOINT_STEPS}
        return engine.fit(FLSRegressor(**_SMALL), source, num_workers=workers, **options)


def losses(folder: Path, cluster: Cluster, quick: bool) -> Iterator[Row]:
    rows = write_rows(folder / "rows", 600, 2, group_rows=70, n_files=3)
    alone = FLSRegressor(**_SMALL).fit(ParquetSource(rows, target="y", buffer_rows=200))
    for loss in ("node removed",) if quick else ("worker killed", "node removed"):
        storage = folder / loss.replace(" ", "-")
        model = lossy_fit(rows, storage, cluster, dies=loss == "worker killed")
        yield Row(f"{loss}: losses", float((storage / "lost").exists()), "losses", Target(">=", 1))
        difference = largest_difference(model, alone)
        yield Row(f"{loss}: largest difference of a parameter to one process", difference, "", Target("<=", 1e-9))
        # A run that does not continue from a checkpoint looks through its rows again.
        starts = len((storage / "starts").read_text())
        yield Row(f"{loss}: workers that began at the first step", float(starts), "workers", Target("<=", 2))
        if loss == "worker killed":
            continue
        yield Row(f"{loss}: nodes that are left, with the head", float(sum(n["Alive"] for n in ray.nodes())), "nodes")


def rate(rows: Path, n_rows: int, n_workers: int) -> float:
    """Rows per second of the epochs after the first."""
    settings = {"kind": "it2", "n_rules": 50, "epochs": 4, "batch_size": 32_768, "random_state": 0}
    model = engine.fit(FLSRegressor(**settings), ParquetSource(rows, target="y"), num_workers=n_workers)
    seconds = [row["seconds"] for row in model.history_]
    return n_rows / float(np.diff(seconds).min())


def speed(folder: Path) -> Iterator[Row]:
    n_rows = 1_048_576
    rows = write_rows(folder / "fast", n_rows, 30, group_rows=65_536)
    rates = [[rate(rows, n_rows, n_workers) for n_workers in (1, 2)] for _ in range(2)]
    one, two = np.max(rates, axis=0).tolist()
    yield Row("30 inputs, 50 rules, one worker of 32,768 rows a step", one, "rows/s")
    yield Row("30 inputs, 50 rules, two workers of 16,384 rows a step each", two, "rows/s")
    yield Row("two workers / one", two / one, "x", Target(">=", 1.5))


class Watch(threading.Thread):
    """The largest resident memory of all workers of this cluster together, in MB, without shared objects."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.done = threading.Event()
        self.peak = 0.0

    def run(self) -> None:
        while not self.done.wait(0.2):
            total = 0
            for process in psutil.process_iter(["cmdline"]):
                with contextlib.suppress(psutil.Error):
                    if (process.info["cmdline"] or [""])[0].startswith("ray::"):
                        memory = process.memory_info()
                        total += memory.rss - memory.shared
            self.peak = max(self.peak, total / 2**20)


def predictions(folder: Path, quick: bool) -> Iterator[Row]:
    model = FLSRegressor(n_rules=20, epochs=1, random_state=0)
    small = write_rows(folder / "some", 5_000, 10, group_rows=5_000)
    model.fit(ParquetSource(small, target="y"))
    sizes = (20_000,) if quick else _PREDICTED
    peaks = []
    for n_rows in sizes:
        rows = write_rows(folder / f"new-{n_rows}", n_rows, 10, group_rows=65_536, n_files=max(1, n_rows // 500_000))
        made = folder / f"made-{n_rows}"
        watch = Watch()
        watch.start()
        began = time.perf_counter()
        engine.predict(model, ray.data.read_parquet(str(rows.parent)), keep=(), num_workers=2).write_parquet(str(made))
        seconds = time.perf_counter() - began
        watch.done.set()
        watch.join()
        peaks.append(watch.peak)
        found = parquet.read_table(made)
        yield Row(f"{n_rows:,} rows: predictions", float(found.num_rows), "rows", Target(">=", n_rows))
        yield Row(f"{n_rows:,} rows: rate, start of the workers included", n_rows / seconds, "rows/s")
        yield Row(f"{n_rows:,} rows: largest memory of all workers", watch.peak, "MB")
        expected = np.sort(model.predict(parquet.read_table(rows.parent).drop_columns(["y"])))
        difference = float(np.abs(np.sort(found["y"].to_numpy()) - expected).max())
        yield Row(f"{n_rows:,} rows: largest difference to predictions here", difference, "", Target("<=", 0.0))
    if len(peaks) > 1:
        yield Row("memory of five million rows / one million", peaks[1] / peaks[0], "x", _BOUNDED)


def measure(quick: bool) -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with two_nodes() as cluster:
            ray.data.DataContext.get_current().enable_progress_bars = False
            if not quick:
                yield from speed(folder)
            yield from predictions(folder, quick)
            yield from losses(folder, cluster, quick)


if __name__ == "__main__":
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    sys.exit(answer(__file__, __doc__, TITLE, METHOD, measure))
