"""Write the numbers and pictures of the documentation from the runs in results/.

    python tools/results_tables.py            rewrite the marked blocks of the pages, and the pictures
    python tools/results_tables.py --check    write nothing; fail if a block is out of date

A block begins with a line ``<!-- results NAME -->`` and ends with ``<!-- end -->``. What stands between is made by the
function of that name in ``BLOCKS``, from archives that ``fishergcn runs archive`` wrote.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

import numpy as np
from _blocks import refresh
from _results_ablation import ablation, draw_ablation
from _results_distances import distances, in_links
from _results_epochs import differences, draw_epochs, epochs
from _results_shapes import draw_shapes, shapes
from _study import NAMES, PAIRS, RESULTS, ROOT, TABLES, excludes_zero, interval, markdown, save, study

from fishergcn._base.text import signed_points
from fishergcn.drawing import draw_forest, looks
from fishergcn.report._captions import PERTURBATIONS
from fishergcn.report._outcome import read_outcome
from fishergcn.report._perturbations import draw_perturbations, judge, paragraph
from fishergcn.report._perturbations import verdict as perturbation_verdict
from fishergcn.studies import Comparison, open_runs

PAGES = ("README.md", "docs/reproduction.md")
NODE = 0.001  # one of the 1,000 test nodes
GRAND = (85.4, 75.4, 82.7)  # Feng et al., NeurIPS 2020, on the public splits of Cora, CiteSeer and PubMed


def after_controls(comparison: Comparison) -> bool:
    """Sort what the perturbation is judged by before what the paper compares with."""
    return comparison.role != "control"


def cells_of(name: str) -> str:
    found = study(name)
    rows = []
    for cell in found.cells:
        accuracy, loss, published = cell.accuracy, cell.loss, cell.published
        if accuracy is None or loss is None:
            continue
        theirs = "" if published is None else f"{100 * published.accuracy:.2f}"
        their_loss = "" if published is None else f"{published.loss:.2f}"
        ours = f"{100 * accuracy.mean:.2f} [{100 * accuracy.low:.2f}, {100 * accuracy.high:.2f}]"
        seconds = found.seconds[cell.dataset, cell.cell]
        rows.append([NAMES[cell.dataset], f"`{cell.cell}`", cell.ok, ours, theirs, f"{loss.mean:.3f}", their_loss,
                     f"{cell.epochs:.0f}", f"{seconds:.1f}"])  # fmt: skip
    header = ["data", "method", "runs", "accuracy, % [95 % interval]", "paper", "loss", "paper", "epochs", "seconds"]
    return markdown(header, rows)


def paired_of(name: str) -> str:
    found = study(name)
    unit = found.differences[0].difference.unit
    rows = [
        [NAMES[each.dataset], f"`{each.cell}` − `{each.reference}`", each.role, interval(each.difference),
         f"{each.won} / {each.tied} / {each.lost}", f"{each.p_value:.2g}"]
        for each in sorted(found.differences, key=after_controls)
    ]  # fmt: skip
    rows.sort(key=lambda row: list(NAMES.values()).index(str(row[0])))
    header = ["data", "difference", "against the", "points [95 % interval]", f"{unit} won / tied / lost", "Wilcoxon p"]
    return markdown(header, rows)


def times() -> str:
    rows = []
    for name in TABLES:
        found = study(name)
        runs = sum(cell.ok for cell in found.cells)
        steps = sum(cell.ok * cell.epochs for cell in found.cells)
        seconds = sum(found.seconds.values())
        slowest = max(found.seconds, key=lambda key: found.seconds[key])
        share = f"{NAMES[slowest[0]]} `{slowest[1]}`, {found.seconds[slowest]:.0f} s"
        rows.append([f"`{name}`", f"{runs:,}", f"{steps:,.0f}", f"{seconds:.0f} s", share, found.place])
    return markdown(["preset", "runs", "epochs in all", "training", "of which most", "machine"], rows)


def agreement() -> str:
    """How far our means are from the published ones."""
    lines = []
    for name in TABLES:
        pairs = [(cell, cell.published) for cell in study(name).cells if cell.published and cell.accuracy and cell.loss]
        points = [100 * abs(cell.accuracy.mean - known.accuracy) for cell, known in pairs]  # type: ignore[union-attr]
        losses = [abs(cell.loss.mean - known.loss) for cell, known in pairs]  # type: ignore[union-attr]
        lines.append([f"`{name}`", len(pairs), f"{max(points):.2f}", f"{max(losses):.3f}"])
    return markdown(["preset", "published cells", "largest difference, points", "largest difference in loss"], lines)


def finding() -> str:
    """The gain of the paper beside the gain of the control, and what is left for the perturbation."""
    rows = []
    for name in TABLES:
        found = study(name)
        for dataset, label in NAMES.items():
            for method, control, plain in PAIRS:
                pairs = ((method, plain), (control, plain), (method, control))
                three = [found.gain(dataset, *pair) for pair in pairs]
                rows.append([f"`{name}`", label, f"`{method}`", *three])
    header = ["preset", "data", "method", "method − plain", "control − plain", "**method − control**"]
    return f"{markdown(header, rows)}\n\n{verdict()}"


def verdict() -> str:
    """Say what the intervals say, and no more."""
    every = [(name, each) for name in TABLES for each in study(name).controls]
    outside = [(name, each) for name, each in every if excludes_zero(each.difference)]
    largest = max(abs(each.difference.mean) for _, each in every)
    low, high = min(each.difference.low for _, each in every), max(each.difference.high for _, each in every)
    named = "; ".join(
        f"`{each.cell}` on {NAMES[each.dataset]} in `{name}`, {interval(each.difference)}" for name, each in outside
    )
    return (
        f"Of {len(every)} intervals of the difference from the control, {len(every) - len(outside)} include zero. "
        f"Exceptions: {named or 'none'}. If there were no effect at all, about {0.05 * len(every):.0f} in "
        f"{len(every)} would be expected to miss zero. No mean difference is larger than {100 * largest:.2f} points, "
        f"in either direction, and the intervals lie between {signed_points(low)} and {signed_points(high)}."
    )


def small(p_value: float) -> str:
    return "< 0.0001" if p_value < 0.0001 else f"{p_value:.2g}"


def equivalence() -> str:
    """All comparisons of a table together, and how large a difference they rule out."""
    rows = []
    for name in TABLES:
        found = study(name)
        pooled = found.equivalence
        assert pooled is not None
        gain = found.pooled_gain((control, plain) for _, control, plain in PAIRS)
        each = pooled.difference
        rows.append([f"`{name}`", pooled.comparisons, f"{each.groups} {each.unit}", interval(gain, 3),
                     interval(each, 3), f"{100 * pooled.margin:.3f}", small(pooled.p_value(NODE))])  # fmt: skip
    header = ["preset", "comparisons", "observations", "control − plain", "**method − control**",
              "ruled out at 5 %: ± points", "p of the test for ± 0.1"]  # fmt: skip
    return markdown(header, rows)


def in_short() -> str:
    """The evidence against an effect of the perturbation, in four sentences."""
    pooled = study("table2").equivalence
    assert pooled is not None
    gaps = differences("val_accuracy")
    ours, control, _ = gaps["cora", "fishergcn"].values()
    peak = int(ours.argmax())
    never = max(float(abs(each["method − control"]).max()) for each in gaps.values())
    moved = ", ".join(f"{NAMES[name]} {value:.2f}" for name, value in in_links().items())
    return (
        f"Pooled over Table 2, the perturbation adds {interval(pooled.difference, 3)} points to its control, and two "
        f"one-sided t tests rule out an effect of {100 * pooled.margin:.3f} points or more. So it is at every epoch: "
        f"on Cora FisherGCN leads GCN by up to {100 * ours[peak]:.2f} points of validation accuracy (at epoch "
        f"{peak + 1}), the control leads GCN by {100 * control[peak]:.2f} there, and at no epoch, on no data set, do "
        f"method and control differ by more than {100 * never:.2f}. As trained, the perturbation moves a graph by less "
        f"than the removal of one typical link does (by {moved} times as much). {perturbations_in_short()}"
    )


def headline() -> str:
    """The table of the README: means, the paper's, and both differences."""
    found = study("table2")
    cells = {(cell.dataset, cell.cell): cell for cell in found.cells}
    rows = []
    for method in found.plan.methods:
        row = [f"`{method}`" + (" (control)" if "-x" in method else "")]
        for dataset in NAMES:
            cell = cells[dataset, method]
            assert cell.accuracy is not None
            theirs = "" if cell.published is None else f" ({100 * cell.published.accuracy:.2f})"
            row.append(f"{100 * cell.accuracy.mean:.2f}{theirs}")
        rows.append(row)
    pairs = [("fishergcn", "gcn"), ("gcn-x5", "gcn"), ("fishergcn", "gcn-x5")]
    pairs += [("fishergcn-t", "gcn-t"), ("gcn-t-x5", "gcn-t"), ("fishergcn-t", "gcn-t-x5")]
    for cell, reference in pairs:
        values = [found.gain(dataset, cell, reference) for dataset in NAMES]
        rows.append([f"`{cell}` − `{reference}`", *values])
    return markdown(["test accuracy, % (paper)", *NAMES.values()], rows)


