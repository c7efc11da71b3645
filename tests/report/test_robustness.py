"""The page of a study of robustness without other runs."""

from __future__ import annotations

import re

import numpy as np
import pytest

from fishergcn.errors import DataFileError
from fishergcn.report import write_report
from fishergcn.studies._robustness_points import Point, points_csv
from fishergcn.studies._robustness_summary import summarize


@pytest.fixture
def study(tmp_path):
    rng = np.random.default_rng(0)
    points = [
        Point("<b>mine</b>", method, "links-added", level, f"s{split}", 2019, 9.0, round(float(rng.random()), 4), 1.0)
        for method in ("gcn-x5", "fishergcn")
        for level in (0.0, 0.25, 0.5)
        for split in range(3)
    ]
    (tmp_path / "points.csv").write_text(points_csv(points))
    (tmp_path / "study.json").write_text("{}")
    return tmp_path, points


def test_the_page(study):
    pytest.importorskip("matplotlib")
    folder, points = study
    page = write_report(folder).read_text()
    assert {each.name for each in folder.iterdir()} == {"points.csv", "study.json", "figures", "report.html"}
    assert "18 points: trained networks on changed graphs and features of &lt;b&gt;mine&lt;/b&gt;." in page
    assert page.count("<img ") == 2
    assert "<b>mine" not in page
    rows = re.findall(r"<tr>(<td>.*?)</tr>", page)
    ends = [cell for cell in summarize(points) if cell.level == 0.5]
    assert len(rows) == len(ends) == 2
    for row, cell in zip(rows, ends, strict=True):
        texts = re.findall(r"<td>(.*?)</td>", row)
        assert texts[1:5] == ["links-added", cell.method, "50%", f"{100 * cell.accuracy.mean:.2f}"]
        assert texts[5] == f"{100 * cell.accuracy.low:.2f} – {100 * cell.accuracy.high:.2f}"
        assert (texts[6] == "–") == (cell.method == "gcn-x5")


def test_damaged_points_are_named(study):
    folder, _ = study
    (folder / "points.csv").write_text("a,b\n1,2\n")
    with pytest.raises(DataFileError, match="does not hold points"):
        write_report(folder)
