"""The protocol card: what was run, on what, with what."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fishergcn._base.text import duration
from fishergcn.drawing import Html, tag
from fishergcn.report._outcome import Outcome
from fishergcn.report._page import command, entries, in_words, named_digest

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
    done, failed = sum(map(len, outcome.runs.values())), len(outcome.failed)
    digests = dict(plan.digests) | {record.dataset: record.graph_digest for record in records}
    found: list[tuple[str, list[Html | str]]] = [
        ("Study", [f"{plan.title} (preset {plan.preset})", plan.source]),
        ("Command", [command(outcome.command)] if outcome.command else []),
        ("Data", [named_digest(name, digests.get(name, "unknown")) for name in plan.datasets]),
        ("Splits", split_rule(plan.splits)),
        ("Seeds", [f"{number_ranges(plan.seeds)} ({_count(len(plan.seeds), 'initialization')} per split)"]),
        ("Runs", [f"{done:,} finished of {len(plan):,} planned" + (f", {failed:,} failed" if failed else "")]),
        ("Settings", [_settings(outcome)]),
        ("Changed from the preset", [*plan.changed]),
        ("Versions", list(dict.fromkeys(in_words(record.versions) for record in records))),
        ("Device", list(dict.fromkeys(record.device for record in records))),
        ("Time", [f"{duration(sum(record.seconds for record in records))} of training in total"]),
        ("Notes", [*plan.notes] if any("hyperparameters" in note for note in plan.notes) else [*plan.notes, _TUNING]),
    ]
    return entries(found)


def split_rule(splits: Sequence[str]) -> list[Html | str]:
    """Describe split names by rule: how it is made, and its seeds."""
    lines: list[Html | str] = []
    for rule in dict.fromkeys(name.partition(":")[0] for name in splits):
        lines.append(_RULES.get(rule, rule))
        seeds = [name.rpartition(":")[2] for name in splits if name.startswith(f"{rule}:")]
        if seeds:
            shown = number_ranges([int(seed) for seed in seeds]) if all(map(str.isdigit, seeds)) else ", ".join(seeds)
            lines.append(f"seeds {shown} ({_count(len(seeds), 'split')})")
    return lines


def number_ranges(numbers: Iterable[int]) -> str:
    """Write whole numbers as ranges."""
    spans: list[list[int]] = []
    for number in sorted(set(numbers)):
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ", ".join(str(first) if first == last else f"{first} to {last}" for first, last in spans)


def _settings(outcome: Outcome) -> Html:
    configs = [cell.config.to_dict() for cell in outcome.plan.cells]
    common = {key: value for key, value in configs[0].items() if all(config[key] == value for config in configs)}
    texts = {
        key: "×".join(map(str, value)) if isinstance(value, list | tuple) else value for key, value in common.items()
    }
    return tag("details", tag("summary", "settings common to all runs"), tag("code", in_words(texts)))


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
