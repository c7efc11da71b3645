"""JSON that means one thing, or is refused."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fishergcn._base.json import parse_json

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=("Cs",))),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_categories=("Cs",))), inner),
)  # fmt: skip


@given(VALUES)
def test_what_was_written_is_read(value):
    assert parse_json(json.dumps(value)) == value
    assert parse_json(json.dumps(value).encode()) == value


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"a": 1, "a": 1}', "the name 'a' comes twice in one object"),
        ('[{"b": {"a": 1, "\\u0061": 2}}]', "the name 'a' comes twice in one object"),
        ("[1e999]", "larger than any float"),
        ("-1e400", "larger than any float"),
        ("[NaN]", "NaN is not a number in JSON"),
        ("-Infinity", "-Infinity is not a number in JSON"),
        ('["\\ud800"]', "half a surrogate pair"),
    ],
)
def test_refused(text, words):
    with pytest.raises(ValueError, match=words):
        parse_json(text)


def test_the_least_and_the_largest_numbers_are_fine():
    assert parse_json("[1e308, 5e-324, 1e-999]") == [1e308, math.ulp(0.0), 0.0]


def test_files_are_read_by_it(tmp_path):
    """A model, an archive and a plan with the same name twice are refused, in one sentence."""
    from fishergcn import studies
    from fishergcn.errors import DataFileError
    from fishergcn.models import load_model

    plan = studies.make_plan("quick", methods=["gcn"], splits=1, seeds=1, epochs=1)
    with studies.run(plan, tmp_path / "runs", device="cpu", workers=1) as runs:
        studies.write_archive(tmp_path / "archive", runs)
    path = tmp_path / "archive" / "plan.json"
    text = path.read_text(encoding="utf-8")
    for change in ('{"title": "x",', '{"more": 1e999,'):
        path.write_text(text.replace("{", change, 1), encoding="utf-8")
        with pytest.raises(DataFileError, match="is not a readable archive of runs"):
            studies.open_runs(tmp_path / "archive")
    (tmp_path / "model.json").write_text('{"format": 1, "format": 2}')
    with pytest.raises(DataFileError, match="comes twice in one object"):
        load_model(tmp_path)
