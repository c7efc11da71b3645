"""Turn benchmarks/results/*.json into markdown.

    python benchmarks/table.py                            print all tables
    python benchmarks/table.py --into docs/benchmarks.md  put them between the marks of that file

A mark is a line ``<!-- table NAME -->``; what follows, up to ``<!-- end -->``, is replaced by the table of
``NAME.json``.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from _process import RESULTS

from fishergcn._base.files import write_text

Record = dict[str, Any]
LABELS = {
    "pyg": "PyTorch Geometric",
    "sparse": "torch sparse",
    "sparse-bits": "torch sparse, random bits",
    "gcn": "ours, `gcn`",
    "fishergcn": "ours, `fishergcn`",
}


def markdown(header: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    titles = list(header)
    lines = [titles, ["---"] * len(titles), *([str(cell) for cell in row] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def number(value: float) -> str:
    """Three significant digits, without an exponent."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) >= 1e-3 or value == 0 else f"{value:.2e}"


def against(value: float, required: float | None, at_least: bool = True) -> str:
    """Return a value with what is required of it."""
    if required is None:
        return number(value)
    return f"{number(value)} ({'≥' if at_least else '≤'} {required:g})"


def machine_line(record: Record) -> str:
    facts = record["machine"]
    names = ("torch", "torch_geometric", "numpy", "scipy", "numba", "cuda")
    versions = ", ".join(f"{name} {facts[name]}" for name in names if facts.get(name))
    gpu = f"{facts['gpu']}; " if facts.get("gpu") else ""
    return f"{gpu}{facts['cpu']}, {facts['cores']} cores; Python {facts['python']}, {versions}."


def training(record: Record) -> str:
    results, threads = record["results"], record["threads"]
    names = [result["data"] for result in results]
    times = []
    for name in threads:
        learned = " / ".join(f"{100 * result['val_accuracy'][name]:.1f}" for result in results)
        cells = [number(result["ms_per_epoch"][name]) for result in results]
        times.append([LABELS[name], threads[name], *cells, learned])
    accuracy = f"validation accuracy after {record['accuracy_after']} epochs, %"
    first = markdown(["ms per epoch", "threads", *names, accuracy], times)
    ratios = [
        [f"{LABELS[rows[0]['peer']]} / {LABELS[rows[0]['ours']]}"]
        + [f"{number(row['ratio'])}; {against(row['ratio_of_best'], row['required'])}" for row in rows]
        for rows in zip(*(result["ratios"] for result in results), strict=True)
    ]
    second = markdown(["times slower: median; best turns (required)", *names], ratios)
    workers = record["workers"]
    rates = workers["runs_per_second"]
    third = (
        f"Runs per second of `{workers['method']}` on {workers['data']} ({workers['epochs']} epochs a run): "
        f"{number(rates['1'])} with one worker, {number(rates['2'])} with two: "
        f"{against(workers['ratio'], workers['required'])} times as many."
    )
    return "\n\n".join([first, second, third])


def gpu(record: Record) -> str:
    peer, accuracy = record["peer"], record["val_accuracy"]
    rows = [
        [
            peer["what"],
            peer["runs"],
            number(peer["run_epochs_per_second"]),
            "",
            f"{100 * accuracy['peer']:.1f}",
        ]
    ]
    for method, row in record["ours"].items():
        ratio = against(row["ratio"], row["required"])
        speed = number(row["run_epochs_per_second"])
        rows.append([LABELS[method], row["runs"], speed, ratio, f"{100 * accuracy[method]:.1f}"])
    header = [
        record["data"],
        "runs side by side",
        "run-epochs per second",
        "ratio (required)",
        "validation accuracy, %",
    ]
    return markdown(header, rows)


def gpu_table(record: Record) -> str:
    rows = []
    for row in record["rows"]:
        name = [row["dataset"], f"`{row['method']}`"]
        if "error" in row:
            rows.append([*name, "", row["error"], "", "", number(row["seconds"])])
            continue
        accuracy = f"{100 * row['mean_test_accuracy']:.2f} ± {100 * row['std_test_accuracy']:.2f}"
        loss = f"{row['mean_test_loss']:.3f}"
        rows.append([*name, row["runs"], accuracy, loss, number(row["mean_epochs"]), number(row["seconds"])])
    header = ["data", "method", "runs", "test accuracy, %", "test loss", "epochs", "seconds"]
    minutes = against(record["minutes"], record["required_minutes"], at_least=False)
    return f"{markdown(header, rows)}\n\n{len(rows)} of {record['cells']} cells in {minutes} minutes."