def made_by() -> str:
    """Which runs the headline comes from, and the command."""
    found = study("table2")
    runs = sum(cell.ok for cell in found.cells)
    each = found.cells[0].planned
    return (
        f"{runs:,} runs, {each} a cell ({len(found.plan.splits)} random splits, {len(found.plan.seeds)} "
        f"initializations), trained in {sum(found.seconds.values()):.0f} seconds on {found.place}. "
        "Differences are paired on splits and seeds, in points, with 95 % intervals over splits. Made by "
        "`fishergcn reproduce table2 --device cuda --out table2`."
    )


def consistency() -> str:
    """Consistency on unlabeled nodes: means, and what the term adds to its control."""
    found = study("consistency")
    cells = {(cell.dataset, cell.cell): cell for cell in found.cells}
    rows = []
    for method in ("gcn", "gcn-x5", "gcn-x5-c", "gcn-t-x5", "gcn-t-x5-c", "fishergcn-t-c"):
        means = [cells[dataset, method].accuracy for dataset in NAMES]
        rows.append([f"`{method}`", *(f"{100 * mean.mean:.2f}" for mean in means if mean is not None)])
    for cell, reference in (("gcn-x5-c", "gcn-x5"), ("gcn-t-x5-c", "gcn-t-x5"), ("fishergcn-t-c", "gcn-t-x5-c")):
        rows.append([f"`{cell}` − `{reference}`", *(found.gain(dataset, cell, reference) for dataset in NAMES)])
    runs, seconds = sum(cell.ok for cell in found.cells), sum(found.seconds.values())
    return (
        markdown(["test accuracy, %", *NAMES.values()], rows)
        + f"\n\n{runs:,} runs, {found.cells[0].planned} a cell, trained in {seconds:.0f} seconds on {found.place}. "
        "Made by `fishergcn reproduce consistency --device cuda --out consistency`."
    )


