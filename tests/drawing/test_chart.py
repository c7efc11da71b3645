"""A chart is data: a file and a page draw the same, equal bytes come from equal input."""

from __future__ import annotations

import re
import sys
from xml.etree import ElementTree

import numpy as np
import pytest

from fishergcn.drawing import (
    Chart,
    Layer,
    Look,
    Panel,
    Row,
    Series,
    check_picture,
    draw_bars,
    draw_curves,
    draw_distances,
    draw_panels,
    draw_rows,
    draw_shape,
    draw_sweep,
    looks,
    spread,
)
from fishergcn.errors import DataFileError, InputError, MissingExtraError
from fishergcn.studies import Band, estimate

LOOK = Look("#3091f2", (), "o")
EVERY_MARK = [
    Layer("band", series="a", x=[0, 1], low=[0, 0], high=[1, 2]),
    Layer("line", series="a", x=[0, 1], y=[0.2, float("nan")], step=True),
    Layer("dot", series="a", x=[0, 1], y=[0, 1], hollow=True, text=["one", "two"]),
    Layer("rangeX", y=[0.5], low=[0], high=[1], color="accent"),
    Layer("rangeY", x=[0.5], low=[0], high=[1], color="main", size=3),
    Layer("rect", x=[0, 0.5], x2=[0.5, 1], y=[1, 2], color="rest"),
    Layer("stem", x=[0.2], y=[1]),
    Layer("rule", axis="x", at=0.1, dash=[4, 3]),
    Layer("rule", axis="y", at=0.1),
    Layer("link", x=[0], y=[0], x2=[1], y2=[1]),
    Layer("arrow", x=[0], y=[0], x2=[1], y2=[1]),
    Layer("text", x=[0.5], y=[0.5], text=["words at a place"]),
]


def chart(title="a & b < c $", **options):
    panel = Panel(title, "steps", "value", EVERY_MARK, **options)
    return Chart("one", "label", [panel], [Series("a", LOOK)], switches=True, data="x\n1\n")


def texts(svg):
    return [element.text for element in ElementTree.fromstring(svg.encode()).iter("{http://www.w3.org/2000/svg}text")]


def test_names_are_text_not_markup_or_mathematics():
    title = "<script>$\\frac"
    assert title in texts(chart(title).svg)


def test_a_file_and_a_page_draw_the_same():
    drawn, told = chart(), chart().to_dict()
    shown = texts(drawn.svg)
    for words in ("a & b < c $", "steps", "value", "words at a place", "a"):
        assert words in shown
    [panel] = told["panels"]
    assert [each["kind"] for each in panel["layers"]] == [each.kind for each in EVERY_MARK]
    assert (panel["title"], panel["x"], panel["y"]) == ("a & b < c $", "steps", "value")
    assert told["series"] == [{"name": "a", "color": LOOK.color, "dash": [], "mark": LOOK.outline}]
    for color in {each["color"] for each in panel["layers"] if "color" in each} | {LOOK.color}:
        assert color in drawn.svg


@pytest.mark.parametrize(
    "options",
    [
        {"rows": ["first", "second"], "percent": "x"},
        {"rows": ["a name that is too long to stand beside its row", "b"]},
        {"log": "x", "x_domain": (0.1, 10), "x_ticks": [0.1, 1, 10]},
        {"percent": "xy", "y_domain": (0, 1)},
        {"x_ticks": [0, 1], "x_labels": ["none", "all"]},
        {"bare": True},
    ],
)
def test_every_kind_of_panel_is_drawn(options):
    drawn = chart(**options)
    shown = texts(drawn.svg)
    for words in (*options.get("rows", ()), *options.get("x_labels", ())):
        assert words in shown
    assert drawn.to_dict()["panels"][0].get("bare", False) == options.get("bare", False)
    assert any(text.endswith("%") for text in shown) == ("percent" in options)


def test_a_series_that_is_not_shown_is_on_the_page_alone():
    bands = {name: Band(*[np.array([place, 1.0])] * 3, np.array([3, 3])) for place, name in enumerate("abc")}
    drawn = draw_curves("loss", bands, looks("abc"), "loss", most=2)
    assert [name for name in "abc" if name in texts(drawn.svg)] == ["a", "b"]
    assert re.findall(r"<input[^>]*?( checked)? value=\"(.)\"", drawn.to_page()) == [
        (" checked", "a"),
        (" checked", "b"),
        ("", "c"),
    ]
    assert {line.partition(",")[0] for line in drawn.data.splitlines()[1:]} == {"a", "b", "c"}


def test_long_curves_are_read_at_few_places_which_are_the_same_in_all_of_them():
    bands = {
        name: Band(*[np.arange(length, dtype=float)] * 3, np.ones(length)) for name, length in (("a", 100), ("b", 60))
    }
    told = draw_curves("loss", bands, looks("ab"), "loss").to_dict(points=5)
    layers = {(each["kind"], each["series"]): each for each in told["panels"][0]["layers"]}
    assert layers["line", "a"]["x"][0] == 1
    assert layers["line", "a"]["x"][-1] == 100
    assert len(layers["line", "a"]["x"]) == 5
    for kind, part in (("line", "y"), ("band", "low")):
        assert layers[kind, "b"]["x"] == [x for x in layers["line", "a"]["x"] if x <= 60]
        assert layers[kind, "b"][part] == [x - 1 for x in layers[kind, "b"]["x"]]


