"""Sums over the processes of one machine through plain sockets, all connected to the first process.

A step of training ends with the sum of some thousand numbers. gloo takes about half a millisecond for that, and whoever
comes late pays more: when the message of another process is there before the receive is asked for, gloo's thread asks the
kernel for it over and over, and takes the processor from the work that is late. A process that waits in a socket costs
nothing, and is woken within microseconds. ``benchmarks/scale.py --part costs`` measures both.
"""

from __future__ import annotations

import contextlib
import shutil
import socket
import tempfile
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

# Bytes that pass through the first process for one sum. Beyond that the ring of gloo, where all carry alike, is quicker.
_LARGEST = 2**22
# As long as gloo waits.
_TIMEOUT_SECONDS = 1800.0


class Star:
    """Connections of the first process to all others, by rank, or of another process to the first."""

    def __init__(self, rank: int, connections: list[socket.socket]) -> None:
        self._leads = rank == 0
        self._connections = connections
        for connection in connections:
            connection.settimeout(_TIMEOUT_SECONDS)

    def takes(self, tensor: Tensor, size: int) -> bool:
        """Whether the sum of this tensor over ``size`` processes belongs here; all of them say the same."""
        n_bytes = tensor.numel() * tensor.element_size() * (size - 1)
        return tensor.device.type == "cpu" and tensor.is_contiguous() and n_bytes <= _LARGEST

    def total(self, tensor: Tensor) -> Tensor:
        """The sum over all processes in the order of their ranks, in place; every process gets the same bits."""
        content = _bytes_of(tensor)
        try:
            if not self._leads:
                self._connections[0].sendall(content)
                _receive(self._connections[0], content)
                return tensor
            part = torch.empty_like(tensor)
            received = _bytes_of(part)
            for connection in self._connections:
                _receive(connection, received)
                tensor += part
            for connection in self._connections:
                connection.sendall(content)
        except OSError as error:
            raise ConnectionError("Another process of the run has ended.") from error
        return tensor

    def close(self) -> None:
        for connection in self._connections:
            connection.close()


def _bytes_of(tensor: Tensor) -> memoryview:
    """The memory of a contiguous tensor."""
    return tensor.detach().reshape(-1).view(torch.uint8).numpy().data


def _receive(connection: socket.socket, content: memoryview) -> None:
    """Fill ``content``."""
    n_bytes = 0
    while n_bytes < len(content):  # every round receives a byte at least
        got = connection.recv_into(content[n_bytes:])
        if got == 0:
            raise ConnectionError("closed")
        n_bytes += got


def connected(
    rank: int, size: int, same_bytes: Callable[[bytes], bytes], gathered_bytes: Callable[[bytes], list[bytes]]
) -> Star | None:
    """A star of all processes, or None in all of them where one cannot reach the first, as on another machine.

    Parameters
    ----------
    rank, size : int
        Place among the processes, and their number.
    same_bytes, gathered_bytes : callable
        The first process's content for all, and the contents of all, by rank.
    """
    family: Any = getattr(socket, "AF_UNIX", None)
    with contextlib.ExitStack() as stack:
        path, listener, own = "", None, None
        if rank == 0 and family is not None:
            # A folder that only this user may enter; what is in it is needed until all have connected.
            with contextlib.suppress(OSError):
                folder = tempfile.mkdtemp(prefix="deepfls-")
                stack.callback(shutil.rmtree, folder, ignore_errors=True)
                listener = stack.enter_context(socket.socket(family))
                listener.bind(f"{folder}/star")
                listener.listen(size)
                path = f"{folder}/star"
        path = same_bytes(path.encode()).decode()
        if rank > 0 and path and family is not None:
            own = socket.socket(family)
            try:
                own.connect(path)
                own.sendall(rank.to_bytes(4, "little"))
            except OSError:
                own.close()
                own = None
        reached = bool(path) if rank == 0 else own is not None
        if not all(said == b"1" for said in gathered_bytes(b"1" if reached else b"0")):
            if own is not None:
                own.close()
            return None
        if own is not None:
            return Star(rank, [own])
        assert listener is not None
        by_rank: dict[int, socket.socket] = {}
        for _ in range(size - 1):
            connection, _ = listener.accept()
            said = bytearray(4)
            _receive(connection, memoryview(said))
            by_rank[int.from_bytes(said, "little")] = connection
        return Star(rank, [by_rank[other] for other in range(1, size)])
