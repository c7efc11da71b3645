"""The tables of what is computed on graphs: matrices, spectra, distances, neighborhoods, other graphs."""

from __future__ import annotations

import statistics

from _markdown import Record, against, machine_line, markdown, number


def preprocessing(record: Record) -> str:
    rows = [
        [
            name.replace("_", " "),
            number(row["seconds"]),
            number(row["times_faster"]),
            number(row["working_mb"]),
        ]
        for name, row in record["results"].items()
    ]
    return markdown([record["data"], "seconds", "times faster", "working memory, MB"], rows)


def spectrum(record: Record) -> str:
    seconds = against(record["seconds"], record.get("required_seconds"), at_least=False)
    peer = "" if record.get("eigsh_seconds") is None else number(record["eigsh_seconds"])
    rows = [
        [f"{record[name]:,}" for name in ("nodes", "links", "rank")]
        + [seconds, peer]
        + [number(record[name]) for name in ("peak_memory_mb", "relative_residual")]
    ]
    header = ["nodes", "links", "eigenpairs", "seconds", "`eigsh`, s", "peak memory, MB", "relative residual"]
    parts = [markdown(header, rows)]
    if record.get("graphs"):
        cells = [
            [
                row["graph"],
                f"{row['nodes']:,}",
                *(number(1e3 * value) for value in row["seconds"].values()),
                f"{number(row['ratio'])} (≥ 1)",
                f"{row['residual']:.1e}",
            ]
            for row in record["graphs"]
        ]
        names = ["graph", "nodes", "ours, ms", "`eigsh`, tolerance 1e-10", "`eigsh` by default"]
        parts.append(markdown([*names, "`eigsh` / ours (required)", "relative residual"], cells))
    return "\n\n".join(parts)


def distances(record: Record) -> str:
    large = f"{record['nodes']:,} nodes, {record['links']:,} links"
    congruence, cora = record["congruence"], record["cora"]
    pairs = [
        *((f"{large}: {float(share):.0%} redrawn", each) for share, each in record["redrawn"].items()),
        *((f"{large}: in pieces, {float(share):.0%} redrawn", each) for share, each in record["pieces"].items()),
        ("cora, 10% redrawn", cora),
    ]
    rows = [
        [f"{large}: node weights", f"{congruence['distance']:.4f}", "", "", number(congruence["seconds"])],
        *(
            [
                title,
                f"{each['distance']:.4f}",
                f"{(2 - 2 * each['exact_fidelity']) ** 0.5:.4f}" if "exact_fidelity" in each else "",
                f"{each['fidelity']:.6f} ± {2 * each['standard_error'] + each['bias']:.6f}",
                number(each["seconds"]),
            ]
            for title, each in pairs
        ),
    ]
    sizes = ", ".join(f"{row['nodes']:,} nodes {number(row['seconds'])} s" for row in record["projections"])
    return (
        markdown(["graphs", "Bures distance", "exact", "fidelity", "seconds"], rows)
        + f"\n\nPeak memory {number(record['peak_memory_gb'])} (≤ 4) GB, graphs included. Dense algebra on cora takes "
        f"{number(cora['dense_seconds'])} s, {number(cora['times_faster'])} times as long. "
        f"Projection to rank 10: {sizes}."
    )


def perturbed_product(record: Record) -> str:
    columns = ("plain_ms", "perturbed_ms", "ratio")
    rows = [[row["case"], row["dtype"], *(number(row[name]) for name in columns)] for row in record["rows"]]
    return markdown(["operands", "precision", "M plain products, ms", "perturbed, ms", "ratio"], rows)


def directions(record: Record) -> str:
    names = {
        "gcn-x5": "control, `gcn-x5`",
        "high": "`fishergcn`, spectrum",
        "nodes": '`fishergcn`, `directions="nodes"`',
    }
    rows = [
        [
            names[row["case"]],
            number(row["preparation_seconds"]),
            number(row["seconds_per_epoch"]),
            number(row["peak_gb"]),
        ]
        for row in record["cases"]
    ]
    shown = markdown(("method", "preparation, s", "seconds per epoch", "peak memory, GB"), rows)
    return f"{shown}\n\n{record['nodes']:,} nodes, {record['links']:,} links."


