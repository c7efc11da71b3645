"""The page in a real browser: headless Chromium, offline."""

from __future__ import annotations

import re

import numpy as np
import pytest

from fishergcn.studies import open_runs


def all_of(browser, selector):
    return browser.find_elements("css selector", selector)


def lines(browser):
    """Return the number of curves in each panel of the learning curves."""
    return [
        len(panel.find_elements("css selector", "[data-mark=line] path")) for panel in all_of(browser, "#curves .frame")
    ]


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
    assert lines(browser) == [3] * 4
    box = browser.find_element("css selector", "#curves .legend input[value='gcn-x5']")
    box.click()
    assert lines(browser) == [2] * 4
    assert "gcn-x5" not in [head.text for head in all_of(browser, ".readout tbody th")]
    box.send_keys(" ")  # the keyboard does the same
    assert lines(browser) == [3] * 4


def test_no_method_at_all_can_be_shown(show, plain_report):
    browser = show(plain_report)
    for box in all_of(browser, "#curves .legend input"):
        box.click()
    assert lines(browser) == [0] * 4


def read_out(browser):
    rows = all_of(browser, ".readout tbody tr")
    return {row.find_element("css selector", "th").text: row.find_element("css selector", "td").text for row in rows}


def mean_training_loss(folder, epoch):
    values = [run.curves["train_loss"] for run in runs_of(folder, "gcn")]
    return np.mean([curve[epoch - 1] for curve in values if len(curve) >= epoch])


def test_pointing_at_a_curve_tells_its_value(show, plain_report):
    from selenium.webdriver.common.action_chains import ActionChains

    browser = show(plain_report)
    frame = all_of(browser, "#curves .frame")[0]
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", frame)
    seen = []
    for offset in (-130, 60):
        ActionChains(browser).move_to_element_with_offset(frame, offset, 0).perform()
        words = browser.execute_script(
            "return [...arguments[0].querySelectorAll('[data-mark=tip] text, [aria-label=tip] text')]"
            ".map((text) => [...text.querySelectorAll('tspan')].map((part) => part.textContent).join('|'))",
            frame,
        )
        told = re.search(r"epoch: (\d+)", " ".join(words))
        seen.append(int(told[1]))
    assert seen[0] < seen[1]


def test_the_keyboard_moves_the_epoch(show, plain_report):
    browser = show(plain_report)
    slider = browser.find_element("css selector", ".slider input")
    slider.send_keys("\ue011")  # Home
    assert browser.find_element("css selector", ".slider output").text == "epoch 1"
    slider.send_keys("\ue014")  # arrow right
    assert browser.find_element("css selector", ".slider output").text == "epoch 2"
    assert float(read_out(browser)["gcn"].split()[0]) == pytest.approx(mean_training_loss(plain_report, 2), abs=1e-3)
    assert slider.get_attribute("aria-valuetext") == "epoch 2"


@pytest.mark.parametrize("width", [390, pytest.param(768, marks=pytest.mark.slow), 1400])
def test_no_horizontal_scrolling(show, any_report, width):
    browser = show(any_report, width=width)
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
            ".panel-title",
            ".frame svg text",
            "a.data",
        ):
            element = browser.find_element("css selector", selector)
            name = "fill" if "svg" in selector else "color"
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
    assert "<img src=x onerror='window.hacked=3'>" in browser.find_element("css selector", "#protocol pre").text
    assert "failed: <b onclick=x>boom</b>" in browser.find_element("css selector", "#failures").text
    texts = browser.execute_script(
        "return [...document.querySelectorAll('.panel-title, .frame svg text')].map(t => t.textContent)"
    )
    assert hostile_name in texts


def test_nothing_is_requested_nothing_hostile_runs_and_all_charts_are_drawn(show, any_report):
    browser = show(any_report)
    assert browser.execute_script("return performance.getEntriesByType('resource').map(e => e.name)") == []
    assert browser.execute_script("return window.hacked === undefined && !document.querySelector('main i, main img')")
    frames = all_of(browser, ".frame")
    assert frames
    assert all(len(frame.find_elements("css selector", "svg[role=img]")) == 1 for frame in frames)
    assert "⚠" not in browser.find_element("css selector", "main").text  # a warning of the charting library


def test_the_page_is_small(any_report):
    assert (any_report / "report.html").stat().st_size < 2_000_000


def column(browser, table, place):
    return [row.find_elements("css selector", "th, td")[place].text for row in all_of(browser, f"{table} tbody tr")]


