"""The tables of certificates: over spectra near a graph's own, over its links, and what certified training does."""

from __future__ import annotations

from typing import Any

from _markdown import Record, markdown

from fishergcn.studies import student

_WORDS = ("certified", "broken", "undecided")
_TRAINED_AT = "0.01"
_CONTROL = "gcn-x5"


def certificates(record: Record) -> str:
    """Of the first split counts at every radius, and over all splits what certified training changes."""
    first = {
        name: {network: _first(splits) for network, splits in found.items() if splits}
        for name, found in record["graphs"].items()
    }
    every = {at for found in first.values() for each in found.values() for at in each["radii"]}
    radii = sorted(every, key=lambda at: float("inf") if at == "farthest" else float(at))
    rows = []
    for name, networks in first.items():
        for network, found in networks.items():
            counts = {at: " / ".join(str(each[word]) for word in _WORDS) for at, each in found["radii"].items()}
            row = [name, _code(network), f"{100 * found['accuracy']:.1f}", *(counts.get(at, "") for at in radii)]
            rows.append(row)
    parts = [markdown(["graph", "network", "accuracy, %", *(_radius(at) for at in radii)], rows)]
    reach = [f"{name} {next(iter(found.values()))['farthest']:.4f}" for name, found in first.items()]
    parts.append(f"The farthest graph of `gcn`: {', '.join(reach)}. {_seconds(first)}")
    parts.append(_trained(record))
    parts += _elsewhere(record)
    return "\n\n".join(parts)


def _elsewhere(record: Record) -> list[str]:
    """Say which splits another processor measured than the one below the table."""
    found: dict[tuple[str, str], set[str]] = {}
    for name, networks in record["graphs"].items():
        for splits in networks.values():
            for split, each in splits.items():
                if (cpu := each.get("cpu", record["machine"]["cpu"])) != record["machine"]["cpu"]:
                    found.setdefault((name, cpu), set()).add(split)
    return [
        f"{name}: {len(splits)} splits ({', '.join(sorted(splits))}) were measured on {cpu}, one core each."
        for (name, cpu), splits in found.items()
    ]


def _first(splits: dict[str, Any]) -> dict[str, Any]:
    """Return what was measured on the first split: at every radius."""
    return max(splits.values(), key=lambda each: len(each["radii"]))


def _seconds(first: dict[str, dict[str, Any]]) -> str:
    """Say how long the certificates of `gcn` took."""
    took = []
    for name, found in first.items():
        radii = found.get("gcn", {"radii": {}})["radii"]
        if {"0.0037", _TRAINED_AT} <= radii.keys():
            took.append(f"{name} {radii['0.0037']['seconds']:.1f} and {radii[_TRAINED_AT]['seconds']:.1f}")
    return f"Seconds for all its nodes at r = 0.0037 and r = {_TRAINED_AT}: {', '.join(took)}." if took else ""


def _trained(record: Record) -> str:
    """Accuracy and certified share with intervals over splits, and their differences from the control."""
    rows = []
    for name, networks in record["graphs"].items():
        for network, splits in networks.items():
            if len(splits) < 2:
                continue
            control = networks.get("one layer" if network.startswith("one layer") else _CONTROL, {})
            cells = [f"{name} ({len(splits)} splits)", _code(network)]
            for of in (_accuracy, _certified, _right):
                values = [of(each) for each in splits.values()]
                cells.append(f"{sum(values) / len(values):.1f}")
                common = [split for split in splits if split in control]
                gaps = [of(splits[split]) - of(control[split]) for split in common]
                cells[-1] += f" ({_interval(gaps, common)})" if len(gaps) > 1 and any(gaps) else ""
            rows.append(cells)
    heads = ["graph", "network", "accuracy, %", "certified, %", "certified and right, %"]
    return markdown(heads, rows)


def _interval(gaps: list[float], splits: list[str]) -> str:
    _, low, high = student(gaps, splits)
    return f"{sum(gaps) / len(gaps):+.1f} [{low:+.1f}, {high:+.1f}]".replace("-", "−")


def _accuracy(found: dict[str, Any]) -> float:
    return 100 * float(found["accuracy"])


def _certified(found: dict[str, Any]) -> float:
    return _share(found, "certified")


def _right(found: dict[str, Any]) -> float:
    return _share(found, "right")


def _share(found: dict[str, Any], word: str) -> float:
    counts = found["radii"][_TRAINED_AT]
    return 100 * float(counts[word] / sum(counts[each] for each in _WORDS))


def _code(network: str) -> str:
    return network if "layer" in network else f"`{network}`"


def _radius(at: str) -> str:
    return at if at == "farthest" else f"r = {at}"


def sampled_certificates(record: Record) -> str:
    """Sampled graphs, and how often a certificate was wrong."""
    rows = []
    for name, methods in record["graphs"].items():
        for method, radii in methods.items():
            total = [sum(each[word] for each in radii) for word in ("graphs", "below", "changed")]
            rows.append([name, f"`{method}`", str(len(radii)), *(f"{each:,}" for each in total)])
    heads = [
        "graph",
        "network",
        "radii",
        "graphs",
        "nodes with a margin below its bound",
        "certified nodes that changed",
    ]
    return markdown(heads, rows)


def link_certificates(record: Record) -> str:
    """Counts over reweighted links, all or a node's own, and over flipped links."""
    percents = (1, 5, 10, 20)
    parts = []
    for title, own in (("All links at once", False), ("Only the links of the node itself", True)):
        rows = [
            [name, f"`{method}`", *(_cell(found["reweighted"], method=method, own=own, percent=at) for at in percents)]
            for name, found in record["graphs"].items()
            for method in ("linear", "gcn")
        ]
        parts += [f"{title}:", markdown(["graph", "network", *(f"±{at}%" for at in percents)], rows)]
    flips = []
    for name, found in record["graphs"].items():
        for row in found["pagerank"]:
            key = {each: row[each] for each in ("flips", "change")}
            change = "remove" if row["change"] == "remove" else "remove or add"
            flips.append([name, row["flips"], change, _cell(found["flipped"], **key), _cell(found["pagerank"], **key)])
    heads = ["graph", "flipped links", "change", "`lp`, bounds", "personalized propagation, exact"]
    parts += ["Flipped links:", markdown(heads, flips)]
    return "\n\n".join(parts)


def _cell(rows: list[dict[str, Any]], **key: Any) -> str:
    """Return the counts of the row that has these values, or nothing."""
    found = next((row for row in rows if all(row[name] == value for name, value in key.items())), None)
    return "" if found is None else " / ".join(str(found[word]) for word in _WORDS)
