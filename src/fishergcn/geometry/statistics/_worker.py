"""The program of a process that computes some rows of distances: ``folder share workers``."""

from __future__ import annotations

import sys
from pathlib import Path

from fishergcn._base.json import parse_json
from fishergcn._base.process import end_at_once
from fishergcn.errors import FisherGCNError
from fishergcn.geometry.statistics._folder import load_graphs, load_rule, row_path, save_row
from fishergcn.geometry.statistics._rows import Rows, Settings


def main() -> None:
    """Compute every row of this share that is not there."""
    end_at_once()
    folder, share, workers = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    label = parse_json((folder / "distances.json").read_text(encoding="utf-8"))
    digest = label.pop("graphs")
    graphs = load_graphs(folder)
    if graphs.digest != digest:
        sys.exit(f"{folder / 'graphs.npz'} does not hold the graphs of the folder")
    rows = Rows(graphs, Settings(**label), load_rule(folder))
    for index in range(share, len(graphs) - 1, workers):
        if not row_path(folder, index).is_file():
            save_row(folder, index, rows.row(index))


if __name__ == "__main__":
    try:
        main()
    except FisherGCNError as error:
        sys.exit(str(error))
