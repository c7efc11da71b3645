"""The protocol card: what was run, on what, with what."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from fishergcn._base.text import duration
from fishergcn.drawing import Html, tag
from fishergcn.report._markup import command
from fishergcn.report._outcome import Outcome

_RULES = {
    "public": "public: the fixed training, validation and test nodes that come with the data",
    "shuffled": "shuffled: the nodes of the public split, reassigned at random with each seed",
    "per-class": "per class: equally many training and validation nodes from every class, drawn with each seed",
}
_TUNING = (
    "The paper chose its hyperparameters by the test accuracy of GCN, on splits other than those of its tables; runs "
    "with these settings inherit that choice."
)


def protocol_card(outcome: Outcome) -> Html:
    """Return everything needed to repeat the study, as a list of terms."""
    plan, records = outcome.plan, outcome.records
    digests = dict(plan.digests) | {record.dataset: record.graph_digest for record in records}
    found: list[tuple[str, list[Html | str]]] = [
        ("Study", [f"{plan.title} (preset {plan.preset})", plan.source]),
        ("Command", [command(outcome.command)] if outcome.command else []),
        ("Data", [_digest(name, digests.get(name, "unknown")) for name in plan.datasets]),
        ("Splits", split_rule(plan.splits)),
        ("Seeds", [f"{number_ranges(plan.seeds)} ({_count(len(plan.seeds), 'initialization')} per split)"]),
        ("Runs", [_run_counts(outcome)]),
        ("Settings", [_settings(outcome)]),
        ("Changed from the preset", [*plan.changed]),
        ("Versions", _distinct(_versions(record.versions) for record in records)),
        ("Device", _distinct(record.device for record in records)),
        ("Time", [f"{duration(sum(record.seconds for record in records))} of training in total"]),
        ("Notes", _notes(plan.notes)),
    ]
    return entries(found)


def entries(found: Iterable[tuple[str, Sequence[Html | str]]]) -> Html:
    """Return terms with what belongs to them, on a card; terms without anything are left out."""
    return tag("div", tag("dl", *(_entry(term, lines) for term, lines in found if lines)), class_="card")


def split_rule(splits: Sequence[str]) -> list[Html | str]:
    """Describe split names by rule: how it is made, and its seeds.

    Examples
    --------
    >>> split_rule(["shuffled:2019", "shuffled:2020"])[1]
    'seeds 2019 to 2020 (2 splits)'
    """
    lines: list[Html | str] = []
    for rule in dict.fromkeys(name.partition(":")[0] for name in splits):
        lines.append(_RULES.get(rule, rule))
        seeds = [name.rpartition(":")[2] for name in splits if name.startswith(f"{rule}:")]
        if seeds:
            shown = number_ranges([int(seed) for seed in seeds]) if all(map(str.isdigit, seeds)) else ", ".join(seeds)
            lines.append(f"seeds {shown} ({_count(len(seeds), 'split')})")
    return lines


def number_ranges(numbers: Iterable[int]) -> str:
    """Write whole numbers as ranges.

    Examples
    --------
    >>> number_ranges([2019, 2020, 2021, 7])
    '7, 2019 to 2021'
    """
    spans: list[list[int]] = []
    for number in sorted(set(numbers)):
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ", ".join(str(first) if first == last else f"{first} to {last}" for first, last in spans)


def _notes(notes: Sequence[str]) -> list[Html | str]:
    told = any("hyperparameters" in note for note in notes)
    return [*notes] if told else [*notes, _TUNING]


def _entry(term: str, lines: Sequence[Html | str]) -> Html:
    if len(lines) == 1:
        return Html(tag("dt", term) + tag("dd", lines[0]))
    return Html(tag("dt", term) + tag("dd", tag("ul", *(tag("li", line) for line in lines))))


def _digest(name: str, digest: str) -> Html:
    return Html(tag("b", name) + " " + tag("code", f"sha256:{digest}", title="SHA-256 of the graph's content"))


def _run_counts(outcome: Outcome) -> str:
    done = sum(map(len, outcome.runs.values()))
    text = f"{done:,} finished of {len(outcome.plan):,} planned"
    return f"{text}, {len(outcome.failed):,} failed" if outcome.failed else text


def _settings(outcome: Outcome) -> Html:
    configs = [cell.config.to_dict() for cell in outcome.plan.cells]
    common = {key: value for key, value in configs[0].items() if all(config[key] == value for config in configs)}
    text = ", ".join(f"{key} {_value(value)}" for key, value in common.items())
    return tag("details", tag("summary", "settings common to all runs"), tag("code", text))


def _value(value: Any) -> str:
    return "×".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


def _versions(versions: dict[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in versions.items())


def _distinct(lines: Iterable[str]) -> list[Html | str]:
    return list(dict.fromkeys(lines))


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
