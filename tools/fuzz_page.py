"""Write the fuzz report as a page: python tools/fuzz_page.py fuzz.json docs/_fuzz_report.md."""

from __future__ import annotations

import json
import sys
from pathlib import Path

WORDS = {
    "npz": "graph files (`Graph.load`)",
    "csv": "text tables (`Graph.from_files`)",
    "planetoid": "Planetoid (`datasets.read_planetoid`)",
    "preset": "presets (`experiments.preset.load`, `make_plan`)",
    "model": "model folders (`training.load_model`, predictions)",
    "database": "run databases (`open_runs`, statistics, export)",
    "archive": "archives of runs (`read_archive`, statistics, export)",
    "command": "the command line (argument lists and hostile files)",
}
# Each has a case in tests/fuzz/test_found.py or tests/test_numerical_safety.py. Seeds are of the driver as it was then.
FOUND = [
    ("preset", "15", "a whole number of 5,000 digits: ValueError of the TOML parser"),
    ("preset", "78", "5,000 nested brackets: RecursionError of the TOML parser"),
    ("preset", "202676", "a date for a title: TypeError when the plan is written down"),
    ("model", "0", "loading asked for 8 GB at once, whatever the size of the file: MemoryError under a limit"),
    ("database", "23, 59", "a record that is text or a number: TypeError"),
    ("database", "52", "a record of deeply nested JSON with a right checksum: RecursionError"),
    ("database", "18, 26, 78", "a record whose fields have other types: TypeError in statistics and in the export"),
    ("database", "33", "a record without some of its curves: TypeError in the bands"),
    ("database", "102", "a plan without its cells: KeyError"),
    ("database", "200878", "half a surrogate pair in a text: UnicodeEncodeError when it is exported"),
    ("database", "202216", "a name inside the file that is not UTF-8: UnicodeDecodeError of sqlite3"),
    ("archive", "13", "a broken quote in runs.csv: csv.Error"),
    ("archive", "24, 61, 62, 152, 199", "a plan with missing or odd entries: KeyError, TypeError in statistics"),
    ("command", "109, 307, 773", "names longer than a file system allows: OSError from Path.is_file and Path.is_dir"),
    ("review", "", "a small archive that unpacks to gigabytes was unpacked; refused beyond 200 times its size"),
    ("numerics", "", "fishergcn on a star: LAPACK returns no eigenvectors where the subset asked for is degenerate"),
]


def page(report: dict[str, dict[str, dict[str, object]]]) -> str:
    lines = [
        "# Fuzz report",
        "",
        "An input may be accepted, or refused with one sentence. Anything else is a failure: another exception, more",
        "than 10 seconds (60 for a command), more than 2 GB, a dead process, a temporary file left behind.",
        "",
        "| reader | engine | inputs | first seed | accepted | refused | failures |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    for engine, readers in report.items():
        for name, counts in readers.items():
            failures = counts["failures"]
            assert isinstance(failures, list)
            seeds = "" if not failures else f" (seeds {', '.join(str(each['seed']) for each in failures)})"
            cells = (counts["inputs"], counts["first_seed"], counts.get("accepted", "–"), counts.get("refused", "–"))
            shown = " | ".join(f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in cells)
            lines.append(f"| {WORDS[name]} | {engine} | {shown} | {len(failures)}{seeds} |")
    lines += [
        "",
        "Found before and fixed, each kept as a test (seeds are those of the driver at the time):",
        "",
        "| reader | seeds | what |",
        "|---|---|---|",
    ]
    lines += [f"| {reader} | {seeds} | {what} |" for reader, seeds, what in FOUND]
    lines += ["", "Again: `make fuzz`; one input: `python tools/fuzz.py --reader npz --seed 17`.", ""]
    return "\n".join(lines)


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(page(json.loads(Path(sys.argv[1]).read_text())), encoding="utf-8")
