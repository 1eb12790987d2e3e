"""Many processes that train one system: who they are, and how they exchange numbers.

Only this file names torch.distributed. ``torchrun`` starts the processes and tells each its place by environment variables;
:func:`process_group` joins them for as long as it is open. Tensors on the CPU travel by gloo, tensors on CUDA devices by
nccl. A single process exchanges nothing.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

import torch
from torch import Tensor

if hasattr(os, "register_at_fork"):
    # Torch would wait for the OpenMP threads of the parent, which a forked process does not have.
    os.register_at_fork(after_in_child=lambda: torch.set_num_threads(1))


class Group:
    """The processes of a run, and the place of this one among them; by default it is the only one.

    Examples
    --------
    >>> alone = Group()
    >>> alone.leads, alone.gathered_bytes(b"x")
    (True, [b'x'])
    """

    def __init__(self, rank: int = 0, size: int = 1) -> None:
        self.rank = rank
        self.size = size

    @property
    def leads(self) -> bool:
        """True for the process that prints and writes files."""
        return self.rank == 0

    def total(self, tensor: Tensor) -> Tensor:
        """The sum over all processes, in place; every process gets the same bits."""
        if self.size > 1:
            torch.distributed.all_reduce(tensor)
        return tensor

    def same(self, tensor: Tensor) -> Tensor:
        """The leader's values, in place."""
        if self.size > 1:
            torch.distributed.broadcast(tensor, src=0)
        return tensor

    def gathered_bytes(self, content: bytes) -> list[bytes]:
        """The contents of all processes, by rank."""
        if self.size == 1:
            return [content]
        sizes = [torch.zeros(1, dtype=torch.int64) for _ in range(self.size)]
        torch.distributed.all_gather(sizes, torch.tensor([len(content)]))
        longest = max(1, *(int(size) for size in sizes))
        mine = torch.zeros(longest, dtype=torch.uint8)
        mine[: len(content)] = _as_tensor(content)
        parts = [torch.zeros(longest, dtype=torch.uint8) for _ in range(self.size)]
        torch.distributed.all_gather(parts, mine)
        return [part[: int(size)].numpy().tobytes() for part, size in zip(parts, sizes, strict=True)]

    def same_bytes(self, content: bytes) -> bytes:
        """The leader's content; what the others give does not matter."""
        if self.size == 1:
            return content
        size = self.same(torch.tensor([len(content)]))
        tensor = torch.zeros(int(size), dtype=torch.uint8)
        if self.leads:
            tensor[:] = _as_tensor(content)
        return self.same(tensor).numpy().tobytes()

    def barrier(self) -> None:
        """Wait until every process is here."""
        if self.size > 1:
            torch.distributed.barrier()

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """An error of one process is raised in all of them, so that no process waits for another; the leader reports it.

        The error then has the attribute ``reported_by_leader``: True in the other processes.
        """
        if self.size == 1:
            yield
            return
        error: Exception | None = None
        try:
            yield
        except Exception as caught:  # noqa: BLE001  # raised again below, after the others know
            error = caught
        messages = self.gathered_bytes(b"" if error is None else (str(error) or type(error).__name__).encode())
        first = next((message.decode() for message in messages if message), None)
        if first is None:
            return
        error = error or ValueError(first)
        error.reported_by_leader = not self.leads  # type: ignore[attr-defined]  # read by the command line
        raise error


def _as_tensor(content: bytes) -> Tensor:
    return torch.frombuffer(bytearray(content), dtype=torch.uint8) if content else torch.zeros(0, dtype=torch.uint8)


def started_processes() -> int:
    """How many processes torchrun started, 1 without it."""
    return int(os.environ.get("WORLD_SIZE") or 1)


def own_device(device: torch.device) -> torch.device:
    """The CUDA device of this process where a machine has several; any other device as it is."""
    local = os.environ.get("LOCAL_RANK")
    if device.type == "cuda" and device.index in (None, 0) and local is not None and started_processes() > 1:
        return torch.device("cuda", int(local) % torch.cuda.device_count())
    return device


@contextlib.contextmanager
def process_group() -> Iterator[Group]:
    """Join the processes that torchrun started; the group that the caller has joined already is used as it is.

    All processes meet at a barrier before the group is taken down: without it one that is done closes connections that
    another still reads from. After an error no process waits.
    """
    distributed = torch.distributed
    if distributed.is_available() and distributed.is_initialized():
        yield Group(distributed.get_rank(), distributed.get_world_size())
        return
    if started_processes() == 1:
        yield Group()
        return
    # The default arguments of this module hold the process group that is open when it is imported. Torch's optimisers
    # import it later, through torch._dynamo; the group and its threads would then exist until the interpreter ends, where a
    # thread that releases a tensor aborts the process. If it is imported before the group is opened, it holds none.
    from torch.distributed.nn import functional  # noqa: F401

    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    if os.environ.get("LOCAL_WORLD_SIZE") == os.environ["WORLD_SIZE"]:
        # torchrun keeps one store through restarts, with the addresses of processes that have ended: each attempt needs its
        # own keys. On several machines the counts of restarts may differ, so there only the store separates the attempts.
        store, rank, size = next(distributed.rendezvous("env://"))  # type: ignore[attr-defined]  # torch does not list it
        attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        store = distributed.PrefixStore(f"deepfls-attempt-{attempt}", store)  # type: ignore[attr-defined]  # nor this
        distributed.init_process_group(backend, store=store, rank=rank, world_size=size)
    else:
        distributed.init_process_group(backend)
    try:
        group = Group(distributed.get_rank(), distributed.get_world_size())
        yield group
        group.barrier()
    finally:
        distributed.destroy_process_group()
