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
from collections.abc import Callable
from pathlib import Path

from _markdown import Record, machine_line
from _process import RESULTS
from _tables_certificates import certificates, link_certificates, sampled_certificates
from _tables_cost import cost, cost_gpu, extrapolation, largest, startup
from _tables_graphs import (
    calibration,
    change_points,
    directions,
    distances,
    fit_large,
    fit_time,
    graph_statistics,
    graph_tests,
    graphs,
    large_fit,
    natural_gradient,
    perturbed_product,
    preprocessing,
    sequences,
    spectrum,
    tasks,
)
from _tables_training import (
    gpu,
    gpu_table,
    gpu_table_sliced,
    high_order,
    memory,
    roofline,
    roofline_gpu,
    scaling,
    training,
)

from fishergcn._base.files import write_text

TABLES: dict[str, Callable[[Record], str]] = {
    each.__name__: each
    for each in (
        training,
        gpu,
        gpu_table,
        gpu_table_sliced,
        memory,
        scaling,
        preprocessing,
        spectrum,
        distances,
        perturbed_product,
        directions,
        natural_gradient,
        high_order,
        roofline,
        roofline_gpu,
        startup,
        graphs,
        fit_time,
        large_fit,
        fit_large,
        calibration,
        certificates,
        link_certificates,
        sampled_certificates,
        tasks,
        cost,
        cost_gpu,
        largest,
        extrapolation,
        change_points,
        graph_statistics,
        graph_tests,
        sequences,
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
