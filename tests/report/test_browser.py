"""The page in a real browser: headless Chromium, offline."""

from __future__ import annotations

import re
import shutil

import numpy as np
import pytest

from fishergcn.studies._store import open_runs

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
DRIVER = shutil.which("chromedriver")
if CHROMIUM is None or DRIVER is None:
    pytest.skip("chromium and chromedriver are not installed (tools/install_chromium.sh)", allow_module_level=True)
webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed (extra dev)")

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
]


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in [*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"]:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    yield driver
    driver.quit()


@pytest.fixture
def show(browser):
    """Return a function that opens a report at a width and in a color scheme, and checks the console."""

    def opened(folder, *, width=1200, scheme="light"):
        metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        scheme = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", scheme)
        browser.get((folder / "report.html").as_uri())
        return browser

    yield opened
    assert browser.get_log("browser") == []


def all_of(browser, selector):
    return browser.find_elements("css selector", selector)


def curves(browser):
    return [element.get_attribute("data-method") for element in all_of(browser, ".curve")]


def runs_of(folder, cell):
    source = open_runs(folder)
    try:
        return [run for _, run in source.entries("cora", cell)]
    finally:
        source.close()


def contrast(first, second):
    """Return the contrast ratio of two CSS colors, as in WCAG 2."""

    def luminance(color):
        channels = np.array([int(part) for part in re.findall(r"\d+", color)[:3]]) / 255
        linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
        return linear @ [0.2126, 0.7152, 0.0722]

    low, high = sorted([luminance(first), luminance(second)])
    return (high + 0.05) / (low + 0.05)


def test_the_table_shows_the_numbers_of_the_runs(show, plain_report):
    browser = show(plain_report)
    rows = all_of(browser, "table.results tbody tr")
    assert [row.find_element("css selector", "th").text for row in rows] == ["gcn", "gcn-x5", "fishergcn"]
    for row in rows:
        runs = runs_of(plain_report, row.find_element("css selector", "th").text)
        expected = {
            "runs": (len(runs), "10"),
            "accuracy": (np.mean([run.test_accuracy for run in runs]), None),
            "accuracy_std": (np.std([run.test_accuracy for run in runs], ddof=1), None),
            "loss": (np.mean([run.test_loss for run in runs]), None),
        }
        for column, (value, _) in expected.items():
            cell = row.find_element("css selector", f"[data-column={column}]")
            assert float(cell.get_attribute("data-value")) == pytest.approx(value, abs=1e-14)
            shown = 100 * value if column.startswith("accuracy") else value
            digits = len(cell.text.partition(".")[2])
            assert cell.text == f"{shown:.{digits}f}"


def test_differences_are_paired(show, plain_report):
    browser = show(plain_report)
    cells = {row.find_element("css selector", "th").text: row for row in all_of(browser, ".paired tbody tr")}
    ours, control = (
        {(run.split, run.seed): run.test_accuracy for run in runs_of(plain_report, name)}
        for name in ("fishergcn", "gcn-x5")
    )
    expected = np.mean([ours[key] - control[key] for key in ours])
    shown = cells["fishergcn − gcn-x5"].find_element("css selector", "[data-value]").get_attribute("data-value")
    assert float(shown) == pytest.approx(expected, abs=1e-14)
    assert len(cells) == 3


def test_switching_a_method_off_removes_its_curves(show, plain_report):
    browser = show(plain_report)
    assert sorted(set(curves(browser))) == ["fishergcn", "gcn", "gcn-x5"]
    assert len(curves(browser)) == 12
    box = browser.find_element("css selector", "#curves-legend input[value='gcn-x5']")
    box.click()
    assert "gcn-x5" not in curves(browser)
    assert len(curves(browser)) == 8
    assert "gcn-x5" not in [head.text for head in all_of(browser, ".readout tbody th")]
    box.send_keys(" ")  # the keyboard does the same
    assert curves(browser).count("gcn-x5") == 4


def test_no_method_at_all_can_be_shown(show, plain_report):
    browser = show(plain_report)
    for box in all_of(browser, "#curves-legend input"):
        box.click()
    assert curves(browser) == []


def read_out(browser):
    rows = all_of(browser, ".readout tbody tr")
    return {row.find_element("css selector", "th").text: row.find_element("css selector", "td").text for row in rows}


def mean_training_loss(folder, epoch):
    values = [run.curves["train_loss"] for run in runs_of(folder, "gcn")]
    return np.mean([curve[epoch - 1] for curve in values if len(curve) >= epoch])


def test_hovering_shows_the_values(show, plain_report):
    from selenium.webdriver.common.action_chains import ActionChains

    browser = show(plain_report)
    panel = all_of(browser, ".panel")[0]
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", panel)
    seen = []
    for offset in (-130, 60):
        ActionChains(browser).move_to_element_with_offset(panel, offset, 0).perform()
        epoch = int(browser.find_element("css selector", ".slider output").text.split()[1])
        shown = float(read_out(browser)["gcn"].split()[0])
        assert shown == pytest.approx(mean_training_loss(plain_report, epoch), abs=1e-4)
        seen.append(epoch)
    assert seen[0] < seen[1]
    assert len(all_of(browser, ".cursor circle")) == 12


def test_the_keyboard_moves_the_epoch(show, plain_report):
    browser = show(plain_report)
    slider = browser.find_element("css selector", ".slider input")
    slider.send_keys("\ue011")  # Home
    assert browser.find_element("css selector", ".slider output").text == "epoch 1"
    slider.send_keys("\ue014")  # arrow right
    assert browser.find_element("css selector", ".slider output").text == "epoch 2"
    assert float(read_out(browser)["gcn"].split()[0]) == pytest.approx(mean_training_loss(plain_report, 2), abs=1e-4)
    assert slider.get_attribute("aria-valuetext") == "epoch 2"


@pytest.mark.parametrize("width", [390, 768])
@pytest.mark.parametrize("report", ["plain_report", "hostile_report", "ablation_report"])
def test_no_horizontal_scrolling(show, report, width, request):
    browser = show(request.getfixturevalue(report), width=width)
    assert browser.execute_script("return window.innerWidth") == width
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width


def test_dark_and_light_are_both_readable(show, plain_report):
    colors = {}
    for scheme in ("light", "dark"):
        browser = show(plain_report, scheme=scheme)
        page = browser.find_element("css selector", "body").value_of_css_property("background-color")
        colors[scheme] = page
        for selector in (
            "h1",
            ".lead",
            "td.number",
            "figcaption",
            "dd",
            ".panel .title",
            ".pictures svg text",
            "a.data",
        ):
            element = browser.find_element("css selector", selector)
            name = "fill" if selector.startswith((".panel", ".pictures")) else "color"
            assert contrast(element.value_of_css_property(name), page) >= 4.5, (scheme, selector)
    assert colors["light"] != colors["dark"]


def test_print_is_black_on_white_even_in_the_dark(show, plain_report):
    browser = show(plain_report, scheme="dark")
    media = {"media": "print", "features": [{"name": "prefers-color-scheme", "value": "dark"}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    body = browser.find_element("css selector", "body")
    assert body.value_of_css_property("background-color") == "rgba(255, 255, 255, 1)"
    assert body.value_of_css_property("color") == "rgba(0, 0, 0, 1)"
    assert not browser.find_element("css selector", "nav").is_displayed()
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


def test_hostile_texts_are_shown_not_run(show, hostile_report, hostile_name):
    browser = show(hostile_report)
    assert browser.execute_script("return window.hacked === undefined")
    assert browser.title == "</title><script>window.hacked = 2</script>"
    assert hostile_name in [head.text for head in all_of(browser, "h3")]
    assert "<img src=x onerror='window.hacked=3'>" in browser.find_element("css selector", "pre").text
    assert "failed: <b onclick=x>boom</b>" in browser.find_element("css selector", "#failures").text
    texts = browser.execute_script(
        "return [...document.querySelectorAll('.pictures svg text')].map(t => t.textContent)"
    )
    assert hostile_name in texts


def test_nothing_is_requested(show, hostile_report, ablation_report):
    for folder in (hostile_report, ablation_report):
        browser = show(folder)
        assert browser.execute_script("return performance.getEntriesByType('resource').map(e => e.name)") == []


def test_the_data_of_the_curves_can_be_saved(show, plain_report):
    browser = show(plain_report)
    link = browser.find_element("css selector", "#curves-download")
    assert link.is_displayed()
    text = browser.execute_script(
        "let blob; const made = URL.createObjectURL; URL.createObjectURL = (b) => { blob = b; return '#curves'; };"
        "const link = arguments[0]; link.removeAttribute('download'); link.click(); URL.createObjectURL = made;"
        "return blob.text();",
        link,
    )
    lines = text.splitlines()
    assert lines[0] == "dataset,method,curve,epoch,mean,low,high"
    row = next(line.split(",") for line in lines if line.startswith('"cora","gcn",train_loss,3,'))
    assert float(row[4]) == pytest.approx(mean_training_loss(plain_report, 3), rel=1e-4)