def test_tables_sort_by_click_and_by_keyboard(show, plain_report):
    browser = show(plain_report)
    head = all_of(browser, "table.results thead tr:last-child th")[2]
    sorter = head.find_element("css selector", "button")
    before = column(browser, "table.results", 2)
    sorter.click()
    assert head.get_attribute("aria-sort") == "descending"
    assert column(browser, "table.results", 2) == sorted(before, key=float, reverse=True)
    sorter.send_keys("\ue007")  # Enter
    assert head.get_attribute("aria-sort") == "ascending"
    assert column(browser, "table.results", 2) == sorted(before, key=float)
    sorter.send_keys(" ")
    assert head.get_attribute("aria-sort") is None
    assert column(browser, "table.results", 2) == before


def test_sorting_knows_signs_and_puts_dashes_last(show, models_report):
    browser = show(models_report)
    heads = all_of(browser, "#models thead th")
    [place] = [at for at, head in enumerate(heads) if "epochs" in head.text]
    heads[place].find_element("css selector", "button").click()
    found = column(browser, "#models table", place)
    assert found == sorted(found, key=int, reverse=True)


def pasted(browser):
    return browser.execute_async_script("navigator.clipboard.readText().then(arguments[0])")


def test_tables_and_commands_are_copied(show, plain_report):
    browser = show(plain_report)
    browser.execute_cdp_cmd(
        "Browser.grantPermissions", {"permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]}
    )
    [made] = all_of(browser, "#protocol .copy")
    made.click()
    assert pasted(browser) == "fishergcn reproduce x"
    made = browser.find_element("css selector", "#differences .tools button")
    assert made.text == "Copy table"
    made.send_keys("\ue007")
    rows = [line.split("\t") for line in pasted(browser).splitlines()]
    assert rows[0][:3] == ["difference", "accuracy, points", "95% interval"]
    assert [row[0] for row in rows[1:]] == column(browser, "table.paired", 0)
    assert len({len(row) for row in rows}) == 1
    assert made.text == "Copied"


def test_copying_works_without_a_clipboard_of_the_browser(show, plain_report):
    browser = show(plain_report)
    browser.execute_script(
        "navigator.clipboard.writeText = () => Promise.reject(new Error('no'));"
        "document.execCommand = () => { window.selected = document.activeElement.value; return true; };"
    )
    made = browser.find_element("css selector", "#protocol .copy")
    made.click()
    assert browser.execute_script("return window.selected") == "fishergcn reproduce x"
    assert browser.find_elements("css selector", "body > textarea") == []


def epochs_shown(browser):
    ticks = browser.execute_script(
        "const frame = document.querySelector('#curves .frame');"
        "return [...frame.querySelectorAll('[data-mark=\"x-axis tick label\"] text')]"
        ".map((each) => Number(each.textContent))"
    )
    return min(ticks), max(ticks)


def test_curves_zoom_by_buttons_keys_and_dragging(show, plain_report):
    from selenium.webdriver.common.action_chains import ActionChains

    browser = show(plain_report)
    whole = epochs_shown(browser)
    tools = {made.text: made for made in all_of(browser, "#curves .zoom button")}
    tools["Zoom in"].click()
    near = epochs_shown(browser)
    assert whole[0] < near[0] < near[1] < whole[1]
    assert "showing 3" in browser.find_element("css selector", "#curves .zoom [role=status]").text
    tools["Zoom in"].send_keys("\ue014")  # arrow right moves
    assert epochs_shown(browser)[1] > near[1]
    tools["Zoom in"].send_keys("0")
    assert epochs_shown(browser) == whole
    assert browser.find_element("css selector", "#curves .zoom [role=status]").text == ""
    frame = all_of(browser, "#curves .frame")[0]
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", frame)
    ActionChains(browser).move_to_element_with_offset(frame, -60, 0).click_and_hold().move_by_offset(
        100, 0
    ).release().perform()
    dragged = epochs_shown(browser)
    assert dragged[0] > whole[0]
    assert dragged[1] < whole[1]
    tools["Show all"].click()
    assert epochs_shown(browser) == whole


def test_everything_that_acts_is_reached_by_the_keyboard(show, any_report):
    from selenium.webdriver.common.keys import Keys

    browser = show(any_report)
    wanted = browser.execute_script(
        "return [...document.querySelectorAll('a[href], button, input, summary, [tabindex=\"0\"]')]"
        ".filter((each) => each.getClientRects().length).length"
    )
    browser.execute_script("window.seen = new Set(); document.addEventListener('focusin', (e) => seen.add(e.target))")
    body = browser.find_element("css selector", "body")
    body.send_keys(*[Keys.TAB] * (wanted + 5))
    assert browser.execute_script("return seen.size") >= wanted


def test_charts_use_the_width(show, any_report):
    for width in (1400, 400):
        browser = show(any_report, width=width)
        chart, frame = (browser.find_element("css selector", each).size["width"] for each in (".chart", ".frame svg"))
        assert chart >= width - 70
        panels = len(all_of(browser, ".chart:first-of-type .panels:first-child > .panel"))
        assert frame > 0.9 * chart / max(panels, 1) - 40


def test_single_runs_are_points(show, plain_report):
    browser = show(plain_report)
    dots = browser.execute_script(
        "return document.querySelectorAll('#headline .frame [data-mark=dot] circle, "
        "#headline .frame [data-mark=dot] path').length"
    )
    assert dots == 3 * 10 + 3


OVERLAPS = """
const boxes = (frame, selector) => [...frame.querySelectorAll(selector)].map((each) => each.getBoundingClientRect());
const met = (one, other) => one.left < other.right - 1 && other.left < one.right - 1
  && one.top < other.bottom - 1 && other.top < one.bottom - 1;
return [...document.querySelectorAll("#headline .frame svg")].flatMap((frame) => {
  const names = boxes(frame, "[data-mark=text] text");
  const marks = boxes(frame, "[data-mark=dot] path, [data-mark=dot] circle, [data-mark=rule] line");
  return names.filter((name) => marks.some((mark) => mark.height < 40 && met(name, mark))).map((name) => name.top);
});
"""


@pytest.mark.parametrize(
    "kind", ["plain_report", "robustness_report", "models_report", "model_report", "search_report"]
)
def test_names_of_rows_stand_clear_of_the_marks_on_a_narrow_page(show, request, kind):
    browser = show(request.getfixturevalue(kind), width=400)
    assert all_of(browser, "#headline .frame [data-mark=text] text")
    assert browser.execute_script(OVERLAPS) == []


INSIDE = """
const frame = document.querySelector("#headline .frame svg"), box = frame.getBoundingClientRect();
return [...frame.querySelectorAll("[data-mark=text] text, [data-mark='y-axis tick label'] text")].map((each) => {
  const own = each.getBoundingClientRect();
  const lines = [...each.querySelectorAll("tspan")].map((line) => line.textContent);
  return [lines.length ? lines.join(" ") : each.textContent, own.left >= box.left - 1 && own.right <= box.right + 1];
});
"""


@pytest.mark.parametrize("width", [1400, 400])
@pytest.mark.parametrize("kind", ["model_report", "search_report"])
def test_candidates_are_named_in_words_that_are_not_cut(show, request, charts_of, kind, width):
    folder = request.getfixturevalue(kind)
    [panel] = charts_of(folder)["headline"]["panels"]
    shown = show(folder, width=width).execute_script(INSIDE)
    assert [" ".join(text.split()) for text, _ in shown] == panel["rows"]
    assert all(inside for _, inside in shown)


def test_trials_are_counted_in_whole_numbers(show, tuning_report):
    browser = show(tuning_report)
    ticks = [each.text for each in all_of(browser, "#headline .frame [data-mark='x-axis tick label'] text")]
    assert len(ticks) > 1
    assert all(tick.isdigit() for tick in ticks)


@pytest.mark.parametrize("width", [1400, 400])
def test_no_option_of_a_command_is_broken(show, plain_report, width):
    browser = show(plain_report, width=width)
    options = all_of(browser, ".command .option")
    assert {"--edges", "--out"} <= {each.text for each in options}
    assert max(each.size["height"] for each in options) < 30


@pytest.mark.parametrize("kind", ["model_report", "plain_report"])
def test_heads_beyond_the_screen_leave_no_gap_above_those_in_view(show, request, kind):
    heads = all_of(show(request.getfixturevalue(kind), width=400), "table:not(.heat-table) thead")
    assert heads
    assert max(each.size["height"] for each in heads if each.is_displayed()) <= 105  # four lines


def test_heads_of_the_confusion_matrix_stand_upright_where_it_is_narrow(show, model_report):
    for width, mode in ((1400, "horizontal-tb"), (400, "vertical-rl")):
        heads = all_of(show(model_report, width=width), ".heat-table thead th.number")
        assert {each.value_of_css_property("writing-mode") for each in heads} == {mode}
