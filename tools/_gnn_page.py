"""The page that is made from the runs of tools/gnn_table.py."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from _blocks import fill
from _gnn_networks import MODES, SETTINGS

from fishergcn._base.text import markdown_table
from fishergcn._base.text import signed_points as points
from fishergcn.errors import InputError
from fishergcn.studies import Comparison, Estimate, Runs, compare, open_runs, summarize

DATASETS = {"cora": "Cora", "citeseer": "CiteSeer", "pubmed": "PubMed"}


markdown = partial(markdown_table, escape=False)


def interval(difference: Estimate) -> str:
    return f"{points(difference.mean)} [{points(difference.low)}, {points(difference.high)}]"


def settings_block() -> str:
    rows = []
    for setting in SETTINGS.values():
        one, other = (f"{decay:g}" for decay in setting.decay)
        decay = one if one == other else f"{one} ({setting.groups[0]}), {other} ({setting.groups[1]})"
        rate, dropout = f"{setting.learning_rate:g}", f"{setting.dropout:g}"
        rows.append([setting.title, setting.layers, dropout, rate, decay, setting.source])
    return markdown(["network", "layers", "dropout", "learning rate", "weight decay", "after"], rows)


def table_block(folder: Path) -> str:
    """Return the table, how it was made and what its intervals say."""
    if not folder.exists():
        return "*No runs yet: the first command above makes them, the last writes the table.*"
    with open_runs(folder) as runs:
        if runs.plan.measure != "networks":
            raise InputError(f"{folder} must hold a study of networks, got one of measure {runs.plan.measure!r}.")
        lines, effects = rows(runs)
        made = made_by(runs)
    header = ["data", "network", "plain", "x5", "adversary", "x5 − plain", "**adversary − x5**", "won / tied / lost"]
    return f"{markdown(header, lines)}\n\n{made}\n\n{verdict([each.difference for each in effects])}"


def rows(runs: Runs) -> tuple[list[list[str]], list[Comparison]]:
    """Return a row for each data set and network, and what the adversary changes there."""
    cells = {(each.dataset, each.cell): each for each in summarize(runs)}
    differences = {(each.dataset, each.cell, each.role): each for each in compare(runs)}
    lines, effects = [], []
    for dataset, network in [(dataset, network) for dataset in DATASETS for network in SETTINGS]:
        gain = differences.get((dataset, f"{network} x5", "baseline"))
        effect = differences.get((dataset, f"{network} adversary", "control"))
        if gain is None or effect is None:
            continue
        effects.append(effect)
        found = [cells[dataset, f"{network} {mode}"].accuracy for mode in MODES]
        means = [f"{100 * each.mean:.2f} ± {100 * each.std:.2f}" for each in found if each is not None]
        names, counts = [DATASETS[dataset], SETTINGS[network].title], f"{effect.won} / {effect.tied} / {effect.lost}"
        lines.append([*names, *means, interval(gain.difference), interval(effect.difference), counts])
    if not lines:
        raise InputError("there must be runs of all three modes on one split and seed.")
    return lines, effects


def made_by(runs: Runs) -> str:
    records = list(runs.records())
    splits, seeds = len({record.split for record in records}), len({record.seed for record in records})
    diverged = sum(record.status == "diverged" for record in records)
    names = sorted({(each.device, each.versions["torch"], each.versions["torch_geometric"]) for each in records})
    places = "; ".join(f"{device}, torch {one}, torch_geometric {other}" for device, one, other in names)
    seconds = sum(record.seconds for record in records)
    return (
        "Test accuracy in %, mean ± standard deviation over the runs; differences in points, paired on split and seed, "
        "with 95 % intervals by Student's t over splits; won, tied and lost count splits of adversary − x5. "
        f"{len(records)} runs ({splits} splits, {seeds} {'seed' if seeds == 1 else 'seeds'}, "
        f"{records[0].epochs} epochs), {diverged} of them diverged; "
        f"{seconds:.0f} seconds summed over the processes that shared the device ({places})."
    )


def verdict(effects: list[Estimate]) -> str:
    """Say what the intervals say, and no more."""
    above, below = sum(each.low > 0 for each in effects), sum(each.high < 0 for each in effects)
    mean = points(sum(each.mean for each in effects) / len(effects))
    return (
        f"Adversary − x5, intervals above zero: {above} of {len(effects)}; below zero: {below}. If the perturbation "
        f"did nothing, 95 % intervals would leave out zero about {0.05 * len(effects):.1f} times in {len(effects)}. "
        f"The mean of all differences is {mean} points."
    )


def filled(text: str, runs: Path) -> str:
    """Make the blocks of a page anew."""
    return fill(text, "gnn", {"settings": settings_block, "table": lambda: table_block(runs)})