def natural_gradient(record: Record) -> str:
    rows = []
    for found in record["datasets"]:
        for name, label in (("adam", "Adam"), ("natural", "natural gradient")):
            runs = [row[name] for row in found["runs"]]
            keys = ("best_val_loss", "best_epoch", "best_seconds", "seconds_per_epoch", "test_accuracy")
            *middle, accuracy = (statistics.median(run[key] for run in runs) for key in keys)
            extra = f", γ = {found['settings']['damping']:g}" if name == "natural" else ""
            rows.append([found["dataset"], label + extra, *map(number, middle), f"{100 * accuracy:.1f}"])
    heads = (
        "data",
        "optimizer",
        "lowest validation loss",
        "at epoch",
        "after s",
        "s per epoch",
        "test accuracy there, %",
    )
    return markdown(heads, rows)


def graphs(record: Record) -> str:
    """Rows are contestants, columns graphs: scores in percent, what was announced, and the seconds of the choice."""
    every = record["graphs"]
    found = {name: graph for name, graph in every.items() if ", " not in name}
    peers = [name for name, value in next(iter(found.values()))["means"].items() if _is_peer(value)]
    ranked = {name: every.get(f"{name}, roc-auc", "") for name in found}
    seconds = [f"{graph['means']['seconds']:.0f} ({graph['at_once']})" for graph in found.values()]
    rows = [
        ["**fit**", *(_spread(graph["means"]["accuracy"]) for graph in found.values())],
        ["fit, the last five splits", *(_late(graph, "accuracy") for graph in found.values())],
        *([peer, *(_spread(graph["means"][peer]) for graph in found.values())] for peer in peers),
        ["ROC AUC of fit", *(_spread(graph["means"]["roc_auc"]) for graph in found.values())],
        ["ROC AUC of fit by `roc-auc`", *(each and _spread(each["means"]["roc_auc"]) for each in ranked.values())],
        ["announced − true, points", *(f"{100 * graph['means']['error']:+.1f}" for graph in found.values())],
        ["intervals that held, %", *(f"{100 * graph['means']['held']:.0f}" for graph in found.values())],
        ["seconds of fit (of them at once)", *seconds],
    ]  # fmt: skip
    runs = [run for graph in found.values() for run in graph["splits"].values()]
    held = statistics.mean(low <= run["test"] <= high for run in runs for _, low, high in [run["announced"]])
    error = statistics.mean(run["announced"][0] - run["test"] for run in runs)
    places: dict[str, list[str]] = {}
    for name, graph in found.items():
        places.setdefault(machine_line(graph), []).append(name)
    lines = [f"- {', '.join(names)}: {place}" for place, names in places.items()]
    said = (
        f"Over {len(runs)} choices the announced accuracy is {100 * error:+.2f} points from that on the test nodes in "
    )
    said += f"the mean, and {held:.0%} of the intervals of 95% hold."
    return "\n\n".join([markdown(["test accuracy, %", *found], rows), said, "\n".join(lines)])


def large_fit(record: Record) -> str:
    """One row: what fit does on a large planted graph, beside what reads no features or no links."""
    columns = ("accuracy", "label_propagation", "logistic_regression")
    row = [f"{record['nodes']:,}", f"{record['links']:,}", ", ".join(record["members"])]
    row += [f"{100 * record[name]:.1f}" for name in columns]
    row += [against(record["seconds"], 900, at_least=False), against(record["peak_memory_gb"], 8, at_least=False)]
    heads = ["nodes", "links", "chosen", "fit, %", "label propagation, %", "logistic regression, %", "seconds", "GB"]
    return markdown(heads, [row])


def _is_peer(value: object) -> bool:
    return isinstance(value, dict) and "seconds" in value


def _late(graph: Record, score: str) -> str:
    """Return a score on the last five splits, by which no setting was chosen."""
    last = sorted(graph["splits"], key=lambda name: int(name.rpartition(":")[2]))[-5:]
    return f"{100 * statistics.mean(graph['splits'][name][score] for name in last):.1f}"


def _spread(value: Record) -> str:
    return f"{100 * value['mean']:.1f} ± {100 * value['std']:.1f}"
