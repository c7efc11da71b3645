"""The ablation: every variant against its control, from results/ablation."""

from __future__ import annotations

from _study import NAMES, RESULTS, excludes_zero, interval, markdown, study

from fishergcn.drawing import Chart, draw_forest, looks
from fishergcn.studies import Comparison

__all__ = ["ablation", "draw_ablation"]

COMMAND = "fishergcn reproduce ablation --device cuda --out ablation"
ARCHIVE = "fishergcn runs archive ablation --out results/ablation --curves none"
FARTHEST = 0.02  # a picture with differences beyond would show no others


def variants() -> list[Comparison]:
    """Return each perturbed cell, variants and the plain one, against its control."""
    return study("ablation").controls


def ablation() -> str:
    """Accuracy of each cell, its difference from its control, and what the intervals say together."""
    if not (RESULTS / "ablation").is_dir():
        return f"No runs yet: `{COMMAND}`, then `{ARCHIVE}`."
    found = study("ablation")
    against = {(each.dataset, each.cell): each for each in variants()}
    rows = []
    for cell in found.cells:
        compared = against.get((cell.dataset, cell.cell))
        accuracy = "" if cell.accuracy is None else f"{100 * cell.accuracy.mean:.2f}"
        lost = cell.planned - cell.ok
        count = f"{cell.ok}" + f" ({lost} diverged)" * bool(lost)
        judged = ["", "", ""] if compared is None else [
            f"`{compared.reference}`", interval(compared.difference), f"{compared.p_value:.2g}"
        ]  # fmt: skip
        rows.append([NAMES[cell.dataset], f"`{cell.cell}`", count, accuracy, f"{cell.epochs:.0f}", *judged])
    header = ["data", "cell", "runs", "accuracy, %", "epochs", "control", "cell − control, points", "Wilcoxon p"]
    runs, seconds = sum(cell.ok for cell in found.cells), sum(found.seconds.values())
    made = (
        f"{runs:,} runs, {found.cells[0].planned} a cell, trained in {seconds:.0f} seconds on {found.place}. Made by "
        f"`{COMMAND}`."
    )
    beyond = [f"`{each.cell}`" for each in variants() if abs(each.difference.mean) > FARTHEST]
    left_out = f"Left out of the picture, since they are far off: {', '.join(beyond)}. " if beyond else ""
    picture = "![Variants against their controls](_static/ablation.svg)"
    return "\n\n".join([markdown(header, rows), verdict(), picture, left_out + made])


def verdict() -> str:
    """Say which variants differ from their control."""
    every = variants()
    above = [each for each in every if each.difference.low > 0]
    below = [each for each in every if each.difference.high < 0]
    apart = len([each for each in every if excludes_zero(each.difference)])
    sides = [
        f"{side}: {'; '.join(f'`{each.cell}`, {interval(each.difference)}' for each in found) or 'none'}."
        for side, found in (("Better than the control", above), ("Worse", below))
    ]
    return (
        f"Of {len(every)} intervals, {len(every) - apart} include zero; without any effect about "
        f"{0.05 * len(every):.0f} in {len(every)} would be expected to miss it. " + " ".join(sides)
    )


def draw_ablation() -> Chart:
    """Draw the differences as a forest plot, all in one color."""
    rows = [each for each in variants() if abs(each.difference.mean) <= FARTHEST]
    look = looks(["fishergcn"])["fishergcn"]
    return draw_forest("Cora: variants against their controls", rows, {each.cell: look for each in rows}, "ablation")
