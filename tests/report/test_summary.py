"""The first section of the page: for someone who knows neither the methods nor the words."""

from __future__ import annotations

import html
import re

from fishergcn.report import write_report


def summary_of(folder):
    page = (folder / "report.html").read_text()
    section = page[page.index('<section id="summary"') : page.index('<section id="results"')]
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", section)).split())


def test_says_what_was_compared_what_came_out_and_what_to_do_next(plain_report):
    text = summary_of(plain_report)
    for words in ("What was compared", "3 methods", "5 different choices", "What came out",
                  "has a mean test accuracy of", "fishergcn", "its control gcn-x5", "What to do next",
                  "--splits 10 or more", "fishergcn train --edges", "fishergcn compare --edges"):  # fmt: skip
        assert words in text
    assert "Run what is missing" not in text


def test_with_few_splits_nothing_is_measured_in_standard_errors_of_the_paper(plain_report):
    """Five splits of the preset's own settings: the published numbers stay, the distance from them does not."""
    page = (plain_report / "report.html").read_text()
    for text in (page, (plain_report / "tables.md").read_text()):
        assert "std. errors" not in text
        assert "80.00" in text
    assert "A comparison needs at least 10 random splits" in page
    assert "ours − paper" not in page


def test_methods_in_words(tmp_path, make_plan, fill):
    names = ["gcn", "gcn-x5", "fishergcn", "gcn-t", "gcn-t-x5", "fishergcn-t", "mlp-x5-c"]
    write_report(fill(tmp_path, make_plan(["cora"], splits=1, seeds=1, methods=names)))
    listed = re.findall(r"<li><code>([^<]+)</code>: (.*?)</li>", (tmp_path / "report.html").read_text())
    words = {name: text.partition(";")[0] for name, text in listed}
    assert list(words) == names
    assert words["fishergcn"] == "a graph convolutional network, trained on slightly changed versions of the graph"
    assert "without the links" in words["mlp-x5-c"]
    assert len(set(words.values())) == len(names)