def memory(record: Record) -> str:
    peaks = record["peak_mb_up_to"]
    rows = [[f"up to {stage}", number(value / 1e3)] for stage, value in peaks.items()]
    total = against(record["peak_gb"], record["required_gb"], at_least=False)
    header = [f"{record['data']}, `{record['method']}`", "peak memory, GB"]
    stored = f"the propagation matrix has {record['stored_entries']:,} stored entries"
    return f"{markdown(header, rows)}\n\nIn all {total} GB; {stored}."


def scaling(record: Record) -> str:
    rows = [
        [
            f"`{row['method']}`",
            f"{row['nodes']:,}",
            number(row["seconds_per_epoch"]),
            number(row["memory_mb"] / 1e3),
            number(row["preprocessing_seconds"]),
            f"{100 * row['val_accuracy']:.1f}",
        ]
        for row in record["rows"]
    ]
    header = [
        "method",
        "nodes",
        "seconds per epoch",
        "memory, GB",
        "preprocessing, s",
        "validation accuracy, %",
    ]
    slopes = " ".join(
        f"`{method}`: time grows as n^{found['time']:.2f}, memory as n^{found['memory']:.2f}."
        for method, found in record["exponents"].items()
    )
    threads = record.get("threads", 1)
    settings = f"{record['hidden']} hidden units, M = {record['samples']} samples for `fishergcn`, {threads} threads."
    return f"{markdown(header, rows)}\n\n{slopes} {settings}"


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


_OURS = ("majority", "lp", "mlp", "gcn")


def _accuracy(value: Record | None) -> str:
    return "" if value is None else f"{100 * value['accuracy']:.1f} ± {100 * value['std']:.1f}"


def high_order(record: Record) -> str:
    rows = []
    for row in record["products"]:
        ratios = "; ".join(number(each["ratio"]) for each in row["repetitions"])
        required = f" (≥ {row['required']:g})" if row["required"] else ""
        best = min(each["ours"] for each in row["repetitions"])
        cells = (1e3 * best, row["gflops"], row["preparation"])
        rows.append([f"{row['data']}^T", f"{row['entries']:,}", *map(number, cells), ratios + required])
    header = ["matrix", "entries", "ms", "GFLOP/s", "preparation once, s", "torch / ours, three repetitions (required)"]
    parts = [markdown(header, rows)]
    if "training" in record:
        found = record["training"]
        ratios = "; ".join(number(row["ratio"]) for row in found["rows"])
        seconds = number(min(row["now"] for row in found["rows"]))
        parts.append(
            f"An epoch of `fishergcn-t` on PubMed takes {seconds} s, by commit 0dc8ed3 {ratios} times as long "
            f"(≥ {found['required']:g})."
        )
    return "\n\n".join(parts)


def roofline(record: Record) -> str:
    names = list(record["rows"][0]["roof_ms"])
    rows = [[name, *(number(row["roof_ms"][name]) for row in record["rows"])] for name in names]
    for label, key in (("in all", "total_roof_ms"), ("measured", "measured_ms")):
        rows.append([f"**{label}**", *(number(row[key]) for row in record["rows"])])
    rows.append(["bandwidth, GB/s", *(number(row["bandwidth"] / 1e9) for row in record["rows"])])
    header = [f"ms at {record['gflops']:.0f} GFLOP/s", *(row["data"] for row in record["rows"])]
    return markdown(header, rows)


def startup(record: Record) -> str:
    rows = [
        [
            f"`{row['what']}`",
            against(row["best"], row["required"], at_least=False),
            number(row["median"]),
        ]
        for row in record["rows"]
    ]
    slower = f"{record['slower_than_torch']:+.2f} s (≤ {record['required_slower']})"
    return (
        f"{markdown(['seconds', 'best (required)', 'median'], rows)}\n\n"
        f"`import fishergcn` beyond `import torch`: {slower}; first use {record['first_use']:+.2f} s."
    )


def cost(record: Record) -> str:
    rows = []
    for result in record["results"]:
        ratio, measured = result["ratio"], result["measured"]
        data = f"{int(result['data']):,} nodes" if result["data"].isdigit() else result["data"]
        rows.append([
            data, f"`{result['method']}`", result["settings"], f"{result['epochs']} × {result['runs']}",
            number(measured["seconds"]), number(ratio["seconds"]), number(1e3 * measured["epoch"]),
            number(ratio["epoch"]), number(measured["bytes"] / 1e9), number(ratio["bytes"]),
        ])  # fmt: skip
    header = ["data", "method", "settings", "epochs × runs", "seconds", "predicted / measured", "epoch, ms",
              "predicted / measured", "memory, GB", "predicted / measured"]  # fmt: skip
    shares = record["share_within"]
    names = {"seconds": "of all seconds", "epoch": "of the epochs", "bytes": "of memory"}
    told = ", ".join(f"{shares[name]:.0%} {words}" for name, words in names.items())
    return f"{markdown(header, rows)}\n\nWithin a factor of {record['factor']:g}, of {record['cases']} cases: {told}."


