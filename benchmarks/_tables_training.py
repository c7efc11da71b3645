"""The tables of training: how fast it is, beside others, and what it needs."""

from __future__ import annotations

from collections.abc import Callable

from _markdown import Record, against, markdown, number

LABELS = {
    "pyg": "PyTorch Geometric",
    "sparse": "torch sparse",
    "sparse-bits": "torch sparse, random bits",
    "gcn": "ours, `gcn`",
    "fishergcn": "ours, `fishergcn`",
}


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
    every = record["repetitions"]
    first = every[0]

    def row(label: str, part: Callable[[Record], Record], name: str) -> list[object]:
        parts = [part(each) for each in every]
        speeds = ", ".join(number(each["run_epochs_per_second"]) for each in parts)
        best = ", ".join(number(each["ratio_of_best"]) for each in parts if "ratio_of_best" in each)
        plain = ", ".join(number(each["ratio"]) for each in parts if "ratio" in each)
        required = f" (≥ {number(parts[0]['required'])})" if plain else ""
        accuracy = sum(each["val_accuracy"][name] for each in every) / len(every)
        return [label, parts[0]["runs"], speeds, best, plain + required, f"{100 * accuracy:.1f}"]

    rows = [row(first["peers"][name]["what"], lambda each, name=name: each["peers"][name], name)
            for name in first["peers"]]  # fmt: skip
    rows += [row(LABELS[name], lambda each, name=name: each["ours"][name], name) for name in first["ours"]]
    header = [
        record["data"],
        "runs side by side",
        "run-epochs per second",
        "times the fastest peer",
        "times the plain loop (required)",
        "validation accuracy, %",
    ]
    # A record of the plain loop alone has no fastest peer.
    kept = [at for at in range(len(header)) if at != 3 or len(first["peers"]) > 1]
    return markdown([header[at] for at in kept], [[each[at] for at in kept] for each in rows])


def gpu_table(record: Record) -> str:
    rows = []
    for row in record["rows"]:
        name = [row["dataset"], f"`{row['method']}`"]
        accuracy = f"{100 * row['mean_test_accuracy']:.2f} ± {100 * row['std_test_accuracy']:.2f}"
        loss = f"{row['mean_test_loss']:.3f}"
        rows.append([*name, row["runs"], accuracy, loss, number(row["mean_epochs"]), number(row["seconds"])])
    header = ["data", "method", "runs", "test accuracy, %", "test loss", "epochs", "done after, s"]
    return f"{markdown(header, rows)}\n\n{gpu_table_sliced(record)}"


def gpu_table_sliced(record: Record) -> str:
    minutes = against(record["minutes"], record["required_minutes"], at_least=False)
    workers = f"{record['workers']} process{'es' if record['workers'] > 1 else ''} on the GPU"
    how = "under MPS" if record["mps"] else "without MPS"
    return f"{len(record['rows'])} of {record['cells']} cells in {minutes} minutes, with {workers}, {how}."


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


def roofline_gpu(record: Record) -> str:
    return roofline(record)


def roofline(record: Record) -> str:
    names = list(record["rows"][0]["roof_ms"])
    rows = [[name, *(number(row["roof_ms"][name]) for row in record["rows"])] for name in names]
    for label, key in (("in all", "total_roof_ms"), ("measured", "measured_ms")):
        rows.append([f"**{label}**", *(number(row[key]) for row in record["rows"])])
    rows.append(["bandwidth, GB/s", *(number(row["bandwidth"] / 1e9) for row in record["rows"])])
    header = [f"ms at {record['gflops']:.0f} GFLOP/s", *(row["data"] for row in record["rows"])]
    return markdown(header, rows)
