"""Batches of a stream: every row once an epoch, the same global batches for any number of processes, resumable anywhere."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from deepfls.data.scaling import Scaling
from deepfls.data.sources import ParquetSource
from deepfls.data.tables import TableError
from deepfls.training import loop
from deepfls.training.distributed import Group
from deepfls.training.loop import MemoryBatches
from deepfls.training.steps import Rows
from deepfls.training.stream_batches import Preparation, StreamBatches, plan_epoch
from stream_cases import columns, write

N_ROWS, SIZE = 610, 48


@pytest.fixture
def source(tmp_path: Path) -> ParquetSource:
    data = {"x": np.arange(float(N_ROWS)), "y": -np.arange(float(N_ROWS))}
    return ParquetSource(write(tmp_path, data, group_rows=37), target="y", buffer_rows=150)


def opened(source: ParquetSource, group: Group | None = None, n_epochs: int = 10) -> StreamBatches:
    counts = np.array([g.n_rows for g in source.files.groups])
    identity = Scaling.identity(1)
    prepared = Preparation(identity, identity, None, None, torch.device("cpu"), torch.float64)
    return StreamBatches(source, counts, prepared, SIZE, group or Group(), n_epochs)


def epochs(source: ParquetSource, n_epochs: int = 1, group: Group | None = None) -> list[list[tuple[list[float], int]]]:
    generator = torch.Generator().manual_seed(0)
    with opened(source, group) as batches:
        return [
            [(batch.gathered().x[:, 0].tolist(), batch.n_rows) for batch in batches.epoch(generator, 0)]
            for _ in range(n_epochs)
        ]


def test_every_row_comes_once_per_epoch_in_batches_of_the_size_asked(source: ParquetSource) -> None:
    for epoch in epochs(source, 2):
        assert sorted(row for rows, _ in epoch for row in rows) == list(range(N_ROWS))
        sizes = [len(rows) for rows, _ in epoch]
        assert sizes == [SIZE] * (N_ROWS // SIZE) + [N_ROWS % SIZE]
        assert sizes == [n for _, n in epoch]


def test_epochs_differ_and_rows_of_several_groups_are_mixed(source: ParquetSource) -> None:
    first, second = epochs(source, 2)
    assert first != second
    groups = {int(row) // 37 for row in first[0][0]}
    assert len(groups) >= 3


def test_targets_stay_with_their_inputs(source: ParquetSource) -> None:
    with opened(source) as batches:
        for batch in batches.epoch(torch.Generator().manual_seed(0), 0):
            assert torch.equal(batch.rows.target, -batch.rows.x)


@pytest.mark.parametrize("n_processes", [2, 3])
def test_processes_together_have_the_batches_of_one(source: ParquetSource, n_processes: int) -> None:
    alone = epochs(source, 2)
    shared = [epochs(source, 2, Group(rank, n_processes)) for rank in range(n_processes)]
    for number, epoch in enumerate(alone):
        for place, (rows, n_rows) in enumerate(epoch):
            parts = [processes[number][place] for processes in shared]
            assert sorted(row for part, _ in parts for row in part) == sorted(rows)
            assert {n for _, n in parts} == {n_rows}


@pytest.mark.parametrize("n_processes", [2, 3])
def test_every_row_group_belongs_to_one_process(source: ParquetSource, n_processes: int) -> None:
    firsts = [group.first_row for group in source.files.groups]
    owned = []
    for rank in range(n_processes):
        (epoch,) = epochs(source, 1, Group(rank, n_processes))
        rows = [row for part, _ in epoch for row in part]
        owned.append(set(np.searchsorted(firsts, rows, side="right")))
    assert sum(map(len, owned)) == len(firsts)
    assert len(set.union(*owned)) == len(firsts)


def test_row_groups_of_others_are_not_read(source: ParquetSource, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = counted_reads(monkeypatch)
    monkeypatch.setattr(StreamBatches, "_plan", lambda self, seed: plan_epoch(seed, self._counts, 10**6, 2))
    with opened(source, Group(0, 2)) as batches:
        next(batches.epoch(torch.Generator().manual_seed(0), 0))
        window = plan_epoch(0, batches._counts, 10**6, 2)[0]
    # One window, and perhaps the beginning of the next epoch's.
    assert len(seen) <= 2 * (window.owners(2) == 0).sum()


def counted_reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A list that gets the numbers of the row groups that are read from now on."""
    seen: list[int] = []
    read = ParquetSource.read
    monkeypatch.setattr(ParquetSource, "read", lambda self, k, **o: (seen.append(k), read(self, k, **o))[1])
    return seen


