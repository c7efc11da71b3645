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
        ["the same, the last five splits", *(each and _late(each, "roc_auc") for each in ranked.values())],
        ["announced − true, points", *(f"{100 * graph['means']['error']:+.1f}" for graph in found.values())],
        ["intervals that held, %", *(f"{100 * graph['means']['held']:.0f}" for graph in found.values())],
        ["seconds of fit (of them at once)", *seconds],
    ]  # fmt: skip
    runs = [run for graph in found.values() for run in graph["splits"].values()]
    held = statistics.mean(low <= run["test"] <= high for run in runs for _, low, high in [run["announced"]])
    error = statistics.mean(run["announced"][0] - run["test"] for run in runs)
    places: dict[str, list[str]] = {}
    for name, graph in found.items():
        code = f" Commit {graph['commit']}." if graph.get("commit") else ""
        places.setdefault(machine_line(graph) + code, []).append(name)
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


def fit_time(record: Record) -> str:
    """A row for each graph: the seconds of a choice, of its stages, and of the processor, and what else it did."""
    found, rows = record["graphs"], []
    for name, each in found.items():
        row = [name, f"{each['nodes']:,}", f"{each['links']:,}", f"{100 * each['accuracy']:.1f}"]
        stages = ", ".join(f"{stage['stage']} {number(stage['seconds'])}" for stage in each["stages"])
        row += [*map(number, (each["seconds"], each["cpu_seconds"])), stages, number(each["load"])]
        if before := each.get("before"):
            row += [f"{before['version']}: {before['seconds']:.0f} ({100 * before['accuracy']:.1f})"]
            row += [against(before["seconds"] / each["seconds"], 2)]
        rows.append(row)
    heads = ["graph", "nodes", "links", "test accuracy, %", "seconds", "of the processor", "of stages", "load",
             "before: seconds (test accuracy, %)", "before / now (required)"]  # fmt: skip
    rows = [[*row, *[""] * (len(heads) - len(row))] for row in rows]
    lines = {machine_line(each): None for each in found.values()}
    return "\n\n".join([markdown(heads, rows), *lines])


def fit_large(record: Record) -> str:
    """A row for each size and memory, and how time and memory grow between the smallest and the largest."""
    rows = []
    for each in record["rows"]:
        scores = [f"{100 * each[name]:.1f}" for name in ("accuracy", "label_propagation", "linear_without_links")]
        memory = against(each["peak_memory_gb"], each["memory_gb"], at_least=False)
        used = [number(each["seconds"] / 60), number(each["cpu_seconds"] / 60), memory]
        size = [f"{each['nodes']:,}", f"{each['links']:,}", each["chosen"]]
        rows.append([*size, *scores, *used, number(each["disk_gb"]), number(each["load"])])
    heads = ["nodes", "links", "chosen", "test accuracy, %", "label propagation, %", "linear, no links, %", "minutes",
             "minutes of the processor", "GB of memory (allowed)", "GB of disk", "load"]  # fmt: skip
    lost = [_lost(each) for each in record["rows"] if "lost_a_node" in each]
    grown = record["exponents"]
    alike = [row["load"] for row in record["rows"] if row["memory_gb"] == record["rows"][0]["memory_gb"]]
    said = (
        f"From the smallest to the largest graph in the same memory, minutes of the processor grow as "
        f"n^{grown['cpu_seconds']:.2f}, minutes of the clock, while the load went from {number(alike[0])} to "
        f"{number(alike[-1])}, as n^{grown['seconds']:.2f}, memory "
        f"as n^{grown['peak_memory_gb']:.2f} and disk as n^{grown['disk_gb']:.2f}."
        if grown
        else ""
    )
    return "\n\n".join(
        filter(
            None,
            [
                markdown(heads, rows),
                said,
                *lost,
                _papers(max(record["rows"], key=lambda row: (row["nodes"], row["memory_gb"]))),
            ],
        )
    )


def _lost(row: Record) -> str:
    """Say what a simulated cluster did that lost a node."""
    found = row["lost_a_node"]
    outcome = "the same" if found["equal"] else "NOT the same"
    return (
        f"{row['nodes']:,} nodes in {number(row['memory_gb'])} GB on a simulated Ray cluster of three nodes with a core"
        f" each, on one machine with {row['machine']['cores']}, of which one was removed amid the work: "
        f"{number(found['seconds'] / 60)} minutes at a load of {number(found['load'])}, and predictions that are "
        f"{outcome}, byte for byte."
    )


