"""Pictures: colors for page and file, ids that do not clash, equal bytes for equal input."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from fishergcn.drawing import _picture
from fishergcn.drawing._picture import GRID, INK, PAPER, Picture, check_picture, new_axes
from fishergcn.errors import DataFileError, InputError, MissingExtraError


def draw(name, title="a & b < c $"):
    with new_axes() as (figure, axes):
        axes.plot([0, 1], [0, 1], "o-", clip_on=True)
        axes.set_title(title)
        axes.grid()
    return Picture(name, "label", figure, "x\n1\n")


def test_the_stand_in_colors_are_replaced():
    picture = draw("one")
    assert INK in picture._drawn
    for svg in (picture.svg, picture.inline_svg):
        assert not re.search(f"{INK}|{GRID}|{PAPER}", svg)
    assert "currentColor" in picture.inline_svg
    assert "currentColor" not in picture.svg


def test_names_are_text_not_markup_or_mathematics():
    title = "<script>$\\frac"
    tree = ElementTree.fromstring(draw("one", title).svg.encode())
    assert title in [element.text for element in tree.iter("{http://www.w3.org/2000/svg}text")]


def test_ids_on_a_page_are_unique_and_resolve():
    page = "".join(draw(name).inline_svg for name in ("one", "Two / three"))
    ids = re.findall(r' id="([^"]+)"', page)
    used = set(re.findall(r'(?:url\(#|href="#)([^")]+)', page))
    assert len(ids) == len(set(ids)) > 0
    assert used == set(ids)


def test_an_inline_picture_has_no_size_of_its_own():
    head = draw("one").inline_svg.partition(">")[0]
    assert "viewBox" in head
    assert "width=" not in head
    assert "height=" not in head


def test_equal_input_gives_equal_bytes(tmp_path):
    first, second = draw("one"), draw("one")
    for suffix, beginning in ((".svg", b"<?xml"), (".png", b"\x89PNG"), (".pdf", b"%PDF")):
        paths = [tmp_path / f"{name}{suffix}" for name in ("first", "second")]
        first.save(paths[0])
        second.save(paths[1])
        assert paths[0].read_bytes() == paths[1].read_bytes()
        assert paths[0].read_bytes().startswith(beginning)
    assert first.inline_svg == second.inline_svg


def test_another_format_is_refused_before_anything_is_written(tmp_path):
    for name in ("x.gif", "x"):
        with pytest.raises(InputError, match=f"a picture must end in .pdf, .png, .svg, got '{name}'"):
            draw("one").save(tmp_path / name)
    with pytest.raises(DataFileError, match="Cannot write"):
        draw("one").save(tmp_path / "nowhere" / "x.png")
    assert list(tmp_path.iterdir()) == []
    check_picture(None)


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    def missing(module, **words):
        raise MissingExtraError(f"{words['purpose']} needs {module}: fishergcn[{words['extra']}]")

    monkeypatch.setattr(_picture, "require", missing)
    with pytest.raises(MissingExtraError, match=r"fishergcn\[report\]"):
        draw("one")
