"""The tables of what is computed on graphs: matrices, spectra, distances, neighborhoods, other graphs."""

from __future__ import annotations

import statistics

from _markdown import Record, against, machine_line, markdown, number

_OURS = ("majority", "lp", "mlp", "gcn")


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
    """Rows are contestants, columns graphs: accuracy in percent, with the seconds of the choice below."""
    found = record["graphs"]
    names = list(dict.fromkeys(name for graph in found.values() for name in graph["contestants"]))
    rows = [
        [
            f"**{name}**" if name == "auto" else f"`{name}`" if name.split("-")[0] in _OURS else name,
            *(_accuracy(graph["contestants"].get(name)) for graph in found.values()),
        ]
        for name in names
    ]
    best = [
        max(value["accuracy"] for name, value in graph["contestants"].items() if name.split("-")[0] in _OURS)
        for graph in found.values()
    ]
    gaps = [
        f"{100 * (graph['contestants']['auto']['accuracy'] - top):+.2f}"
        for graph, top in zip(found.values(), best, strict=True)
    ]
    seconds = [f"{graph['contestants']['auto']['seconds']:.0f} ({graph['at_once']})" for graph in found.values()]
    rows += [["auto − best candidate", *gaps], ["seconds of `fit` (of them at once)", *seconds]]
    places: dict[str, list[str]] = {}
    for name, graph in found.items():
        places.setdefault(machine_line(graph), []).append(name)
    lines = [f"- {', '.join(names)}: {place}" for place, names in places.items()]
    return "\n\n".join([markdown(["test accuracy, %", *found], rows), "\n".join(lines)])


def _accuracy(value: Record | None) -> str:
    return "" if value is None else f"{100 * value['accuracy']:.1f} ± {100 * value['std']:.1f}"
