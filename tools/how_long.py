"""Write docs/cost.md's table from benchmarks/results: how long each thing takes, with the machine.

python tools/how_long.py            rewrite the marked blocks of the page
python tools/how_long.py --check    write nothing; fail if a block is out of date
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from _blocks import refresh

from fishergcn._base.text import duration, markdown_table

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
PAGE = ROOT / "docs" / "cost.md"
RUN = 200  # epochs of a usual run, for which the time of one epoch is scaled up

TABLE = "benchmarks/gpu.py --table"
COMMANDS = {"gpu_table": TABLE, "gpu_table_sliced": TABLE, "graphs": "benchmarks/graphs.py FOLDER",
            "fit_time": "benchmarks/fit_time.py FOLDER"}  # fmt: skip

Row = tuple[str, float, str]  # what, seconds, benchmark, with one of its graphs where machines differ


def record(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    return found


def millions(count: int) -> str:
    return f"{count / 1e6:g} million" if count >= 1_000_000 else f"{count:,}"


def start() -> Iterator[Row]:
    for row in record("startup")["rows"]:
        if row["what"] in ("fishergcn --version", "fishergcn --help", "import torch", "fishergcn.train"):
            what = "`fishergcn.train` imported" if row["what"] == "fishergcn.train" else f"`{row['what']}`"
            yield what, row["median"], "startup"


def training() -> Iterator[Row]:
    found = record("training")
    for result in found["results"]:
        for method in ("gcn", "fishergcn"):
            seconds = RUN * result["ms_per_epoch"][method] / 1000
            yield f"`{method}` on {result['data']}: a run of {RUN} epochs, one thread", seconds, "training"
    workers = found["workers"]
    rate = workers["runs_per_second"]["2"]
    yield f"100 such runs of `{workers['method']}` on {workers['data']}, two workers", 100 / rate, "training"
    memory = record("memory")
    epoch = memory["seconds"]["training"] / memory["epochs"]
    yield (
        f"`{memory['method']}` on {memory['data']}: an epoch over {memory['stored_entries']:,} entries",
        epoch,
        "memory",
    )


def choosing() -> Iterator[Row]:
    for name, graph in record("fit_time")["graphs"].items():
        size = f"{graph['nodes']:,} nodes, {graph['links']:,} links; {graph['workers']} workers"
        yield f"`fit` on {name} ({size})", graph["seconds"], "fit_time"
    for name, graph in record("graphs")["graphs"].items():
        seconds = graph["means"]["seconds"]
        size = f"{graph['nodes']:,} nodes, {graph['links']:,} links; {graph['at_once']} such at once"
        yield f"`fit` on {name} ({size})", seconds, f"graphs:{name}"


def gpu() -> Iterator[Row]:
    for name, how in (("gpu_table", "that share the GPU by MPS"), ("gpu_table_sliced", "without MPS")):
        table = record(name)
        runs = sum(row["runs"] for row in table["rows"])
        what = f"Table 2 of the paper: {runs:,} runs of six methods on three graphs"
        yield f"{what}, {table['workers']} processes {how}", 60 * table["minutes"], name
    found = record("gpu")["repetitions"]
    for method in found[0]["ours"]:
        each = sorted((one["ours"][method] for one in found), key=lambda one: one["seconds"])[len(found) // 2]
        what = f"{each['runs']} runs of `{method}` on {found[0]['data']} side by side, {each['epochs']} epochs"
        yield what, each["seconds"], "gpu"


def preparing() -> Iterator[Row]:
    found = record("preprocessing")
    yield f"high-order matrix of {found['data']}", found["results"]["high_order"]["seconds"], "preprocessing"
    spectrum = record("spectrum")
    size = f"{millions(spectrum['nodes'])} nodes, {millions(spectrum['links'])} links"
    yield f"{spectrum['rank']} eigenpairs, {size}", spectrum["seconds"], "spectrum"
    distances = record("distances")
    size = f"{millions(distances['nodes'])} nodes, {millions(distances['links'])} links"
    seconds = distances["redrawn"]["0.1"]["seconds"]
    yield f"Bures distance with error bar, a tenth of the links redrawn, {size}", seconds, "distances"


def large() -> Iterator[Row]:
    for row in record("scaling")["rows"]:
        if row["nodes"] >= 100_000:
            size = f"{millions(row['nodes'])} nodes, {row['links']:,} links"
            yield f"`{row['method']}`: an epoch over the full batch, {size}", row["seconds_per_epoch"], "scaling"
    for row in record("fit_large")["rows"]:
        size = f"{millions(row['nodes'])} nodes, {row['links']:,} links, in {row['memory_gb']:g} GB"
        yield f"`fit-large`: six candidates, and classes of all nodes, {size}", row["seconds"], "fit_large"
    found = record("large_graph")
    size = f"{millions(found['nodes'])} nodes, {millions(found['links'])} links"
    seconds = found["results"]["1"]["epochs"][-1]["seconds"]
    yield f"`{found['method']}`: an epoch in mini-batches of {found['batch_size']:,}, {size}", seconds, "large_graph"
    yield f"its spectrum, before the first epoch, {size}", found["results"]["1"]["seconds"]["spectrum"], "large_graph"


def add_on() -> Iterator[Row]:
    found = record("pyg_adversary")
    size = f"{found['nodes']:,} nodes, {found['links']:,} links, {found['features']:,} features"
    for samples, seconds in found["seconds"].items():
        graphs = "plain" if samples == "0" else f"on {samples} perturbed graph{'' if samples == '1' else 's'}"
        yield f"a step of PyTorch Geometric's GCN, {graphs}, {size}", seconds, "pyg_adversary"


def machine_of(name: str) -> str:
    """Return the machine in a few words; for records that keep it beside each entry, that of all entries."""
    name, _, graph = name.partition(":")
    found = record(name)
    if graph:
        facts = [found["graphs"][graph]["machine"]]
    elif "machine" in found:
        facts = [found["machine"]]
    else:
        facts = [each["machine"] for each in (found["rows"] if "rows" in found else found["graphs"].values())]
    said = {f"{each['cpu'].replace('(R)', '')}, {each['cores']} cores" for each in facts}
    gpus = {each["gpu"] for each in facts if each.get("gpu")}
    if len(said) > 1 or len(gpus) > 1:
        raise SystemExit(f"{name}.json holds results of several machines: {sorted(said | gpus)}.")
    return " with ".join([*sorted(gpus), *sorted(said)])


def table(rows: Iterator[Row]) -> str:
    cells = []
    for what, seconds, name in rows:
        made = name.partition(":")[0]
        command = COMMANDS.get(made, f"benchmarks/{made}.py")
        cells.append([what, duration(seconds).replace(" ", "\N{NO-BREAK SPACE}"), machine_of(name), f"`{command}`"])
    return markdown_table(["what", "time", "machine", "measured by"], cells, right=[1], escape=False)


BLOCKS = {
    made.__name__.replace("_", "-"): (lambda made=made: table(made()))
    for made in (start, training, choosing, gpu, preparing, large, add_on)
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a block is out of date")
    return refresh([PAGE], "times", BLOCKS, check=parser.parse_args().check)


if __name__ == "__main__":
    sys.exit(main())
