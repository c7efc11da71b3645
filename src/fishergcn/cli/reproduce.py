"""``fishergcn reproduce``: repeat an experiment of the paper, as far as it is not done yet."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fishergcn._base.terminal import console, note
from fishergcn.cli import _options as shared
from fishergcn.cli._common import (
    exit_on_interrupt,
    load_graph,
    print_json,
    show_cost,
    tell_of_report,
    this_command,
    warnings_as_notes,
)
from fishergcn.cli._settings import SAMPLES, setting
from fishergcn.errors import InputError

if TYPE_CHECKING:
    from fishergcn.studies import Plan, Preset


@dataclass(frozen=True)
class PresetRuns:
    """Which runs of a preset there are, and where they are kept."""

    out: shared.StudyOut
    graphs: shared.Graphs = None
    dataset: shared.Dataset = None
    splits: shared.Splits = None
    method: shared.Methods = None
    attack: list[str] | None = shared.run_option(  # Typer knows no list of literals: the library checks them
        "How to change the graph; may be repeated. By default all of the preset's attacks.",
        "--attack",
        metavar="links-added|\nlinks-removed|\nbures-ball|\nprbcd|\nfeatures|\ntraining-links",
    )
    seeds: int | None = shared.run_option(
        "How many seeds (initializations) to run on each split; by default the preset's."
    )
    epochs: int | None = shared.run_option("Maximum number of epochs; by default the preset's.")
    samples: int | None = setting("samples", SAMPLES)

    def plan(self, preset: str | Preset) -> Plan:
        """Return the plan of these runs."""
        from fishergcn import studies

        names = [*(self.graphs or ()), *(self.dataset or ())]
        with warnings_as_notes():
            return studies.make_plan(
                preset,
                datasets=[load_graph(name) for name in dict.fromkeys(names)] or None,
                methods=self.method,
                attacks=self.attack,
                splits=self.splits,
                seeds=self.seeds,
                epochs=self.epochs,
                samples=self.samples,
            )


@shared.takes_options(without=("graphs", "attack", "samples"))
def reproduce(
    *,
    preset: Annotated[
        str,
        typer.Argument(
            help="table1, table2, table3, three-layers, curves, ablation, consistency, perturbations, quick, "
            "robustness, robustness-quick, or a .toml file.",
            metavar="PRESET",
        ),
    ],
    runs: PresetRuns,
    machine: shared.StudyMachine,
    printed: shared.StudyPrinted,
) -> None:
    """Repeat an experiment from the paper.

    Each run is saved to DIR/runs.sqlite as soon as it finishes. You can stop at any time, even with kill -9; the same
    command continues where it stopped. The plain GCN and each method's control are always included.
    """
    from fishergcn.studies import load_preset

    chosen = load_preset(preset)
    if chosen.kind == "data":
        _data_table(chosen, runs.out, as_json=printed.json)
        return
    run_plan(runs.plan(chosen), runs.out, machine, printed)


def run_plan(plan: Plan, out: Path, machine: shared.StudyMachine, printed: shared.StudyPrinted) -> None:
    """Run what a plan still needs, showing progress, and print the results; or say what all of it would take."""
    from fishergcn import studies
    from fishergcn.cli.runs import print_results, results_of
    from fishergcn.execution import Display, Listener
    from fishergcn.studies import ATTACK_SCORES
    from fishergcn.training import find_score

    score = find_score(printed.score or "accuracy")
    if plan.measure == "attack" and score.name not in ATTACK_SCORES:
        raise InputError(f"score must be one of {', '.join(ATTACK_SCORES)} under attack, got {score.name!r}.")
    if printed.dry_run:
        if machine.cluster is not None:
            raise InputError("--dry-run measures the time on this machine, so it cannot be used with --cluster.")
        if plan.measure != "training":
            note("only the training is counted; what is measured of the trained networks comes on top.")
        with warnings_as_notes():
            cost = plan.cost(machine.device, machine.workers)
        show_cost(cost, as_json=printed.json)
        return
    command = this_command()
    with (
        exit_on_interrupt(f"finished runs are kept; continue with: {command}"),
        warnings_as_notes(),
        Listener() if printed.quiet else Display() as listener,
    ):
        runs = studies.run(plan, out, listener=listener, command=command, **vars(machine))
    with runs:
        if printed.json:
            print_json(results_of(runs, score))
        else:
            print_results(runs, score)
        failed = [(cell, record) for cell, record in runs.entries() if record.status.startswith("failed")]
    for cell, record in failed[:5]:
        note(f"{cell} on {record.dataset}, split {record.split}, seed {record.seed}: {record.status}")
    if failed:
        note(f"{len(failed)} runs failed; run the same command to try them again.")
    if not printed.json:
        tell_of_report(out)
    if failed:
        raise typer.Exit(1)


def _data_table(preset: Preset, out: Path, *, as_json: bool) -> None:
    """Write and print the statistics of the data sets, computed and published."""
    from fishergcn.studies import write_data_table

    shown = console()
    rows = write_data_table(preset, out)
    if as_json:
        print_json(rows)
        return
    for row in rows:
        verdict = "equal" if row["equal"] else "DIFFERENT"
        values = f"{row['computed']:>14} {row['published']:>14}"
        shown.print(f"{row['dataset']:10} {row['quantity']:28} {values}  {verdict}")
    stem = out / preset.name
    shown.print(f"Columns: computed, published. Written to {stem}.csv and {stem}.md.", soft_wrap=True)
