"""What was kept of the models beside the runs enters the page, without the models."""

from __future__ import annotations

import html
import json
import re

import pytest

from fishergcn.errors import DataFileError
from fishergcn.geometry.extrinsic import GeometryRecord, NodeLinks
from fishergcn.report import write_report

LINKS = NodeLinks("a<1>", "<i>red", 0.9, (("a<1>", "b", True, -0.25),), {"a<1>": 0, "b": 1})
RECORD = GeometryRecord("gcn on <b>mine", (2.0, 1.0), (0.5, 0.1, -0.6), 0.01, (0.2, 0.1), (0.05, 0.1), LINKS)


@pytest.fixture
def folder(tmp_path, make_plan, fill):
    fill(tmp_path, make_plan(["mine"], splits=1, seeds=1))
    (tmp_path / "model").mkdir()
    RECORD.save(tmp_path / "model" / "geometry.json")
    return tmp_path


def test_two_pictures_a_record_with_captions_and_data(folder, charts_of):
    page = write_report(folder).read_text()
    figures = folder / "figures"
    assert {path.stem for path in figures.glob("geometry*")} == {"geometry-model-fisher", "geometry-model-links"}
    assert "How gcn on &lt;b&gt;mine responds to changes of its graph. </b>First, how strongly" in page
    charts = charts_of(folder)
    assert charts["geometry-model-links"]["label"] == "node a<1>: <i>red (90.0%)"
    assert "<i>" not in re.sub(r"<script>.*?</script>", "", page, flags=re.DOTALL)
    rows = [line.split(",") for line in (figures / "geometry-model-fisher.csv").read_text().splitlines()[1:]]
    assert [float(value) for name, _, value in rows if name == "eigenvalue"] == [2.0, 1.0]
    assert [float(value) for name, _, value in rows if name == "random growth"] == [0.05, 0.1]
    links = (figures / "geometry-model-links.csv").read_text().splitlines()
    assert links == ["node,other,present,derivative", "a<1>,b,1,-0.25"]


def test_a_folder_may_itself_be_the_model(model_report, charts_of):
    assert {"geometry-fisher", "geometry-links"} <= set(charts_of(model_report))


def test_nothing_kept_no_section(folder):
    (folder / "model" / "geometry.json").unlink()
    (folder / "figures").mkdir()
    (folder / "figures" / "geometry-old.svg").write_text("<svg/>")
    assert 'id="geometry"' not in html.unescape(write_report(folder).read_text())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"eigenvalues": ["1"]}, "eigenvalues must be a number, got '1'"),
        ({"eigenvalues": []}, "one growth for each eigenvalue"),
        ({"growth": [0.1]}, "one growth for each eigenvalue"),
        ({"direction": None}, "cannot be read as the geometry of a model"),
        ({"version": 2}, "the format must be 'fishergcn-geometry' of version 1"),
        ({"links": {}}, "the entry 'classes' is missing"),
        (
            {"links": {**RECORD.to_dict()["links"], "links": [["b", "c", True, 0.1]]}},
            "each node must have a class, got none for 'c'",
        ),
        ({"links": {**RECORD.to_dict()["links"], "links": [["b"]]}}, "cannot be read as the geometry of a model"),
        ({"links": {**RECORD.to_dict()["links"], "classes": {}}}, "each node must have a class"),
    ],
)
def test_a_damaged_record_is_one_sentence(folder, change, message):
    path = folder / "model" / "geometry.json"
    path.write_text(json.dumps(RECORD.to_dict() | change))
    with pytest.raises(DataFileError, match=message) as caught:
        write_report(folder)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["", "[1]", "{", "[" * 100_000, "\x00"])
def test_what_is_no_record_is_one_sentence(folder, text):
    (folder / "model" / "geometry.json").write_text(text)
    with pytest.raises(DataFileError, match=r"geometry\.json"):
        write_report(folder)