def consistency_settings() -> str:
    """Validation accuracy for each weight and temperature of the consistency term, for the choice of defaults."""
    with open_runs(RESULTS / "consistency-settings") as runs:
        scores: dict[str, dict[str, list[float]]] = {}
        for cell, record in runs.entries():
            scores.setdefault(cell, {}).setdefault(record.dataset, []).append(record.val_accuracy)
        usual = runs.plan.cells[0].config
        first, last, each = runs.plan.splits[0], runs.plan.splits[-1], len(runs.plan)
    rows = []
    for cell, found in scores.items():
        method, _, words = cell.partition(" ")
        chosen = f"λ={usual.consistency:g} τ={usual.temperature:g} (the defaults)" if method.endswith("-c") else "none"
        means = [f"{100 * sum(found[name]) / len(found[name]):.2f}" for name in NAMES]
        rows.append([f"`{method}`", words or chosen, *means])
    return (
        markdown(["method", "consistency", *NAMES.values()], rows)
        + f"\n\nMean validation accuracy in %, {each:,} runs on splits {first} to {last}, which no other study uses. "
        "Made by `fishergcn reproduce consistency-settings --device cuda --out consistency-settings` with these splits."
    )


def consistency_public() -> str:
    """The public splits, beside GRAND's: accuracies of each setting, and of those that validation accuracy chooses."""
    found = study("consistency-public")
    with open_runs(RESULTS / "consistency-public") as runs:
        usual, scores = runs.plan.cells[0].config, dict[tuple[str, str], list[tuple[float, float]]]()
        for cell, record in runs.entries():
            scores.setdefault((cell, record.dataset), []).append((record.test_accuracy, record.val_accuracy))
    means = {key: 100 * np.mean(each, axis=0) for key, each in scores.items()}
    cells = list(dict.fromkeys(cell for cell, _ in means))
    best = {name: max(cells, key=lambda cell, name=name: means[cell, name][1]) for name in NAMES}  # type: ignore[misc]
    rows = []
    for cell in cells:
        method, _, words = cell.partition(" ")
        if method.endswith("-c"):
            words = words or f"λ={usual.consistency:g} τ={usual.temperature:g}"
        rows.append([f"`{method}` {words}".strip(), *("{:.2f} ({:.2f})".format(*means[cell, name]) for name in NAMES)])
    rows.append(["chosen by validation accuracy", *(f"**{means[best[name], name][0]:.2f}**" for name in NAMES)])
    rows.append(["GRAND, published", *(f"{value:.1f}" for value in GRAND)])
    return (
        markdown(["test accuracy (validation accuracy), %", *NAMES.values()], rows)
        + f"\n\n{len(found.plan):,} runs, {found.cells[0].planned} seeds a cell, trained on {found.place}. "
        "Made by `fishergcn reproduce consistency-public --device cuda --out consistency-public`."
    )