def _papers(row: Record) -> str:
    """Say what a graph of the size of ogbn-papers100M would take on 8 machines, by the stages of a row."""
    nodes, entries, columns, classes, machines = 111_000_000, 2 * 1_616_000_000, 128, 172, 8
    more_nodes, more_entries = nodes / row["nodes"], entries / (2 * row["links"])
    hours = 0.0
    for stage, seconds in row["stages"].items():
        if stage.startswith("hop-") and stage != "hop-0":
            hours += seconds * more_entries * columns / 100
        elif stage.startswith(("classes-", "errors-", "corrected-", "judge-")):
            hours += seconds * more_entries * classes / 10
        else:
            hours += seconds * more_nodes * columns / 100
    hours *= row["cpu_seconds"] / (row["seconds"] * row["workers"])  # as if its cores had done nothing else
    disk = 4 * entries + nodes * (32 + 2 * 3 * columns + 4 * 2 * classes)
    size = f"{nodes:,} nodes, {entries // 2:,} links, {columns} features and {classes} classes"
    return (
        f"Not measured, but calculated from the stages of the largest graph: {size} (as ogbn-papers100M) would take "
        f"{number(hours / 3600 / machines)} hours on {machines} machines like this one, and {number(disk / 1e9)} GB of "
        "shared disk. Assumed: nothing else runs there, so that stages take their share of the processor's "
        "time; steps over links take time as entries times columns, "
        "all else as nodes times columns, and the disk serves all machines as fast as one."
    )


def calibration(record: Record) -> str:
    """A row for each graph: calibration errors, then coverage and mean size of the sets of each contender."""
    names = ("fishergcn", "APS", "DAPS")
    found, parts = record["graphs"], []
    rows = [
        [name, graph["method"], f"{100 * graph['means']['accuracy']:.1f}"]
        + [f"{100 * before:.1f} → {100 * after:.1f}" for before, after in [graph["means"]["ece"]]]
        + [f"{before:.3f} → {after:.3f}" for before, after in [graph["means"]["log_loss"]]]
        for name, graph in found.items()
    ]
    parts.append(markdown(["graph", "network", "accuracy, %", "calibration error, %", "cross entropy"], rows))
    levels = next(iter(found.values()))["means"]["sets"]
    for level in levels:
        values = {name: graph["means"]["sets"][level] for name, graph in found.items()}
        values["mean, without “by class”"] = {
            each: [statistics.mean(values[name][each][at] for name in found if ", " not in name) for at in (0, 1)]
            for each in names
        }
        rows = [
            [name, *(f"{100 * row[each][0]:.1f}" for each in names), *(f"{row[each][1]:.2f}" for each in names)]
            for name, row in values.items()
        ]
        heads = [f"sets of {float(level):.0%}", *(f"covered by {each}, %" for each in names)]
        parts.append(markdown([*heads, *(f"size, {each}" for each in names)], rows))
    return "\n\n".join([*parts, f"APS and DAPS: {record['peer']}."])


def tasks(record: Record) -> str:
    """How good models of several labels are beside logistic regression, then those of a number, and its intervals."""
    heads, rows = ["graph", "model", "micro F1, %", "macro F1, %", "average precision, %"], []
    for graph, found in record["multilabel"].items():
        for kind, means in found["means"].items():
            name = kind if kind == "fit" else f"logistic regression, {kind}"
            rows.append([graph, name, *(f"{100 * means[each]:.1f}" for each in ("micro_f1", "macro_f1",
                                                                               "average_precision"))])  # fmt: skip
    numbers = record["regression"]
    scores = [[f"{each['r2']:.3f}", f"{each['mae']:.2f}", each["chosen"]] for each in numbers["fits"]]
    held = [
        [f"{float(name):.0%}", f"{100 * each['mean']:.1f} ± {100 * each['error']:.1f}", f"{100 * each['least']:.1f}",
         ", ".join(f"{100 * one['held'][name]:.1f}" for one in numbers["fits"])]
        for name, each in numbers["coverage"].items()
    ]  # fmt: skip
    draws = f"held over {numbers['draws']} draws, %"
    parts = [markdown(heads, rows), markdown(["R² of `fit`", "mean absolute error", "chosen"], scores)]
    return "\n\n".join([*parts, markdown(["intervals of", draws, "least of these, %", "held with `fit`, %"], held)])


