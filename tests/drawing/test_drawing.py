"""Pictures: colors for page and file, ids that do not clash, equal bytes for equal input."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from fishergcn.drawing import _drawing
from fishergcn.drawing._drawing import GRID, INK, PAPER, inline_svg, new_axes, render
from fishergcn.errors import MissingExtraError


def draw(name, title="a & b < c $"):
    with new_axes() as (figure, axes):
        axes.plot([0, 1], [0, 1], "o-", clip_on=True)
        axes.set_title(title)
        axes.grid()
        return render(figure, name, "label", "x\n1\n")


def test_the_stand_in_colors_are_replaced():
    picture = draw("one")
    assert INK in picture.svg
    for svg in (picture.svg_file, inline_svg(picture)):
        assert not re.search(f"{INK}|{GRID}|{PAPER}", svg)
    assert "currentColor" in inline_svg(picture)
    assert "currentColor" not in picture.svg_file


def test_names_are_text_not_markup_or_mathematics():
    title = "<script>$\\frac"
    tree = ElementTree.fromstring(draw("one", title).svg_file.encode())
    assert title in [element.text for element in tree.iter("{http://www.w3.org/2000/svg}text")]


def test_ids_on_a_page_are_unique_and_resolve():
    page = "".join(inline_svg(draw(name)) for name in ("one", "Two / three"))
    ids = re.findall(r' id="([^"]+)"', page)
    used = set(re.findall(r'(?:url\(#|href="#)([^")]+)', page))
    assert len(ids) == len(set(ids)) > 0
    assert used == set(ids)


def test_an_inline_picture_has_no_size_of_its_own():
    head = inline_svg(draw("one")).partition(">")[0]
    assert "viewBox" in head
    assert "width=" not in head
    assert "height=" not in head


def test_equal_input_gives_equal_bytes():
    first, second = draw("one"), draw("one")
    assert (first.svg, first.png) == (second.svg, second.png)
    assert first.png.startswith(b"\x89PNG")


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    def missing(module, **words):
        raise MissingExtraError(f"{words['purpose']} needs {module}: fishergcn[{words['extra']}]")

    monkeypatch.setattr(_drawing, "require", missing)
    with pytest.raises(MissingExtraError, match=r"fishergcn\[report\]"):
        draw("one")