def perturbations_in_short() -> str:
    """The verdict of the study of perturbations."""
    with open_runs(RESULTS / "perturbations") as runs:
        judged = judge(read_outcome(runs))
    kinds = len({each.neighborhood for each in judged})
    return f"{kinds} kinds of perturbation were tried. {perturbation_verdict(judged)}"


def perturbations() -> str:
    """Return what the study of perturbations found, in words, with its picture."""
    with open_runs(RESULTS / "perturbations") as runs:
        judged = judge(read_outcome(runs))
        counts = {name: len(list(runs.entries(name))) for name in runs.plan.datasets}
        each_cell = len(runs.plan.splits) * len(runs.plan.seeds)
        planned = {name: each_cell * sum(c.dataset == name for c in runs.plan.cells) for name in counts}
    picture = "![What each neighborhood gains over its control](_static/perturbations.svg)"
    done = ", ".join(f"{NAMES[name]} {count:,} of {planned[name]:,}" for name, count in counts.items())
    made = (
        f"Runs: {done} planned. Made by `fishergcn reproduce perturbations --dataset NAME --device cuda --out NAME` "
        "for each data set, and `fishergcn runs archive`; the means without dropout on Cora were run later, on a CPU."
    )
    caption = PERTURBATIONS.format(score="accuracy")
    return f"{paragraph(judged)}\n\n{picture}\n\n{caption}\n\n{made}"


BLOCKS: dict[str, Callable[[], str]] = {
    "ablation": ablation,
    "distances": distances,
    "epochs": epochs,
    "equivalence": equivalence,
    "shapes": shapes,
    "perturbations": perturbations,
    "consistency": consistency,
    "consistency-settings": consistency_settings,
    "consistency-public": consistency_public,
    "headline": headline,
    "in-short": in_short,
    "made-by": made_by,
    "verdict": verdict,
    "finding": finding,
    "agreement": agreement,
    "times": times,
    **{f"{name}-cells": (lambda name=name: cells_of(name)) for name in TABLES},  # type: ignore[misc]
    **{f"{name}-paired": (lambda name=name: paired_of(name)) for name in TABLES},  # type: ignore[misc]
}


def draw() -> None:
    """Write the pictures of the pages."""
    found = study("table2")
    chosen = looks(cell.name for cell in found.plan.cells)
    for dataset, label in NAMES.items():
        rows = sorted((each for each in found.differences if each.dataset == dataset), key=after_controls)
        save(draw_forest(label, rows, chosen, f"forest-{dataset}"))
    save(draw_epochs())
    save(draw_shapes())
    if (RESULTS / "ablation").is_dir():
        save(draw_ablation())
    if (RESULTS / "perturbations").is_dir():
        with open_runs(RESULTS / "perturbations") as runs:
            drawn = draw_perturbations(judge(read_outcome(runs)))
        if drawn is not None:
            save(drawn)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a block is out of date")
    options = parser.parse_args()
    if not options.check:
        draw()
    return refresh([ROOT / page for page in PAGES], "results", BLOCKS, check=options.check)


if __name__ == "__main__":
    sys.exit(main())