def _is_peer(value: object) -> bool:
    return isinstance(value, dict) and "seconds" in value


def _late(graph: Record, score: str) -> str:
    """Return a score on the last five splits, by which no setting was chosen."""
    last = sorted(graph["splits"], key=lambda name: int(name.rpartition(":")[2]))[-5:]
    return f"{100 * statistics.mean(graph['splits'][name][score] for name in last):.1f}"


def _spread(value: Record) -> str:
    return f"{100 * value['mean']:.1f} ± {100 * value['std']:.1f}"


_METHODS = {"bures": "Bures", "lad": "LAD's singular values", "degrees": "degree vectors"}


def change_points(record: Record) -> str:
    heads = ["setting", "distances", "top seven by rises", "top seven by change_points", "marked", "false marks"]
    rows = [
        [
            row["setting"],
            words,
            *(f"{row[each]:.0%}" for each in (name, f"{name}_ranked", f"{name}_marked")),
            f"{row[f'{name}_false']:.2f}",
        ]
        for row in record["settings"]
        for name, words in ({"bures": "Bures", "wasserstein": "Wasserstein"} | _METHODS).items()
        if name in row
    ]
    words = (
        f"Means over {record['sequences']} sequences of {record['steps']} graphs of {record['nodes']} nodes with "
        f"{len(record['planted'])} planted steps; false marks are per sequence. Of {record['null_sequences']} "
        f"sequences of {record['null_steps']} graphs without a change, {record['null_marked']:.1%} have a mark, and "
        f"{record['drift_marked']:.1%} of as many that drift: one pair of nodes in twenty is drawn anew at each step."
    )
    short = [[row["graphs"], f"{row['changes_1']:.0%}", f"{row['changes_2']:.0%}"] for row in record.get("short", [])]
    heads_of_short = ["graphs of 40 nodes", "a large change in the middle: marked", "two large changes: marked"]
    parts = [markdown(heads, rows), words, *([markdown(heads_of_short, short)] if short else [])]
    return "\n\n".join(parts)


def graph_statistics(record: Record) -> str:
    words = {"distances": "all distances", "mean": "mean", "large": "all distances, estimated",
             "large-mean": "mean, estimated"}  # fmt: skip
    rows = [
        [
            f"{words[name]} of {row['graphs']} graphs of {row['nodes']:,} nodes",
            f"{row['seconds']:,.0f}" + (f" (≤ {row['limit']:,})" if row["limit"] else ""),
            f"{row['processors']:,.0f}",
            f"{row['processors'] / row['seconds']:.1f}",
            f"{row['gigabytes']:.1f}",
            f"{row['largest_error']:.2%}" if "largest_error" in row else "",
        ]
        for name, row in record["parts"].items()
    ]
    heads = ["what", "seconds", "seconds of processors", "cores at work", "GB", "widest error bar of a distance"]
    return markdown(heads, rows)


def graph_tests(record: Record) -> str:
    rows = [
        [row["exchanged_pairs"], f"{row['simulations']:,}", f"{row['bures']:.1%}", f"{row['degrees']:.1%}"]
        for row in record["two_samples"]
    ]
    heads = ["pairs of nodes exchanged", "simulations", "rejected by Bures distances", "by degree vectors"]
    found = record["independence"]
    words = (
        f"Two groups of {record['graphs_per_group']} graphs of {record['nodes']} nodes, level {record['level']:.0%}. "
        f"`independence` rejects {found['null']:.1%} of random covariates and {found['planted']:.1%} of planted ones."
    )
    return f"{markdown(heads, rows)}\n\n{words}"


def sequences(record: Record) -> str:
    heads = ["sequence", "LAD's steps", *(f"ranks by {each}" for each in _METHODS.values()), "marked at the level 5%"]
    rows = []
    for name, row in record["sequences"].items():
        ranks = [" and ".join(map(str, row["published_ranks"][method])) for method in _METHODS]
        steps = ", ".join(f"{each['step']} ({each['name']})" if each["name"] != str(each["step"]) else str(each["step"])
                          for each in row["published"])  # fmt: skip
        marked = ", ".join(each["name"] for each in row["changes"]) or "none"
        rows.append([f"{name}, {row['graphs']} graphs", steps, *ranks, marked])
    return markdown(heads, rows)
