"""``fishergcn doctor``: what this installation can do, and what is missing."""

from __future__ import annotations

from typing import Any

import typer

from fishergcn._base.terminal import console
from fishergcn.cli import _options as shared
from fishergcn.cli._common import print_json


def doctor(json: shared.Json = False) -> None:
    """Check this installation: versions, devices, kernels, write access, optional extras.

    The exit status is 1 if something needs attention. A missing extra does not count.
    """
    from fishergcn.execution import diagnose

    found = diagnose()
    if json:
        print_json(found)
    else:
        for line in _lines(found):
            console().print(line, soft_wrap=True)
    if found["problems"]:
        raise typer.Exit(1)


def _lines(found: dict[str, Any]) -> list[str]:
    machine, memory = found["machine"], found["machine"]["free_memory_bytes"]
    free = "" if memory is None else f", {memory / 1e9:.1f} GB of memory free"
    lines = ["Versions", *(f"  {name:10} {version}" for name, version in found["versions"].items())]
    lines += ["", "Machine", f"  {machine['system']}", f"  {machine['cores']} cores{free}"]
    lines += ["", "Devices"]
    for each in found["devices"]:
        kernels = "plain torch" if each["kernels"] == "reference" else f"{each['kernels']} kernels"
        usual = " (the default)" if each["auto"] else ""
        lines.append(f"  {each['device']:10} {each['processor']}, {kernels}, {each['step']} steps{usual}")
    lines += ["", "Write access"]
    lines += [f"  {each['reason'] or 'ok':10} {each['folder']} ({each['use']})" for each in found["write_access"]]
    lines += ["", "Extras"]
    for each in found["extras"]:
        missing = [name for name, version in each["packages"].items() if version is None]
        lines.append(f"  {each['extra']:10} {'missing' if missing else 'installed'}: {each['adds']}")
        if missing:
            lines.append(f"             pip install 'fishergcn[{each['extra']}]'")
    if not found["problems"]:
        return [*lines, "", "No problems found."]
    return [*lines, "", "Needs attention", *(f"  {each}" for each in found["problems"])]
