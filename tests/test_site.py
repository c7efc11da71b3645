"""The documentation as a site: built with its notebooks run, and read in a browser without a network."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from html.parser import HTMLParser
from pathlib import Path

import pytest

pytest.importorskip("myst_nb", reason="myst-nb is not installed (extra dev)")
pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parent.parent
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
DRIVER = shutil.which("chromedriver")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Build the site as ``make docs`` does, with a proxy that leads nowhere in place of a network."""
    place = tmp_path_factory.mktemp("site")
    nowhere = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9")
    words = ["-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", ROOT / "docs", place / "html"]
    done = subprocess.run(
        [sys.executable, *map(str, words), "-d", str(place / "doctrees")],
        env=os.environ | nowhere | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return place / "html"


class Loads(HTMLParser):
    """What a page makes a browser fetch by itself; a link that one may follow does not count."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self._in_script = False

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self._in_script = tag == "script"
        if tag in ("script", "img", "iframe", "source", "video", "audio", "embed"):
            self.found.append(given.get("src") or "")
        if tag == "link" and given.get("rel") not in ("canonical", "index", "search", "next", "prev", "author"):
            self.found.append(given.get("href") or "")

    def handle_endtag(self, tag):
        self._in_script = self._in_script and tag != "script"

    def handle_data(self, data):
        if self._in_script:
            self.found += [word for word in data.replace('"', " ").split() if "//cdn" in word or "unpkg" in word]


def test_no_page_loads_anything_from_elsewhere(site):
    pages = list(site.rglob("*.html"))
    sources = [path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("[a-z]*.md")]
    assert len(sources) > 20
    assert {site / path.with_suffix(".html") for path in sources} <= set(pages)
    for page in pages:
        loads = Loads()
        loads.feed(page.read_text(encoding="utf-8"))
        found = [each for each in loads.found if "://" in each or each.startswith("//")]
        assert found == [], page.name
        local = [each.partition("?")[0] for each in loads.found if each and not each.startswith("data:")]
        assert [each for each in local if not (page.parent / each).is_file()] == [], page.name
    styles = [path for path in site.rglob("*.css") if "url(http" in path.read_text(encoding="utf-8")]
    assert styles == []


def test_every_notebook_was_run(site):
    notebooks = sorted((ROOT / "docs" / "gallery").glob("*.md"))
    assert len(notebooks) >= 5
    for notebook in notebooks:
        cells = notebook.read_text(encoding="utf-8").count("```{code-cell}")
        page = (site / "gallery" / f"{notebook.stem}.html").read_text(encoding="utf-8")
        assert cells > 1
        assert page.count('class="cell docutils') + page.count('class="cell tag') == cells, notebook.name
        assert page.count('class="cell_output') > cells // 2, notebook.name
        assert "Traceback" not in page


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed (extra dev)")
    if CHROMIUM is None or DRIVER is None:
        pytest.skip("chromium and chromedriver are not installed (tools/install_chromium.sh)")
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    flags = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--disable-background-networking",
    ]
    for flag in [*flags, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"]:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    driver.execute_cdp_cmd("Network.enable", {})
    everywhere = {"offline": True, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
    driver.execute_cdp_cmd("Network.emulateNetworkConditions", everywhere)
    yield driver
    driver.quit()


def requests_of(browser):
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    sent = [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]
    return [url for url in sent if url.startswith("http")]


def wait_for(browser, script, seconds=30):
    for _ in range(10 * seconds):
        if found := browser.execute_script(script):
            return found
        time.sleep(0.1)
    raise AssertionError(f"{script} stayed false for {seconds} seconds")


@pytest.mark.parametrize("page", ["mathematics", "gallery/large", "gallery/geometry"])
def test_formulas_are_typeset_offline(site, browser, page):
    browser.get((site / f"{page}.html").as_uri())
    wait_for(browser, "return !!(window.MathJax && MathJax.startup && MathJax.startup.promise)")
    browser.execute_async_script("MathJax.startup.promise.then(arguments[0])")
    formulas = browser.execute_script("return document.querySelectorAll('span.math, div.math').length")
    drawn = browser.execute_script(
        "const all = [...document.querySelectorAll('span.math, div.math')];"
        "return all.filter(each => each.querySelector('mjx-container svg path')).length"
    )
    assert formulas > 2
    assert drawn == formulas
    assert browser.execute_script("return document.querySelectorAll('[data-mjx-error]').length") == 0
    assert requests_of(browser) == []
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []


@pytest.mark.parametrize("words", ["Bures", "control_of", "Dockerfile"])
def test_search_finds_pages_offline(site, browser, words):
    browser.get(f"{(site / 'search.html').as_uri()}?q={words}")
    found = wait_for(browser, "return document.querySelectorAll('#search-results li a').length")
    assert found > 0
    assert requests_of(browser) == []
