"""The tables of what a command takes: its start, the memory that is predicted, the largest graphs."""

from __future__ import annotations

from _markdown import Record, against, markdown, number


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
        data = f"{int(result['data']):,} nodes" if result["data"].isdigit() else result["data"]
        rows.append([
            data, f"`{result['method']}`", result["settings"], str(result["runs"]), number(result["measured"] / 1e9),
            number(result["ratio"]),
        ])  # fmt: skip
    header = ["data", "method", "settings", "runs side by side", "memory, GB", "predicted / measured"]
    share = f"{record['share_within']:.0%} are within a factor of {record['factor']:g}"
    return f"{markdown(header, rows)}\n\nOf {record['cases']} predictions {share}."


def cost_gpu(record: Record) -> str:
    return f"{cost(record)} Device: {record['machine']['device']}."


def largest(record: Record) -> str:
    names = {"full": "all at once", "batches": "mini-batches", "mapped": "mini-batches, mapped"}
    rows = [
        [
            f"`{found['method']}`, {names[found['way']]}", f"{found['gigabytes']:g}", f"{best['nodes']:,}",
            f"{best['links']:,}", number(best["peak_bytes"] / 1e9), number(best["predicted_bytes"] / 1e9),
            number(best["epoch_seconds"]),
        ]
        for found in record["results"]
        if (best := found["best"]) is not None
    ]  # fmt: skip
    header = ["", "limit, GB", "nodes", "links", "peak, GB", "predicted, GB", "seconds per epoch"]
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
    assumed = record["assumed"]
    return (
        f"Measured, on {record['nodes']:,} nodes and {record['links']:,} links, `{record['method']}`, batches of "
        f"{record['batch_size']:,}:\n\n{first}\n\nNot measured, but extrapolated:\n\n{second}\n\nAssumed: a time that "
        f"grows as the links do; an efficiency of {assumed['efficiency']:.0%} for any number of processes, as measured "
        f"for the largest; {1e3 * assumed['latency_seconds']:g} ms and a byte in "
        f"{1e9 / assumed['bytes_per_second']:g} ns for each exchange between machines."
    )
