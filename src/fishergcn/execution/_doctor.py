"""What this installation can do: versions, devices, kernels, write access, optional packages."""

from __future__ import annotations

import importlib.util
import os
import platform
import tempfile
import warnings
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from fishergcn import _kernels
from fishergcn._base.backend import backend_of, usable
from fishergcn._base.memory import free_memory
from fishergcn._base.provenance import device_name, versions
from fishergcn.errors import reason
from fishergcn.execution._devices import count_cores, find_device
from fishergcn.training import TrainConfig, parse_method, plan_step

# Of each extra: what it adds, and its packages, by the name under which each is imported.
EXTRAS: dict[str, tuple[str, dict[str, str]]] = {
    "pyg": (
        "PyTorch Geometric models and data, NetworkX graphs, the PRBCD attack",
        {"torch_geometric": "torch_geometric", "networkx": "networkx"},
    ),
    "sklearn": ("FisherGCNClassifier for scikit-learn", {"sklearn": "scikit-learn"}),
    "report": (
        "report pages and plots, Parquet files, TensorBoard curves",
        {"matplotlib": "matplotlib", "pyarrow": "pyarrow", "tensorboard": "tensorboard"},
    ),
    "cluster": ("runs on a Ray cluster (--cluster)", {"ray": "ray"}),
    "tune": ("fishergcn tune", {"optuna": "optuna"}),
}


def diagnose(folder: str | os.PathLike[str] = ".") -> dict[str, Any]:
    """Return what this installation can do, as plain values.

    Parameters
    ----------
    folder
        Where results would be written.

    Returns
    -------
    dict
        ``versions``; ``machine``: system, cores, free memory; ``devices``: each with its processor, the kernels in
        use on it (``"numba"``, ``"triton"`` or ``"reference"``, plain torch), the step that ``gcn`` takes there with
        the paper's settings (see :func:`fishergcn.backend`) and whether ``--device auto`` takes it;
        ``write_access``: folders, each with the reason if it cannot be written to; ``extras``: what each adds, its
        packages with their versions, None where missing; ``problems``: sentences, none if all is well.

    Examples
    --------
    >>> found = diagnose()
    >>> found["devices"][0]["device"], sorted(found)
    ('cpu', ['devices', 'extras', 'machine', 'problems', 'versions', 'write_access'])
    """
    problems: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        usable.cache_clear()  # it warns once; here it is asked again
        devices = _devices()
    problems += [str(each.message) for each in caught]
    kernels = {each["device"].partition(":")[0]: each["kernels"] for each in devices}
    for device, package in (("cpu", "numba"), ("cuda", "triton")):
        if kernels.get(device) == "reference" and importlib.util.find_spec(package) is None:
            problems.append(f"{package} is not installed, so plain torch is used on {device}, which is slower.")
    places = [_place("results", Path(folder)), _place("temporary files", Path(tempfile.gettempdir()))]
    places.append(_kernel_cache())
    problems += [f"{each['folder']} cannot be written to: {each['reason']}." for each in places if each["reason"]]
    memory = free_memory()
    machine = {"system": platform.platform(), "cores": count_cores(), "free_memory_bytes": memory}
    return {
        "versions": versions(),
        "machine": machine,
        "devices": devices,
        "write_access": places,
        "extras": [_extra(name, adds, packages) for name, (adds, packages) in EXTRAS.items()],
        "problems": problems,
    }


def _devices() -> list[dict[str, Any]]:
    taken = find_device("auto")
    names = ["cpu", *(f"cuda:{index}" for index in range(torch.cuda.device_count()))]
    found = []
    for name in names:
        device = torch.device(name)
        usual = device.type == taken.type and not device.index  # "cuda" is the first GPU
        kernels = backend_of(torch.zeros(1, device=device))
        processor = device_name(device).partition(" (")[2].removesuffix(")")
        step = plan_step(parse_method("gcn"), TrainConfig(), gpu=device.type == "cuda").kind
        found.append({"device": name, "processor": processor, "kernels": kernels, "step": step, "auto": usual})
    return found


def _place(use: str, folder: Path) -> dict[str, str | None]:
    """Say whether a file can be made in a folder, by making one that vanishes."""
    trouble = None
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        trouble = error.strerror or reason(error)
    return {"use": use, "folder": str(folder.resolve()), "reason": trouble}


def _kernel_cache() -> dict[str, str | None]:
    """Say where compiled kernels are kept: where NUMBA_CACHE_DIR says, beside their source, or in the user's cache."""
    source = Path(_kernels.__file__).parent
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    found = _place("compiled kernels", Path(chosen) if chosen else source)
    home = Path.home() / ".cache"
    return _place("compiled kernels", home) if found["reason"] and not chosen and home.is_dir() else found


def _extra(name: str, adds: str, packages: dict[str, str]) -> dict[str, Any]:
    found = {
        package: _version(package) if importlib.util.find_spec(module) else None for module, package in packages.items()
    }
    return {"extra": name, "adds": adds, "packages": found, "installed": None not in found.values()}


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "unknown version"
