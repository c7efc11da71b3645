"""Nothing that comes from data becomes markup."""

from __future__ import annotations

import base64
import json
from html.parser import HTMLParser

from hypothesis import given, settings
from hypothesis import strategies as st

from fishergcn._base.foreign import printable
from fishergcn.drawing import Html, data_link, json_script, tag

TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\r\0"), max_size=40)  # HTML changes these two
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)


class Reader(HTMLParser):
    """Collect what a browser would see: tags, attributes, text."""

    def __init__(self, markup):
        super().__init__(convert_charrefs=True)
        self.tags, self.attributes, self.text = [], {}, ""
        self.feed(markup)
        self.close()

    def handle_starttag(self, name, attributes):
        self.tags.append(name)
        self.attributes.update(attributes)

    def handle_data(self, data):
        self.text += data


@settings(max_examples=50)
@given(TEXT, TEXT)
def test_text_and_attributes_come_back(text, value):
    seen = Reader(tag("p", text, title=value))
    assert seen.tags == ["p"]
    assert seen.text == printable(text, keep="\n\t")
    assert seen.attributes == {"title": printable(value, keep="\n\t")}


def test_markup_is_kept_only_where_it_was_made():
    assert tag("p", tag("b", "x"), "<b>") == "<p><b>x</b>&lt;b&gt;</p>"
    assert tag("p", Html("<i>")) == "<p><i></p>"
    assert tag("td", "a < b", class_="number", data_value=0.5) == '<td class="number" data-value="0.5">a &lt; b</td>'


def test_attributes_without_value():
    assert tag("input", hidden=True, checked=False, value=None, class_="a") == '<input hidden class="a">'


def test_full_precision():
    assert Reader(tag("td", data_value=0.1 + 0.2)).attributes["data-value"] == "0.30000000000000004"


@settings(max_examples=50)
@given(JSON)
def test_json_comes_back_and_cannot_close_its_element(value):
    written = json_script("d", value)
    inner = written.removeprefix('<script type="application/json" id="d">').removesuffix("</script>")
    assert not set("<>&") & set(inner)
    assert json.loads(inner) == value


@settings(max_examples=50)
@given(TEXT)
def test_data_links_carry_their_content(content):
    link = Reader(data_link("data", "a.csv", content)).attributes["href"]
    assert base64.b64decode(link.partition("base64,")[2]).decode() == content


def test_a_data_link_saves_a_file():
    assert data_link("data", "a.csv", "x") == (
        '<a class="data" download="a.csv" href="data:text/csv;charset=utf-8;base64,eA==">data</a>'
    )
