"""The page of a search for settings: the trials of ``fishergcn tune``."""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from fishergcn import datasets
from fishergcn._settings.seeds import FIRST_SEED
from fishergcn.drawing import Chart, Html, Layer, Panel, spread, tag
from fishergcn.execution import chosen_config
from fishergcn.report._page import Figure, Section, command, entries, in_short, number, slug, table, write_page
from fishergcn.studies import Tuning, load_tuning
from fishergcn.training import Score

_PROGRESS = (
    "Each dot is a trial: the mean validation {score} ({direction}) of one choice of settings over all splits and "
    "seeds. The line is the best so far. Test nodes are never used in a search. Drag over the chart, or use the "
    "buttons, to zoom."
)
_SETTINGS = (
    "Validation {score} of all trials against each setting, the best in orange. Dots that {rise} toward one side show "
    "where good values are; a flat cloud means that the setting matters little."
)
_MOST_TRIALS = 1000


def report_tuning(folder: Path, places: Sequence[Path]) -> Path:
    """Write the page of one search or of several in folders of one folder."""
    found = {"" if place == folder else place.relative_to(folder).as_posix(): load_tuning(place) for place in places}
    charts = [_progress(tuning, slug(name) if name else "headline") for name, tuning in found.items()]
    first = next(iter(found.values()))
    scores = {each.measure.name: each.measure for each in found.values()}
    named, directions = (
        " or ".join(dict.fromkeys(words))
        for words in zip(*((s.title, s.direction) for s in scores.values()), strict=True)
    )
    caption = _PROGRESS.format(score=named, direction=directions)
    top = in_short(map(_verdict, found.values()), Figure("Trials", caption, charts))
    title = f"Search for settings: {first.method} on {first.dataset or 'a graph'}"
    lead = f"{sum(len(each.trials) for each in found.values()):,} trials by fishergcn tune."
    sections = [top, *(_trials(tuning, name) for name, tuning in found.items())]
    return write_page(folder, title if len(found) == 1 else "Searches for settings", lead, sections)


def _verdict(tuning: Tuning) -> str:
    best, score, known = (
        tuning.best,
        tuning.measure,
        [each for each in map(tuning.value, tuning.trials) if each == each],
    )
    rest = sorted(known, key=score.gain)
    text = (
        f"The best of {len(tuning.trials)} trials of {tuning.method} on {tuning.dataset or 'the graph'} has a "
        f"validation {score.title} of {score.text(tuning.value(best), 1)}"
    )
    if len(rest) > 1:
        worst = "lowest" if score.better == "high" else "highest"
        text += f" (median {score.text(rest[len(rest) // 2], 1)}, {worst} {score.text(rest[0], 1)})"
    return f"{text}, with {', '.join(f'{_in_words(name)} {_value(value)}' for name, value in best.settings.items())}."


def _progress(tuning: Tuning, name: str) -> Chart:
    score, values = tuning.measure, [tuning.value(trial) for trial in tuning.trials]
    places = list(range(1, len(values) + 1))
    best = list(itertools.accumulate(values, partial(_better, score)))
    text = [
        f"trial {place}: {score.text(tuning.value(trial))}\n"
        + "\n".join(f"{_in_words(key)} {_value(value)}" for key, value in trial.settings.items())
        for place, trial in zip(places, tuning.trials, strict=True)
    ]
    bests = [f"best of {place} trials: {score.text(value)}" for place, value in zip(places, best, strict=True)]
    layers = [
        Layer("line", x=places, y=best, color="accent", step=True, text=bests),
        Layer("dot", x=places, y=values, color="main", size=3.5, text=text),
    ]
    title = f"{tuning.method} on {tuning.dataset}" if name != "headline" else ""
    panel = Panel(title, "trial", f"validation {score.title}", layers, percent="y" * score.percent, height=300)
    return Chart(name, f"Validation {score.title} of the trials of {tuning.method}", [panel], zoom=True)


def _better(score: Score, one: float, other: float) -> float:
    return other if one != one or score.gain(other) > score.gain(one) else one


