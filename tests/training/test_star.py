"""Sums through sockets, with threads in the place of processes. Two real processes meet in test_stream_fit.py."""

from __future__ import annotations

import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch

from deepfls.training import star
from deepfls.training.star import Star, connected


class Meeting:
    """What threads tell each other, in the place of gloo."""

    def __init__(self, size: int) -> None:
        self.said: list[bytes] = [b""] * size
        self.barrier = threading.Barrier(size)

    def gathered(self, rank: int, content: bytes) -> list[bytes]:
        self.said[rank] = content
        self.barrier.wait(10)
        found = list(self.said)
        self.barrier.wait(10)
        return found


def joined(size: int, *, astray: int | None = None) -> list[Star | None]:
    """The star as each of ``size`` processes has it; one of them may look for it in the wrong place."""
    meeting = Meeting(size)

    def join(rank: int) -> Star | None:
        def same(content: bytes) -> bytes:
            found = meeting.gathered(rank, content)[0]
            return found + b"-elsewhere" if rank == astray else found

        return connected(rank, size, same, lambda content: meeting.gathered(rank, content))

    with ThreadPoolExecutor(size) as pool:
        return list(pool.map(join, range(size)))


def totals(stars: list[Any], tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    with ThreadPoolExecutor(len(stars)) as pool:
        return list(pool.map(lambda pair: pair[0].total(pair[1]), zip(stars, tensors, strict=True)))


@pytest.fixture
def stars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    found = joined(3)
    yield found
    for one in found:
        assert one is not None
        one.close()


@pytest.mark.parametrize(("dtype", "shape"), [(torch.float32, (1051,)), (torch.float64, (300, 300)), (torch.float32, ())])
def test_every_process_gets_the_sum_in_the_order_of_ranks(stars: list[Star], dtype: torch.dtype, shape: Any) -> None:
    for _ in range(3):
        tensors = [torch.randn(shape, dtype=dtype) for _ in stars]
        wanted = (tensors[0] + tensors[1]) + tensors[2]
        found = totals(stars, tensors)
        assert all(torch.equal(total, wanted) for total in found)
        assert all(total is tensor for total, tensor in zip(found, tensors, strict=True))


def test_nothing_is_left_on_disk(stars: list[Star], tmp_path: Path) -> None:
    assert list(tmp_path.iterdir()) == []


def test_large_and_foreign_tensors_are_left_to_others(stars: list[Star]) -> None:
    assert stars[0].takes(torch.zeros(star._LARGEST // 8), 3)
    assert not stars[0].takes(torch.zeros(star._LARGEST // 8 + 1), 3)
    assert not stars[0].takes(torch.zeros(4, 4).t()[:2], 3)
    assert not stars[0].takes(torch.zeros(4, device="meta"), 3)


@pytest.mark.parametrize("gone", [0, 1])
def test_process_that_has_ended_is_an_error_of_the_others(stars: list[Star], gone: int) -> None:
    stars[gone].close()
    with pytest.raises(ConnectionError, match=r"^Another process of the run has ended\.$"):
        stars[1 - gone].total(torch.zeros(5))


def test_none_has_a_star_where_one_does_not_reach_it() -> None:
    assert joined(3, astray=2) == [None, None, None]


def test_none_has_a_star_without_such_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("socket.AF_UNIX")
    assert joined(2) == [None, None]
