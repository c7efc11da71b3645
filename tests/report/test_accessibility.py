"""Every kind of page, light and dark, wide and narrow, has no serious or critical finding of axe-core."""

from __future__ import annotations

from pathlib import Path

import pytest

AXE = (Path(__file__).parent / "vendor" / "axe.min.js").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("width", "scheme"),
    [
        (1400, "light"),
        (400, "dark"),
        *(pytest.param(*each, marks=pytest.mark.slow) for each in ((1400, "dark"), (400, "light"))),
    ],
)
def test_no_serious_findings(show, any_report, width, scheme):
    browser = show(any_report, width=width, scheme=scheme)
    browser.execute_script(AXE)
    found = browser.execute_async_script(
        "const done = arguments[0]; axe.run(document, { resultTypes: ['violations', 'incomplete'] }).then(done)"
    )
    assert found["testEngine"]["name"] == "axe-core"
    assert len(found["passes"]) > 10
    serious = [
        (each["id"], each["impact"], [node["target"] for node in each["nodes"][:3]])
        for each in found["violations"]
        if each["impact"] in ("serious", "critical")
    ]
    assert serious == []
