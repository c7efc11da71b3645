"""Several processes that train one network: each takes a share of every batch, gradients are added up.

Started by ``torchrun --nproc-per-node 2 --no-python fishergcn train --batch-size ...`` on one machine or several. All
processes hold the same graph and the same weights; a step of theirs equals that of a single process up to rounding.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, distributed

from fishergcn._base.types import AnyArray, FloatArray, IntArray
from fishergcn.errors import FisherGCNError, InputError, reason
from fishergcn.spectrum import Spectrum


class Group:
    """The processes that train together, by default this one alone; this is the one of number ``rank``.

    Tensors are exchanged on ``device``: the CPU with gloo, a GPU with nccl.
    """

    def __init__(self, rank: int = 0, size: int = 1, device: torch.device | None = None) -> None:
        self.rank, self.size = rank, size
        self.device = torch.device("cpu") if device is None else device

    @property
    def first(self) -> bool:
        """Whether this is the process that speaks and writes."""
        return self.rank == 0

    def share(self, nodes: IntArray) -> IntArray:
        """Return the part of a batch that this process takes."""
        return nodes[self.rank :: self.size]

    def add(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Return the sums over all processes, added in float64."""
        if self.size == 1:
            return list(tensors)
        flat = torch.cat([each.detach().double().flatten() for each in tensors]).to(self.device)
        distributed.all_reduce(flat)
        parts = torch.split(flat, [each.numel() for each in tensors])
        return [part.view(each.shape).to(each) for part, each in zip(parts, tensors, strict=True)]

    def add_with_gradient(self, values: Tensor) -> Tensor:
        """Return the sum over all processes; the gradient is added up likewise."""
        if self.size == 1:
            return values
        total: Tensor = _Sum.apply(values)  # type: ignore[no-untyped-call]
        return total

    def holders(self, nodes: IntArray, num_nodes: int) -> FloatArray:
        """Return for each of this process's nodes how many processes hold it."""
        if self.size == 1:
            return np.ones(len(nodes))
        lengths = [torch.zeros(1, dtype=torch.int64, device=self.device) for _ in range(self.size)]
        distributed.all_gather(lengths, torch.tensor([len(nodes)], device=self.device))
        longest = max(int(each) for each in lengths)
        padded = torch.zeros(longest, dtype=torch.int64, device=self.device)
        padded[: len(nodes)] = torch.from_numpy(nodes)
        lists = [torch.empty_like(padded) for _ in range(self.size)]
        distributed.all_gather(lists, padded)
        counts = np.zeros(num_nodes, dtype=np.float64)
        for each, length in zip(lists, lengths, strict=True):
            counts[each[: int(length)].cpu().numpy()] += 1
        return counts[nodes]

    def spectrum_of_first(self, spectrum: Spectrum | None, num_nodes: int, rank: int) -> Spectrum:
        """Hand the spectrum that the first process has to all others."""
        if self.size == 1:
            if spectrum is None:
                raise AssertionError("a process alone computes the spectrum itself")
            return spectrum
        values = self._from_first(None if spectrum is None else spectrum.eigenvalues, (rank,))
        vectors = self._from_first(None if spectrum is None else spectrum.eigenvectors, (num_nodes, rank))
        facts = self._from_first(None if spectrum is None else np.array([spectrum.trace, spectrum.residual]), (2,))
        return Spectrum(values, vectors, float(facts[0]), float(facts[1]), "first process")

    def _from_first(self, array: AnyArray | None, shape: tuple[int, ...]) -> FloatArray:
        sent = torch.zeros(shape, dtype=torch.float64) if array is None else torch.tensor(array, dtype=torch.float64)
        sent = sent.to(self.device)
        distributed.broadcast(sent, src=0)
        return sent.cpu().numpy()

    def agree(self, error: FisherGCNError | None) -> None:
        """Raise in all processes if the first failed, so that none waits for it."""
        if self.size > 1:
            failed = torch.tensor([float(error is not None)], device=self.device)
            distributed.all_reduce(failed)
            if error is None and failed.item() > 0:
                raise InputError("another process stopped with an error; see its message.")
        if error is not None:
            raise error


class _Sum(torch.autograd.Function):
    """The loss is the sum of the processes' losses: each has a share in the gradient of a sum they all see."""

    @staticmethod
    def forward(ctx: Any, values: Tensor) -> Tensor:
        total = values.detach().clone()
        distributed.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        total = grad.contiguous().clone()
        distributed.all_reduce(total)
        return total


def process_count() -> int:
    """Return how many processes ``torchrun`` started, 1 without it."""
    return int(os.environ.get("WORLD_SIZE", "1")) if "RANK" in os.environ else 1


def is_first_process() -> bool:
    """Say whether this is the process that speaks and writes, of those that ``torchrun`` started."""
    return process_count() == 1 or os.environ["RANK"] == "0"


@contextmanager
def _standard_output_to_error() -> Iterator[None]:
    """Send what C++ code prints elsewhere: some versions of Gloo greet on standard output, where results belong."""
    sys.stdout.flush()
    kept = os.dup(1)
    try:
        os.dup2(2, 1)
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


@contextmanager
def process_group(device: torch.device) -> Iterator[tuple[Group, torch.device]]:
    """Join the processes that ``torchrun`` started; yield their group and this process's device.

    Without ``torchrun`` that is this process alone. On CUDA each process of a machine takes a GPU of its own.
    """
    if process_count() == 1:
        yield Group(), device
        return
    if device.type == "cuda":
        local = int(os.environ.get("LOCAL_RANK", "0"))
        if local >= torch.cuda.device_count():
            raise InputError(f"process {local} needs a GPU of its own, but there are {torch.cuda.device_count()}.")
        device = torch.device("cuda", local)
        torch.cuda.set_device(device)
    try:
        with _standard_output_to_error():
            distributed.init_process_group("nccl" if device.type == "cuda" else "gloo")
    except (RuntimeError, ValueError) as error:
        raise InputError(f"the processes of torchrun could not connect ({reason(error)}).") from error
    try:
        yield Group(distributed.get_rank(), distributed.get_world_size(), device), device
        distributed.barrier()  # a process that leaves while another still talks to it brings that one down
    finally:
        distributed.destroy_process_group()