def test_bars_count_what_lies_between_edges():
    drawn = draw_bars("Degrees", [0.5, 1.5, 3.5], [4, 2], "degrees", x="neighbors", y="nodes", log=True)
    [layer] = drawn.to_dict()["panels"][0]["layers"]
    assert (layer["x"], layer["x2"], layer["y"]) == ([0.5, 1.5], [1.5, 3.5], [4, 2])
    assert "neighbors" in texts(drawn.svg)


def test_what_is_not_finite_is_a_gap_and_a_role_is_a_color():
    found = Layer("line", series="gcn", x=[1, 2], y=[0.5, float("nan")], color="main").to_dict()
    assert found == {"kind": "line", "series": "gcn", "x": [1, 2], "y": [0.5, None], "color": "#1a6fb0"}
    assert [round(each, 3) for each in spread(3)] == [-0.25, 0.059, -0.132]


def test_the_data_of_curves_panels_and_shapes_are_what_is_drawn():
    falling = np.array([1.9, 1.2, 0.9])
    band = Band(falling, falling - 0.1, falling + 0.1, np.array([3, 3, 3]))
    curves = draw_curves("cora: loss", {"gcn": band}, looks(["gcn"]), "loss")
    assert curves.data.splitlines()[1] == "gcn,1,1.9,1.7999999999999998,2.0"
    found = [(level, estimate({("a", 1): 0.8 - level, ("b", 1): 0.8 - level})) for level in (0.0, 0.5)]
    panels = {("links added", "share of the links"): {"gcn": found}}
    robust = draw_panels("Robustness", panels, looks(["gcn"]), "robustness", ylabel="accuracy")
    assert robust.data.splitlines()[:2] == ["panel,curve,place,value,low,high", "links added,gcn,0.0,0.8,0.8,0.8"]
    assert (robust.panels[0].title, robust.panels[0].x, robust.panels[0].y) == (*next(iter(panels)), "accuracy")
    points = [(radius, estimate({("a", 1): 0.8, ("b", 1): 0.8 + radius / 10})) for radius in (0.1, 0.2, 0.4)]
    sweep = draw_sweep("cora: fishergcn", "radius", points, LOOK, None, "sweep")
    assert sweep.label == "cora: fishergcn: accuracy for 3 values of radius"
    shape = draw_shape("cora", np.array([[0.25, 0.5]]), 0.5, LOOK, "shape")
    assert shape.data.splitlines() == ["direction,mean,low,high,radius", "1,0.25,0.25,0.25,0.5", "2,0.5,0.5,0.5,0.5"]
    rows = {"cora": [Row("gcn", 0.81)], "mine": [Row("gcn", 0.7)]}
    assert [panel.title for panel in draw_rows("Accuracy", rows, "rows", x="accuracy").panels] == ["cora", "mine"]


@pytest.mark.parametrize(
    ("distances", "edges"), [([0.0, 1.0], np.linspace(0, 1, 41)), ([2.0, 2.0], [1, 3]), ([0.0, 0.0], [-1, 1])]
)
def test_distances_that_are_equal_have_one_bin(distances, edges):
    [layer] = draw_distances("moves", np.array(distances)).panels[0].layers
    np.testing.assert_allclose([*layer.x, layer.x2[-1]], edges)


def test_equal_input_gives_equal_bytes(tmp_path):
    for suffix, beginning in ((".svg", b"<?xml"), (".png", b"\x89PNG"), (".pdf", b"%PDF")):
        paths = [tmp_path / f"{name}{suffix}" for name in ("first", "second")]
        for path in paths:
            chart().save(path)
        assert paths[0].read_bytes() == paths[1].read_bytes()
        assert paths[0].read_bytes().startswith(beginning)


def test_another_format_is_refused_before_anything_is_written(tmp_path):
    for name in ("x.gif", "x"):
        with pytest.raises(InputError, match=f"a picture must end in .pdf, .png, .svg, got '{name}'"):
            chart().save(tmp_path / name)
    with pytest.raises(DataFileError, match="Cannot write"):
        chart().save(tmp_path / "nowhere" / "x.png")
    assert list(tmp_path.iterdir()) == []
    check_picture(None)


def test_numbers_that_have_no_ticks_between_them_are_refused(tmp_path):
    layer = Layer("line", x=[0, 1], y=[1e308, -1e308])
    made = Chart("far", "Far", [Panel("far apart", "x", "y", [layer])])
    with pytest.raises(InputError, match="the chart 'far apart' cannot be drawn: its values are too large or too far"):
        made.save(tmp_path / "far.png")
    assert not any(tmp_path.iterdir())


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtraError, match=r"A picture needs the package 'matplotlib'.*fishergcn\[report\]"):
        _ = chart().svg
    assert chart().to_dict()["name"] == "one"