def test_nothing_is_read_for_an_epoch_after_the_last(source: ParquetSource, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = counted_reads(monkeypatch)
    generator = torch.Generator().manual_seed(0)
    with opened(source, n_epochs=2) as batches:
        for _ in range(2):
            list(batches.epoch(generator, 0))
        batches.read_ahead(generator)
    assert sorted(seen) == sorted([*range(source.n_groups)] * 2)


def test_reading_ahead_changes_neither_order_nor_generator(source: ParquetSource, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = epochs(source)
    seen = counted_reads(monkeypatch)
    generator = torch.Generator().manual_seed(0)
    with opened(source, n_epochs=1) as batches:
        batches.read_ahead(generator)
        found = [(b.gathered().x[:, 0].tolist(), b.n_rows) for b in batches.epoch(generator, 0)]
    assert [found] == whole
    assert sorted(seen) == [*range(source.n_groups)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("stored", ["float32", "float64", "int32"])
def test_rows_arrive_scaled_whatever_they_are_stored_as(tmp_path: Path, stored: str, dtype: torch.dtype) -> None:
    random = np.random.default_rng(0)
    data = {name: (1e4 * random.normal(size=400)).astype(stored) for name in ("a", "b", "y")}
    data["w"] = random.uniform(0.5, 1.5, size=400).astype(np.float32 if stored == "float32" else np.float64)
    source = ParquetSource(write(tmp_path, data, group_rows=70), target="y", weight="w")
    x_scaling = Scaling(np.array([3.0, -7e6]), np.array([2e3, 0.5]))
    y_scaling = Scaling(np.array([11.0]), np.array([3.0]))
    prepared = Preparation(x_scaling, y_scaling, None, 0.75, torch.device("cpu"), dtype)
    counts = np.array([g.n_rows for g in source.files.groups])
    with StreamBatches(source, counts, prepared, 400, Group(), 1) as batches:
        (batch,) = batches.epoch(torch.Generator().manual_seed(0), 0)
    assert batch.rows.weight is not None
    got = torch.cat([batch.rows.x, batch.rows.target, batch.rows.weight[:, None]], dim=1).numpy()
    x = x_scaling.apply(np.stack([data["a"], data["b"]], axis=1))
    columns_ = [x, y_scaling.apply(data["y"][:, None]), data["w"].astype(np.float64)[:, None] / 0.75]
    wanted = np.concatenate(columns_, axis=1).astype(got.dtype)
    assert np.array_equal(got[np.lexsort(got.T)], wanted[np.lexsort(wanted.T)])


@pytest.mark.parametrize("step", [0, 1, 3, 7, 12, 13])
def test_epoch_goes_on_from_any_step(source: ParquetSource, step: int) -> None:
    whole = epochs(source, 2)
    generator = torch.Generator().manual_seed(0)
    with opened(source) as batches:
        rest = [(b.gathered().x[:, 0].tolist(), b.n_rows) for b in batches.epoch(generator, step)]
        following = [(b.gathered().x[:, 0].tolist(), b.n_rows) for b in batches.epoch(generator, 0)]
    assert rest == whole[0][step:]
    assert following == whole[1]


def test_error_of_the_reader_reaches_the_loop(source: ParquetSource, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: ParquetSource, number: int, **options: object) -> None:
        raise OSError("disk on fire")

    monkeypatch.setattr(ParquetSource, "read", fail)
    with opened(source) as batches, pytest.raises(OSError, match="disk on fire"):
        next(batches.epoch(torch.Generator().manual_seed(0), 0))


def test_weights_are_scaled_to_mean_one(tmp_path: Path) -> None:
    path = write(tmp_path, columns())
    source = ParquetSource(path, target="y", features=["a"], weight="w")
    identity = Scaling.identity(1)
    prepared = Preparation(identity, identity, None, 2.0, torch.device("cpu"), torch.float64)
    counts = np.array([g.n_rows for g in source.files.groups])
    with StreamBatches(source, counts, prepared, 1000, Group(), 1) as batches:
        (batch,) = batches.epoch(torch.Generator().manual_seed(0), 0)
    assert batch.rows.weight is not None
    assert float(batch.rows.weight.mean()) == pytest.approx(1.0)


@pytest.mark.parametrize("step", [0, 2, 5])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_memory_batches_go_on_from_any_step(step: int, dtype: torch.dtype) -> None:
    values = torch.arange(23.0, dtype=dtype)
    batches = MemoryBatches(Rows.of(values[:, None], -values[:, None], 2.0 * values), 5)

    def epoch(first_step: int) -> list[Tensor]:
        found = []
        several = batches.epoch(torch.Generator().manual_seed(0), first_step)
        for batch in (one for together in several for one in together.steps()):
            rows = batch.gathered()
            x, target, weight = rows.x, rows.target, rows.weight
            assert weight is not None
            assert len(x) == batch.n_rows
            assert torch.equal(target, -x)
            assert torch.equal(weight, 2.0 * x[:, 0])
            found.append(x[:, 0])
        return found

    whole = epoch(0)
    assert [len(x) for x in whole] == [5, 5, 5, 5, 3]
    assert torch.equal(torch.cat(whole).sort().values, values)
    assert all(torch.equal(a, b) for a, b in zip(epoch(step), whole[step:], strict=True))


def test_memory_batches_leave_out_a_smaller_last_one() -> None:
    batches = MemoryBatches(Rows.of(torch.zeros(23, 1), torch.zeros(23, 1)), 5, drop_last=True)
    assert (batches.n_rows, batches.n_steps) == (20, 4)
    (together,) = batches.epoch(torch.Generator(), 0)
    assert (together.n_rows, together.n_steps) == (20, 4)
    assert [b.n_rows for b in together.steps()] == together.sizes == [5, 5, 5, 5]
    (together,) = MemoryBatches(Rows.of(torch.zeros(23, 1), torch.zeros(23, 1)), 5).epoch(torch.Generator(), 3)
    assert [b.n_rows for b in together.steps()] == together.sizes == [5, 3]


def test_many_steps_are_given_out_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "_ROWS_TOGETHER", 12)
    batches = MemoryBatches(Rows.of(torch.zeros(23, 1), torch.zeros(23, 1)), 5)
    assert [(b.first, b.end, b.n_steps) for b in batches.epoch(torch.Generator(), 1)] == [(5, 15, 2), (15, 23, 2)]


def test_rows_are_packed_in_the_dtype_of_the_inputs() -> None:
    table = torch.arange(60.0).reshape(20, 3).requires_grad_()
    rows = Rows.of(table[:, :2].detach(), torch.arange(20)[:, None], torch.ones(20, dtype=torch.float64))
    assert rows.packed.dtype == torch.float32
    assert rows.packed.is_contiguous()
    assert torch.equal(rows.target[:, 0], torch.arange(20.0))
    assert torch.equal(rows.x, table[:, :2].detach())
    assert rows.weight is not None
    assert Rows.of(rows.x, rows.target).weight is None


def test_row_group_that_loses_rows_while_in_use_is_told(source: ParquetSource) -> None:
    with opened(source) as batches:
        batches._counts = batches._counts + 1
        with pytest.raises(
            TableError, match=r"^Row group \d of '.*\.parquet' must keep its \d\d rows while in use, got \d\d\.$"
        ):
            next(batches.epoch(torch.Generator().manual_seed(0), 0))