def cost_gpu(record: Record) -> str:
    return cost(record)


def largest(record: Record) -> str:
    names = {"full": "all at once", "batches": "mini-batches", "mapped": "mini-batches, mapped"}
    rows = []
    for way, found in record["results"].items():
        best = found["best"]
        if best is not None:
            rows.append([
                names[way], f"{best['nodes']:,}", f"{best['links']:,}", number(best["peak_bytes"] / 1e9),
                number(best["predicted_bytes"] / 1e9), number(best["epoch_seconds"]),
            ])  # fmt: skip
    header = [f"`{record['method']}` in {record['gigabytes']:g} GB", "nodes", "links", "peak, GB", "predicted, GB",
              "seconds per epoch"]  # fmt: skip
    return markdown(header, rows)


def extrapolation(record: Record) -> str:
    measured = [
        [name, number(each["worked_seconds"]), f"{record['efficiency'][name]:.0%}", number(each["wall_seconds"])]
        for name, each in record["measured"].items()
    ]
    first = markdown(["processes", "each works, s per epoch", "efficiency", "on the wall, s"], measured)
    counts = list(record["extrapolated"][0]["epoch_seconds_by_processes"])
    rows = [
        [
            f"{each['links']:,}",
            f"{each['nodes']:,}",
            number(each["file_bytes"] / 1e9),
            number(each["private_bytes"] / 1e9),
            number(each["epoch_seconds"]),
            *(number(each["epoch_seconds_by_processes"][count]) for count in counts),
        ]
        for each in record["extrapolated"]
    ]
    header = ["links", "nodes", "files on each machine, GB", "a process, GB", "epoch by 1 process, s"]
    second = markdown([*header, *(f"by {count}, s" for count in counts)], rows)
    model, assumed = record["model"], record["assumed"]
    return (
        f"Measured, on {record['nodes']:,} nodes and {record['links']:,} links, `{record['method']}`, batches of "
        f"{record['batch_size']:,}:\n\n{first}\n\nThe model says {number(model['epoch_seconds'])} s for one process, "
        f"{number(model['ratio'])} times what it worked.\n\nNot measured, but extrapolated:\n\n{second}\n\nAssumed: an "
        f"efficiency of {assumed['efficiency']:.0%} for any number of processes, as measured for the largest; "
        f"{1e3 * assumed['latency_seconds']:g} ms and a byte in {1e9 / assumed['bytes_per_second']:g} ns for each "
        "exchange between machines."
    )


TABLES: dict[str, Callable[[Record], str]] = {
    each.__name__: each
    for each in (
        training,
        gpu,
        gpu_table,
        memory,
        scaling,
        preprocessing,
        spectrum,
        distances,
        perturbed_product,
        directions,
        natural_gradient,
        high_order,
        startup,
        graphs,
        cost,
        cost_gpu,
        largest,
        extrapolation,
    )
}


def table(name: str, results: Path, beside: Path | None = None) -> str:
    """Return the table of a benchmark, or a line that says that it has not been run."""
    path = results / f"{name}.json"
    if not path.exists():
        return f"*No `{name}.json` yet.*"
    record = json.loads(path.read_text(encoding="utf-8"))
    parts = [TABLES[name](record), *([machine_line(record)] if "machine" in record else [])]
    picture = path.with_suffix(".png")
    if beside is not None and picture.exists():
        parts.insert(1, f"![{name}]({Path(os.path.relpath(picture, beside.parent)).as_posix()})")
    return "\n\n".join(parts)


def fill(text: str, results: Path, beside: Path) -> str:
    """Replace what stands between the marks."""

    def block(found: re.Match[str]) -> str:
        return f"{found[1]}\n\n{table(found[2], results, beside)}\n\n{found[3]}"

    return re.sub(r"(<!-- table (\w+) -->).*?(<!-- end -->)", block, text, flags=re.DOTALL)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--into", type=Path, help="a markdown file with marks")
    options = parser.parse_args()
    if options.into is None:
        print("\n\n".join(f"## {name}\n\n{table(name, options.results)}" for name in TABLES))
        return
    path = options.into.resolve()
    write_text(path, fill(path.read_text(encoding="utf-8"), options.results.resolve(), path))


if __name__ == "__main__":
    main()
