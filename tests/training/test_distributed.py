"""A process that is alone, and what the others do through it. Two real processes meet in test_fit_streams.py."""

from __future__ import annotations

import pytest
import torch

from deepfls.training.distributed import Group, own_device, process_group


def test_alone_nothing_is_exchanged() -> None:
    group = Group()
    tensor = torch.arange(3.0)
    assert group.total(tensor) is tensor
    assert group.same(tensor) is tensor
    assert group.same_bytes(b"abc") == b"abc"
    assert group.gathered_bytes(b"abc") == [b"abc"]
    group.barrier()


def test_alone_errors_stay_what_they_are() -> None:
    with pytest.raises(KeyError), Group().together():
        raise KeyError("x")


@pytest.mark.parametrize("size", [None, "1"])
def test_without_torchrun_there_is_one_process(monkeypatch: pytest.MonkeyPatch, size: str | None) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    if size is not None:
        monkeypatch.setenv("WORLD_SIZE", size)
    with process_group() as group:
        assert (group.rank, group.size, group.leads) == (0, 1, True)
    assert not torch.distributed.is_initialized()


def test_own_device_leaves_the_cpu_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert own_device(torch.device("cpu")) == torch.device("cpu")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    assert own_device(torch.device("cuda")) == torch.device("cuda", 1)