def _trials(tuning: Tuning, name: str) -> Section:
    """The best settings with a command, the score over each setting, and all trials."""
    score = tuning.measure
    prefix = f"{slug(name)}-" if name else ""
    settings = list(tuning.best.settings)
    panels = [_setting(tuning, each) for each in settings]
    chart = Chart(f"{prefix}settings", f"Validation {score.title} over each setting, {tuning.method}", panels)
    caption = _SETTINGS.format(score=score.title, rise="rise" if score.better == "high" else "fall")
    heads = ("trial", f"#validation {score.head}", "#loss", *(f"#{_in_words(each)}" for each in settings))
    shown = list(enumerate(tuning.trials, start=1))[:_MOST_TRIALS]
    rows = [
        [
            tag("th", f"{place} (best)" if trial is tuning.best else str(place), scope="row", data_value=place),
            number(score.number(tuning.value(trial), missing="–"), tuning.value(trial), "main"),
            number("–" if trial.val_loss is None else f"{trial.val_loss:.4f}", trial.val_loss),
            *(_cell(trial.settings.get(each)) for each in settings),
        ]
        for place, trial in shown
    ]
    splits = list(dict.fromkeys(split for split, _ in tuning.runs))
    seeds = sorted({seed for _, seed in tuning.runs})
    facts: list[tuple[str, list[Html | str]]] = [
        ("Method", [tuning.method]),
        ("Graph", [tuning.dataset or "without a name"]),
        ("Splits", [", ".join(splits)]),
        ("Seeds", [", ".join(map(str, seeds))]),
    ]
    body: list[Html | Figure] = [
        tag("p", "Train with the best settings; only then are test nodes looked at:"),
        command(_command(tuning)),
        Figure("Settings", caption, [chart]),
        tag("h3", "All trials" if len(shown) == len(tuning.trials) else f"The first {_MOST_TRIALS} trials"),
        table("Trials", heads, rows),
        tag("h3", "What was searched"),
        entries(facts),
    ]
    title = f"Trials: {name}" if name else "Trials and settings"
    return Section(f"{prefix}trials", title, body)


def _setting(tuning: Tuning, name: str) -> Panel:
    score = tuning.measure
    pairs = [(trial.settings.get(name), trial) for trial in tuning.trials if name in trial.settings]
    numeric = all(_numeric(value) for value, _ in pairs)
    words = list(dict.fromkeys(_value(value) for value, _ in pairs))
    places = [float(value) if numeric else words.index(_value(value)) + 1 for value, _ in pairs]  # type: ignore[arg-type]
    text = [
        f"{_in_words(name)} {_value(value)}\nvalidation {score.text(tuning.value(trial))}" for value, trial in pairs
    ]
    offsets = [0.0] * len(places) if numeric else spread(len(places))
    layers = []
    for best, color, size in ((False, "main", 3.5), (True, "accent", 6.0)):
        here = [place for place, (_, trial) in enumerate(pairs) if (trial is tuning.best) == best]
        x, y = [places[each] + offsets[each] for each in here], [tuning.value(pairs[each][1]) for each in here]
        layers.append(Layer("dot", x=x, y=y, text=[text[each] for each in here], color=color, size=size))
    log = "x" if numeric and min(places) > 0 and max(places) > 8 * min(places) else ""
    kinds = sorted(set(places))
    ticks, domain = (kinds if len(kinds) <= 5 else [], None) if numeric else (kinds, (0.4, len(words) + 0.6))
    return Panel(_in_words(name), _in_words(name), f"validation {score.title}", layers, percent="y" * score.percent,
                 log=log, x_domain=domain, x_ticks=ticks, x_labels=[] if numeric else words, height=230)  # fmt: skip


def _cell(value: Any) -> Html:
    return number("–" if value is None else _value(value), float(value) if _numeric(value) else None)


def _numeric(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _command(tuning: Tuning) -> str:
    """Return the command that trains with the best settings; of one's own files the names are not known."""
    flags = {"learning_rate": "--lr", "dropout": "--dropout", "weight_decay": "--weight-decay", "hidden": "--hidden",
             "scaling": "--scaling", "radius": "--radius"}  # fmt: skip
    data = ["--dataset", tuning.dataset] if tuning.dataset in datasets.available() else ["--graph", "YOUR-GRAPH"]
    words = ["fishergcn", "train", *data, "--method", tuning.method]
    for split in dict.fromkeys(split for split, _ in tuning.runs):
        words += ["--splits", split]
    seeds = sorted({seed for _, seed in tuning.runs})
    if len(seeds) > 1:
        words += ["--seeds", str(len(seeds))]
    if seeds and seeds[0] != FIRST_SEED:
        words += ["--first-seed", str(seeds[0])]
    usual = chosen_config(None, None).to_dict()
    others = {name: value for name, value in tuning.config.to_dict().items()
              if name not in tuning.best.settings and value != usual[name]}  # fmt: skip
    for name, value in {**tuning.best.settings, **others}.items():
        if name == "bias":
            words.append("--bias" if value else "--no-bias")
        elif name in flags:
            words += [flags[name], _exact(value)]
        else:
            words += ["--set", f"{name}={_exact(value)}"]
    return shlex.join([*words, "--out", "model"])


def _exact(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _in_words(name: str) -> str:
    return {"hidden": "hidden units"}.get(name, name.replace("_", " "))
