"""CITATION.cff is valid and agrees with the package and with the documentation.

``cff/schema-1.2.0.json`` is the schema of the Citation File Format 1.2.0 by Stephan Druskat and others, CC BY 4.0.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import fishergcn

yaml = pytest.importorskip("yaml")
ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def citation():
    return yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))


def test_valid(citation):
    validation = pytest.importorskip("jsonschema")
    schema = json.loads((ROOT / "tests" / "cff" / "schema-1.2.0.json").read_text(encoding="utf-8"))
    validation.validate(citation, schema)
    with pytest.raises(validation.ValidationError):
        validation.validate(citation | {"version": ["0.2"]}, schema)
    assert "&" not in (ROOT / "CITATION.cff").read_text(encoding="utf-8")  # some readers allow no aliases


def test_software_and_paper(citation):
    assert (citation["title"], citation["type"], citation["license"]) == ("FisherGCN", "software", "MIT")
    paper = citation["preferred-citation"]
    assert paper["title"] == "Fisher-Bures Adversary Graph Convolutional Networks"
    assert [author["family-names"] for author in paper["authors"]] == ["Sun", "Koniusz", "Wang"]
    assert (paper["year"], paper["url"]) == (2019, "https://arxiv.org/abs/1903.04154")


def test_the_version_is_the_same_everywhere(citation):
    page = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert str(citation["version"]) == fishergcn.__version__
    assert re.findall(r"version = \{(.*)\}", page) == [fishergcn.__version__]
    assert re.findall(r"^## (\S+)", changes, flags=re.MULTILINE)[0] == re.sub(r"\.dev\d+$", "", fishergcn.__version__)


def test_the_page_cites_the_same_paper(citation):
    page = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    paper = citation["preferred-citation"]
    authors = " and ".join(f"{each['family-names']}, {each['given-names']}" for each in paper["authors"])
    for each in (paper["title"], authors, paper["url"], str(paper["year"]), paper["collection-title"]):
        assert f"{{{each}}}" in page
