"""Which executor is chosen for a device, a number of workers, or a cluster."""

from __future__ import annotations

import contextlib

import pytest
import torch

from fishergcn.errors import InputError
from fishergcn.execution import LocalExecutor, ProcessExecutor, choose_executor


@pytest.mark.parametrize(
    ("given", "kind", "workers"),
    [
        ({"workers": 1}, LocalExecutor, None),
        ({"workers": 4}, ProcessExecutor, 4),
        ({"workers": 4, "most": 3}, ProcessExecutor, 3),
        ({"workers": 4, "most": 1}, LocalExecutor, None),
        ({"workers": None}, ProcessExecutor, 8),
    ],
)
def test_on_the_cpu(monkeypatch, given, kind, workers):
    monkeypatch.setattr("fishergcn.execution._choice.count_cores", lambda: 8)
    with contextlib.closing(choose_executor("cpu", **given)) as executor:
        assert type(executor) is kind
        assert getattr(executor, "workers", None) == workers
        assert not executor.gpu
        if kind is ProcessExecutor:
            assert executor.chunk_size(None) == 1


def test_on_a_gpu_this_process_works_alone(monkeypatch):
    monkeypatch.setattr("fishergcn.execution._choice.find_device", lambda _: torch.device("cuda"))
    executor = choose_executor("auto", workers=4, keep_going=True)
    assert type(executor) is LocalExecutor
    assert executor.gpu
    assert executor.keep_going


def test_refusals():
    with pytest.raises(InputError, match="workers must be at least 1"):
        choose_executor("cpu", workers=0)
    with pytest.raises(InputError, match="workers applies to this machine"):
        choose_executor("cpu", workers=2, cluster="auto")
    with pytest.raises(InputError, match="device must be 'cpu', 'cuda'"):
        choose_executor("toaster")


@pytest.mark.parametrize("workers", [1, 3])
def test_processes_beside_this_one_may_use_a_gpu_where_a_study_asks_for_them(monkeypatch, workers):
    monkeypatch.setattr("fishergcn.execution._choice.find_device", lambda _: torch.device("cuda"))
    with contextlib.closing(choose_executor("auto", workers=workers, shared=True)) as executor:
        assert type(executor) is ProcessExecutor
        assert executor.gpu
        assert executor.workers == workers
    assert type(choose_executor("auto", shared=True)) is LocalExecutor
