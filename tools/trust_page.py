"""Write the records in results/trust into docs/trust.md: what was fuzzed and found, and the log of the kills.

python tools/fuzz.py --inputs 3000 --first-seed 200000 --report results/trust/fuzz.json
python tools/soak.py --kills 20 --others 30 --log results/trust/soak.log
python tools/soak_commands.py --kills 100 --log results/trust/commands.log
python tools/trust_page.py                    rewrite the marked blocks of the page
python tools/trust_page.py --check            write nothing; fail if a block is out of date
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path

from _blocks import refresh

from fishergcn._base.text import markdown_table

ROOT = Path(__file__).resolve().parent.parent
RECORDS = ROOT / "results" / "trust"
PAGE = ROOT / "docs" / "trust.md"
WORDS = {
    "npz": "graph files (`Graph.load`)",
    "csv": "text tables (`Graph.from_files`)",
    "tables": "other tables (`Graph.from_files`: Parquet, Feather, GraphML, edge lists, gzip, masks)",
    "planetoid": "Planetoid (`Graph.from_planetoid`)",
    "preset": "presets (`experiments.preset.load`, `make_plan`)",
    "model": "model folders (`models.load_model`, predictions)",
    "ensemble": "folders of ensembles (`models.load_model`, predictions)",
    "labels": "models of several labels a node (`models.load_model`, predictions)",
    "numbers": "models of a number a node (`models.load_model`, predictions)",
    "sequence": "sequences of graphs (tables with times, folders of graphs, distances that are resumed)",
    "large": "large graphs (mapped folders, Parquet tables, what `fit-large` wrote)",
    "search": "searches (`studies.load_tuning`, report pages)",
    "geometry": "records of a model's geometry (`GeometryRecord.load`, pictures)",
    "database": "run databases (`open_runs`, statistics, export)",
    "archive": "archives of runs (`read_archive`, statistics, export)",
    "command": "the command line (argument lists and hostile files)",
}
# Each has a case in tests/fuzz/test_found.py or in tests that docs/trust.md names; seeds are of the driver then.
FOUND = [
    ("preset", "15", "a whole number of 5,000 digits: ValueError of the TOML parser"),
    ("preset", "78", "5,000 nested brackets: RecursionError of the TOML parser"),
    ("preset", "202676", "a date for a title: TypeError when the plan is written down"),
    ("preset", "300100", "a published split of no numbers was accepted"),
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
    (
        "review",
        "",
        "--hidden 1000000000: RuntimeError of torch; sizes have bounds, and too little memory is one sentence",
    ),
    ("review", "", "a small archive that unpacks to gigabytes was unpacked; refused beyond 200 times its size"),
    ("review", "", "a random.py in the working folder was run by worker processes"),
    ("review", "", "finite weights of 3e38: a class was named where the outputs are no numbers"),
    ("review", "", "a database removed amid the work went unnoticed until the end"),
    ("review", "", "escape sequences in names reached the terminal and the card of a model"),
    ("review", "", "names that a spreadsheet runs stood in predictions.csv as they were"),
    ("review", "", "a link to node 1,000,000,000 took all memory; a line of 1 GB took 6 GB; /dev/zero was read on"),
    ("review", "", "features of 1e-300 became 0; 1_000 and digits of other scripts were numbers"),
    ("review", "", "a full standard output, too few threads and a removed working folder ended in tracebacks"),
    ("review", "", "files were renamed before they were on disk"),
    ("review", "", "JSON with the same name twice, or with 1e999, was read"),
    ("review", "", ".numba_config.yaml in the working folder could name a folder of compiled code"),
    ("review", "", "models and learning curves of graphs named ../../x or /x were written there"),
    ("review", "", "a link to a folder inside a given one: report wrote its page there, fit-large its blocks"),
    ("review", "", "fit-large --overwrite removed files of others among its blocks and predictions"),
    ("review", "", "a mapped graph or a preset that was a pipe was waited for without end"),
    ("review", "", "a file that appeared while predict --out wrote was replaced"),
    ("numerics", "", "fishergcn on a star: LAPACK returns no eigenvectors where the subset asked for is degenerate"),
]


def fuzzed() -> str:
    report = json.loads((RECORDS / "fuzz.json").read_text(encoding="utf-8"))
    rows = []
    for engine, readers in report.items():
        for name, counts in readers.items():
            failures = counts["failures"]
            seeds = "" if not failures else f" (seeds {', '.join(str(each['seed']) for each in failures)})"
            cells = (counts["inputs"], counts["first_seed"], counts.get("accepted", "–"), counts.get("refused", "–"))
            shown = (f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in cells)
            rows.append([WORDS[name], engine, *shown, f"{len(failures)}{seeds}"])
    head = ["reader", "engine", "inputs", "first seed", "accepted", "refused", "failures"]
    return markdown_table(head, rows, right=range(2, 7), escape=False)


def found() -> str:
    return markdown_table(["reader", "seeds", "what"], FOUND, escape=False)


def killed() -> str:
    """The log without its dates: a column is enough to read it by."""
    lines = (RECORDS / "soak.log").read_text(encoding="utf-8").splitlines()
    return "\n".join(["```text", *(line[11:] for line in lines), "```"])


def commands() -> str:
    """A row for each kind of command: how long it takes, how often it was killed, and how often something was wrong."""
    log, seconds, counts = RECORDS / "commands.log", dict[str, str](), dict[str, list[int]]()
    if not log.exists():
        return "This version has not been through it yet."
    for line in log.read_text(encoding="utf-8").splitlines():
        _, _, text = line.partition(" ")
        if begun := re.match(r"(\w+): undisturbed in ([0-9.]+) s", text):
            seconds[begun[1]], counts[begun[1]] = begun[2], [0, 0]
        elif killed := re.match(r"(\w+)( \d+: killed|: had ended by itself) after [0-9.]+ s; (.*)", text):
            counts[killed[1]][0] += "killed" in killed[2]
            counts[killed[1]][1] += killed[3] != "as it should be"
    rows = [[f"`{name}`", seconds[name], *map(str, counts[name])] for name in counts]
    rows.append(["all", "", *(str(sum(each[at] for each in counts.values())) for at in (0, 1))])
    return markdown_table(["command", "seconds, undisturbed", "kills", "faults"], rows, right=range(1, 4), escape=False)


def covered() -> str:
    return f"The last whole run, on a machine without a GPU: {(RECORDS / 'coverage.txt').read_text().strip()} %."


BLOCKS = {"fuzzed": fuzzed, "found": found, "killed": killed, "commands": commands, "covered": covered}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a block is out of date")
    options = parser.parse_args()
    return refresh([PAGE], "trust", BLOCKS, check=options.check)


if __name__ == "__main__":
    sys.exit(main())
