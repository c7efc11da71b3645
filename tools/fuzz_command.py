"""The command line as a fuzz target: argument lists with slips in them, on files of which some are hostile."""

from __future__ import annotations

import io
import random
import sys
from pathlib import Path
from unittest.mock import patch

import fuzz_results
import fuzz_targets
from fuzz_spoiling import NUMBERS, TEXTS, Files
from fuzz_targets import Target

TARGETS = fuzz_targets.TARGETS | fuzz_results.TARGETS

# {npz}, {csv} and so on stand for files or folders; what follows "--" (ours) is never altered, so that no run is long.
COMMANDS = [
    "data info {npz} --json",
    "data info {npz} --high-order",
    "data import --edges {csv}/edges.csv --features {csv}/features.csv --labels {csv}/labels.csv --out out/g.npz",
    "data import --edges {csv}/edges.csv --header all --directed symmetrize --self-links drop --out out/g.npz --name x",
    "spectrum {npz} --rank 3 --seed 1 --json",
    "spectrum {npz} --high-order --order 2 --threshold 0.01 --component all --plot out/s.svg",
    "geometry distance {npz} {npz} --laplacian combinatorial --rank 2",
    "geometry neighborhood {npz} --rank 2 --radius 0.1 --samples 5 --noise gaussian --json",
    "train --graph {npz} --method gcn --splits held-out:50%:0 --quiet --json -- --epochs 1 --hidden 3",
    "train --edges {csv}/edges.csv --features {csv}/features.csv --labels {csv}/labels.csv --method fishergcn "
    "--rank 2 --out out/model --quiet -- --epochs 1 --hidden 3",
    "train --graph {npz} --method gcn-t --set radius=0.5 --lr 0.1 --dropout 0 --quiet -- --epochs 1 --hidden 3",
    "predict {model} --out out/p.csv",
    "predict {model}",
    "predict {model} --edges {csv}/edges.csv --features {csv}/features.csv --out out/p.csv",
    "compare --graph {npz} --method gcn-x2-c --out out/study --quiet -- --splits held-out:50%:0 --epochs 1 --workers 1",
    "runs list {database} --json",
    "runs show {database}",
    "runs show {archive} --json",
    "runs export {archive} --out out/r.csv",
    "runs archive {database} --out out/archive --curves all",
    "report {database}",
    "report {archive}",
    "tune --graph {npz} --method gcn --splits held-out:50%:0 --search-seed 3 --out out/study --quiet "
    "-- --trials 1 --epochs 1",
    "geometry fisher {model} --rank 2 --kind exact --distance 0.1 --random 3 --json --plot out/f.svg --keep",
    "geometry links {model} --node 3 --links all --top 4 --json",
    "geometry embed {npz} --dim 2 --order 2 --threshold 0.01 --out out/e.csv --json",
    "robustness --dataset {npz} --preset robustness-quick --method gcn --attack links-added --attack features "
    "--out out/study -- --splits held-out:50%:0 --epochs 1",
    "reproduce {preset} --out out/runs --method gcn --dataset cora -- --splits 1 --seeds 1 --epochs 1 --workers 1",
]
SLIPS = [
    *TEXTS,
    *map(str, NUMBERS),
    "--json",
    "--out",
    "--rank",
    "--seed",
    "--method",
    "--set",
    "-h",
    "--",
    "out",
    "/dev/null",
]


def _good() -> Files:
    return {f"{name}/{path}": data for name, target in TARGETS.items() for path, data in target.good().items()}


def _spoil(rng: random.Random, files: Files) -> Files:
    """Leave all files as they are, or spoil those of one reader."""
    if rng.random() < 0.4:
        return files
    name = rng.choice(sorted(TARGETS))
    kept = {path: data for path, data in files.items() if not path.startswith(f"{name}/")}
    spoiled = TARGETS[name].spoil(rng, TARGETS[name].good())
    return kept | {f"{name}/{path}": data for path, data in spoiled.items()}


def arguments(rng: random.Random, folder: Path) -> list[str]:
    """Return an argument list with none, one or a few slips."""
    free, _, fixed = rng.choice(COMMANDS).partition(" -- ")
    places = {name: str(folder / name) for name in TARGETS}
    places |= {"npz": str(folder / "npz" / "graph.npz")}
    places["preset"] = str(next(iter(sorted((folder / "preset").glob("*.toml"))), folder))
    words = [word.format_map(places).replace("out/", f"{folder}/out/") for word in free.split()]
    for _ in range(rng.choice((0, 1, 1, 2, 4))):
        at = rng.randrange(1, len(words) + 1)
        match rng.randrange(3):
            case 0:
                words[at:at] = [rng.choice(SLIPS)]
            case 1:
                words[at : at + 1] = [rng.choice(SLIPS)]
            case _:
                del words[at : at + 1]
    return [*words, *fixed.split()]


def _read(folder: Path, rng: random.Random) -> None:
    from fishergcn._base.foreign import printable
    from fishergcn.cli import main

    (folder / "out").mkdir()
    words = arguments(rng, folder)
    out, status = io.TextIOWrapper(io.BytesIO(), encoding="utf-8"), 0
    try:
        with (
            patch.object(sys, "argv", ["fishergcn", *words]),
            patch.object(sys, "stdout", out),
            patch.object(sys, "stderr", out),
        ):
            main()
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else 1
    except Exception as error:
        error.add_note(f"arguments: {words}")
        raise
    out.flush()
    text = out.buffer.getvalue().decode("utf-8")
    acting = {each for each in text if printable(each, keep="\n") != each}
    assert not acting, f"printed by {words}: {acting}"
    if status:
        left = [path.name for path in (folder / "out").rglob("*") if path.is_file()]
        kept = {"runs.lock", "runs.sqlite", "runs.sqlite-wal", "runs.sqlite-shm"}
        assert set(left) <= kept, f"left behind by {words}: {left}"
        raise SystemExit(status)


COMMAND = Target(_good, _spoil, _read)
