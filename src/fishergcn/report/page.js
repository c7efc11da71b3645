// What makes the page move: charts (drawn by Observable Plot), tables that sort, buttons that copy.
// Everything comes from the JSON block #charts-data or from the page itself; text goes in as text, never as markup.
"use strict";
(() => {
  const NARROW = 560, LONG_NAME = 34, LINE = 18; // pixels, characters, pixels
  const html = (name, properties = {}, ...children) => {
    const element = Object.assign(document.createElement(name), properties);
    element.append(...children);
    return element;
  };
  const button = (text, action, label) => {
    const made = html("button", { type: "button", textContent: text });
    if (label) made.setAttribute("aria-label", label);
    made.addEventListener("click", action);
    return made;
  };

  // ---- Copying -------------------------------------------------------------------------------------------------
  const told = html("div", { className: "hidden" }); // read out by screen readers
  told.setAttribute("role", "status");
  document.querySelector("main").append(told);
  const copied = async (text, made) => {
    const before = made.textContent;
    let done = true;
    try { await navigator.clipboard.writeText(text); } catch {
      const area = html("textarea", { value: text, readOnly: true });
      document.body.append(area);
      area.select();
      done = document.execCommand("copy");
      area.remove();
      made.focus();
    }
    told.textContent = made.textContent = done ? "Copied" : "Not copied";
    setTimeout(() => { made.textContent = before; told.textContent = ""; }, 1500);
  };
  for (const block of document.querySelectorAll("pre > code")) {
    const made = button("Copy", () => copied(block.textContent, made), "Copy the command");
    made.className = "copy";
    block.parentElement.before(made);
  }

  // ---- Tables --------------------------------------------------------------------------------------------------
  const shown = (cell) => cell.innerText.replace(/\s+/g, " ").trim();
  const valueOf = (cell) => {
    if (!cell) return "";
    const given = cell.dataset.value ?? cell.dataset.low;
    const text = given ?? shown(cell).replace(/[,%\s]/g, "").replace("−", "-").replace(/^[+<]/, "");
    const number = Number(text);
    return text !== "" && Number.isFinite(number) ? number : shown(cell);
  };
  const compare = (one, other) => {
    if (typeof one === "number" && typeof other === "number") return one - other;
    if (typeof one !== typeof other) return typeof one === "number" ? -1 : 1; // numbers before dashes
    return one.localeCompare(other, "en", { numeric: true });
  };
  for (const table of document.querySelectorAll("main table:not(.plain)")) {
    const heads = [...table.tHead.rows[table.tHead.rows.length - 1].cells];
    const body = table.tBodies[0], original = [...body.rows];
    if (original.length > 1) heads.forEach((head, column) => {
      const made = button("", () => {
        const now = head.getAttribute("aria-sort");
        const next = { none: "descending", descending: "ascending", ascending: "none" }[now ?? "none"];
        heads.forEach((each) => each.removeAttribute("aria-sort"));
        const sign = next === "ascending" ? 1 : -1;
        const order = original.map((row) => [valueOf(row.cells[column]), row]);
        if (next !== "none") {
          head.setAttribute("aria-sort", next);
          order.sort(([one], [other]) => typeof one === typeof other ? sign * compare(one, other) : compare(one, other));
        }
        body.append(...order.map(([, row]) => row));
      });
      made.className = "sort";
      made.append(...head.childNodes);
      head.append(made);
    });
    const made = button("Copy table", () => copied([...table.rows].map((row) =>
      [...row.cells].flatMap((cell) => [shown(cell), ...Array(cell.colSpan - 1).fill("")]).join("\t")).join("\n") + "\n", made));
    (table.closest(".scroll") ?? table).after(html("p", { className: "tools" }, made));
  }

  // ---- Charts --------------------------------------------------------------------------------------------------
  const source = document.getElementById("charts-data");
  if (!source) return;
  const charts = JSON.parse(source.textContent);

  const rowsOf = (layer) => {
    const columns = Object.entries(layer).filter(([, value]) => Array.isArray(value));
    const length = columns.length ? columns[0][1].length : 0;
    return Array.from({ length }, (_, i) => Object.fromEntries(columns.map(([name, values]) => [name, values[i]])));
  };
  const symbol = (corners) => ({ draw(context, size) {
    const radius = Math.sqrt(size / Math.PI) * 1.15;
    corners.forEach(([x, y], i) => context[i ? "lineTo" : "moveTo"](radius * x, radius * y));
    context.closePath();
  } });
  const round = (value) => value.toLocaleString("en-US", { maximumSignificantDigits: 4 });
  const formats = (panel) => {
    const one = (axis) => panel.percent?.includes(axis) ? (value) => `${+(100 * value).toFixed(3)}%` : undefined;
    return { x: one("x"), y: one("y") };
  };
  const inWords = (panel, value, axis) => value === null || value === undefined ? "–"
    : panel.percent?.includes(axis) ? `${(100 * value).toFixed(2)}%` : round(value);

  // The marks of a layer, in the look of its series. A layer of rows is drawn in the panel's own colors.
  const marksOf = (layer, rows, look, zoomed) => {
    const color = layer.color ?? look?.color ?? "currentColor";
    const dash = (layer.dash ?? look?.dash ?? []).join(" ") || undefined;
    const strong = { strokeWidth: layer.size ?? 2, strokeOpacity: layer.opacity ?? 1 };
    switch (layer.kind) {
      case "line": return [Plot.line(rows, { x: "x", y: "y", curve: layer.step ? "step-after" : "linear", stroke: color, strokeWidth: 2, strokeDasharray: dash, clip: true })];
      case "band": return [Plot.areaY(rows, { x: "x", y1: "low", y2: "high", fill: color, fillOpacity: layer.opacity ?? 0.14, clip: true })];
      case "dot": return [Plot.dot(rows, { x: "x", y: "y", r: layer.size ?? 4, fill: layer.hollow ? "var(--page)" : color,
        fillOpacity: layer.opacity ?? 1, stroke: layer.opacity ? "none" : color, strokeWidth: 1.6,
        symbol: look ? symbol(look.mark) : "circle", clip: zoomed })];
      case "rangeX": return [Plot.ruleY(rows, { y: "y", x1: "low", x2: "high", stroke: color, ...strong, clip: true })];
      case "rangeY": return [Plot.ruleX(rows, { x: "x", y1: "low", y2: "high", stroke: color, ...strong, clip: true })];
      case "rect": return [Plot.rectY(rows, { x1: "x", x2: "x2", y: "y", fill: color, fillOpacity: layer.opacity ?? 0.75, inset: 0.5, clip: true })];
      case "stem": return [Plot.ruleX(rows, { x: "x", y1: 0, y2: "y", stroke: color, strokeWidth: layer.size ?? 1.5, strokeOpacity: layer.opacity ?? 0.6, clip: true })];
      case "rule": return [Plot[layer.axis === "x" ? "ruleX" : "ruleY"]([layer.at], { stroke: color, strokeOpacity: layer.opacity ?? 0.8, strokeDasharray: dash, clip: true })];
      case "link": return [Plot.link(rows, { x1: "x", y1: "y", x2: "x2", y2: "y2", stroke: color, ...strong, strokeDasharray: dash })];
      case "arrow": return [Plot.arrow(rows, { x1: "x", y1: "y", x2: "x2", y2: "y2", stroke: color, headLength: 5 })];
      case "text": return [Plot.text(rows, { x: "x", y: "y", text: "text", dy: -16, fill: "currentColor", stroke: "var(--page)", strokeWidth: 3, lineWidth: 14, textOverflow: "ellipsis" })];
    }
    return [];
  };

  // The values of x that a panel shows when all of it is seen.
  const extentOf = (panel) => panel.xDomain ?? d3.extent(panel.layers.flatMap((layer) =>
    ["x", "x2", "low", "high"].flatMap((name) => (layer.kind === "rangeX" || !["low", "high"].includes(name)) ? layer[name] ?? [] : [])));
  // What a window (fractions of the whole) leaves of a panel, on a scale that may be logarithmic.
  const windowed = ([low, high], [start, end], log) => {
    const scale = (log ? d3.scaleLog() : d3.scaleLinear()).domain([low, high]).range([0, 1]);
    return [scale.invert(start), scale.invert(end)];
  };

  function draw(chart, panel, state, width) {
    const longest = d3.max(panel.rows ?? [], (text) => text.length) ?? 0, narrow = width < NARROW || longest > LONG_NAME;
    const title = (panel.x ?? "").length * 7 > width ? panel.x.replace("percentage points, ", "") : panel.x;
    const whole = extentOf(panel), log = panel.log?.includes("x");
    const zoomed = state.window[0] > 0 || state.window[1] < 1;
    const domain = zoomed ? windowed(whole, state.window, log) : panel.xDomain;
    const seen = panel.layers.filter((layer) => !state.hidden.has(layer.series));
    const looks = new Map(chart.series.map((each) => [each.name, each]));
    const marks = [], points = [], rowed = Boolean(panel.rows);
    // Where the page is narrow, or a name long, each row has its name above its marks, which keep the height they have
    // beside it.
    const nameHeight = narrow ? LINE * Math.min(3, Math.ceil(longest * 8 / width)) : 0;
    const own = panel.rowHeight ?? 30, rowHeight = own + nameHeight, side = Math.min(width, 600);
    const below = (y) => Math.round(y) + ((y - Math.round(y)) * own + nameHeight / 2) / rowHeight;
    for (const layer of seen) {
      let rows = rowsOf(layer);
      if (rowed && narrow) rows = rows.map((row) => row.y === undefined ? row : { ...row, y: below(row.y) });
      if (zoomed && rows.length && rows[0].x !== undefined) // neighbors outside stay, so that lines reach the frame
        rows = rows.filter((row, i) => [rows[i - 1], row, rows[i + 1]].some((each) => each && each.x >= domain[0] && each.x <= domain[1]));
      const look = looks.get(layer.series);
      marks.push(...marksOf(layer, rows, look, zoomed));
      if (layer.kind === "rect") // one points at the middle of a bar
        for (const row of rows) points.push({ ...row, x: log ? Math.sqrt(row.x * row.x2) : (row.x + row.x2) / 2 });
      else if (["line", "dot", "stem"].includes(layer.kind) && layer.color !== "var(--page)" && !(layer.kind === "dot" && seen.some((other) => other.kind === "line" && other.series === layer.series)))
        for (const row of rows) if (row.x !== null && row.y !== null) points.push({ ...row, series: layer.series, low: row.low, high: row.high });
    }
    const shown = formats(panel);
    const told = (point) => point.text ?? [point.series, `${panel.x || "x"}: ${inWords(panel, point.x, "x")}`,
      rowed ? panel.rows[Math.round(point.y)] : `${panel.y || "y"}: ${inWords(panel, point.y, "y")}`].filter(Boolean).join("\n");
    if (points.length && points.length < 20000) {
      if (!rowed && !panel.bare) marks.push(Plot.ruleX(points, Plot.pointerX({ x: "x", stroke: "currentColor", strokeOpacity: 0.35 })));
      marks.push(Plot.tip(points, (rowed || panel.bare ? Plot.pointer : Plot.pointerX)({ x: "x", y: "y", title: told,
        fill: "var(--card)", stroke: "var(--line)", textPadding: 7, maxRadius: rowed || panel.bare ? 30 : 60 })));
    }
    if (rowed && narrow) marks.push(Plot.text(panel.rows, { y: (_, i) => i - 0.5, text: (text) => text, frameAnchor: "left",
      textAnchor: "start", lineAnchor: "bottom", dy: nameHeight + 2, fill: "currentColor", stroke: "var(--page)", strokeWidth: 4, fontSize: 13,
      lineWidth: width / 15 }));
    // Words at given places: the axis of a logarithmic scale would leave some of them out.
    const most = Math.max(3, Math.min(10, Math.floor(width / 85)));
    const ticks = panel.xTicks && !zoomed ? panel.xTicks : log ? logTicks(domain ?? whole, width)
      : counted(panel) ? d3.ticks(...(domain ?? whole), most).filter(Number.isInteger) : null;
    if (ticks) marks.push(Plot.axisX(ticks, { text: ticks.map((value, i) => panel.xLabels?.[i] ?? shown.x?.(value) ?? round(value)),
      label: title || null, labelAnchor: "center", labelArrow: "none", labelOffset: 38 }));
    const svg = Plot.plot({
      width: panel.bare ? side : width,
      height: panel.bare ? side : rowed ? panel.rows.length * rowHeight + 62 : panel.height,
      marginLeft: panel.bare ? 20 : rowed ? (narrow ? 6 : Math.max(60, longest * 7.2 + 14)) : 52,
      marginRight: panel.bare ? 20 : 16, marginTop: panel.bare ? 20 : rowed ? 12 : 24, marginBottom: panel.bare ? 20 : 42,
      style: { background: "transparent", color: "inherit", fontFamily: "inherit", fontSize: "13px", overflow: "visible" },
      x: panel.bare ? { axis: null } : { type: log ? "log" : "linear", domain, insetLeft: rowed ? 8 : 0, insetRight: rowed ? 8 : 0, label: title || null, labelAnchor: "center", labelArrow: "none",
        labelOffset: 38, ticks: most, tickFormat: shown.x, grid: rowed, ...(ticks ? { axis: null } : {}) },
      y: panel.bare ? { axis: null } : rowed
        ? { domain: [panel.rows.length - 0.5, -0.5], label: null, ticks: narrow ? [] : d3.range(panel.rows.length),
          tickSize: 0, tickFormat: (row) => panel.rows[row] ?? "", axis: narrow ? null : "left" }
        : { type: panel.log?.includes("y") ? "symlog" : "linear", domain: panel.yDomain, label: panel.y || null, labelArrow: "none",
          nice: !panel.yDomain, ticks: 5, tickFormat: shown.y, grid: true },
      marks,
    });
    svg.setAttribute("role", "img");
    svg.setAttribute("aria-label", panel.title ? `${chart.label}: ${panel.title}` : chart.label);
    for (const part of svg.querySelectorAll("[aria-label]")) { // names of marks that no reader needs, but tests do
      part.dataset.mark = part.getAttribute("aria-label");
      part.removeAttribute("aria-label");
    }
    if (chart.zoom) brushable(svg, panel, state, width);
    return svg;
  }
  const logTicks = ([low, high], width) => {
    const powers = d3.range(Math.floor(Math.log10(low)), Math.ceil(Math.log10(high)) + 1);
    const every = (steps) => powers.flatMap((power) => steps.map((step) => +(step * 10 ** power).toPrecision(6)))
      .filter((value) => value >= low && value <= high);
    const most = Math.max(3, width / 70);
    const found = [[1, 2, 5], [1, 3], [1]].map(every).find((some) => some.length <= most) ?? every([1]);
    return found.length > 1 ? found : d3.ticks(low, high, 4);
  };
  // Whether x counts something (trials, epochs), so that no tick may stand between two whole numbers.
  const counted = (panel) => {
    const values = panel.layers.flatMap((layer) => layer.x ?? []).filter((value) => value !== null);
    return values.length > 1 && !panel.rows && !panel.bare && !panel.percent?.includes("x") && !panel.layers.some((layer) => layer.kind === "rect")
      && values.every(Number.isInteger) && d3.max(values) > 1;
  };

  // Dragging over a chart zooms to what was marked; fingers scroll the page, and have the buttons.
  function brushable(svg, panel, state, width) {
    const left = 52, right = width - 16;
    const brush = d3.brushX().extent([[left, 20], [right, panel.height - 42]]).touchable(false)
      .on("end", ({ selection, sourceEvent }) => {
        if (!selection || !sourceEvent) return;
        const [start, end] = state.window, span = end - start;
        const [from, to] = selection.map((place) => start + span * (place - left) / (right - left));
        if (to - from > 0.005) state.zoom(from, to);
      });
    const layer = d3.select(svg).append("g").attr("class", "brush").call(brush);
    layer.select(".overlay").style("pointer-events", "all").style("cursor", "crosshair");
    // The pointer marks of Plot listen on the svg, so its events must reach it through the brush.
  }

  function build(place, chart) {
    const boxes = [...place.parentElement.querySelectorAll(".legend input")];
    const state = { window: [0, 1], hidden: new Set(boxes.filter((box) => !box.checked).map((box) => box.value)) };
    const frames = chart.panels.map((panel) => {
      const frame = html("div", { className: "frame" });
      const head = panel.title ? [html("p", { className: "panel-title", textContent: panel.title })] : [];
      return { panel, frame, whole: html("div", { className: "panel" }, ...head, frame) };
    });
    const grid = html("div", { className: `panels ${{ 1: "one", 2: "two", 4: "two" }[chart.panels.length] ?? ""}` }, ...frames.map((each) => each.whole));
    const redraw = () => {
      for (const { panel, frame } of frames) {
        const width = Math.floor(frame.clientWidth);
        if (width > 40) frame.replaceChildren(draw(chart, panel, state, width));
      }
      state.after?.();
    };
    const tools = [];
    if (chart.zoom) {
      const range = html("span", { className: "soft" });
      range.setAttribute("role", "status");
      state.zoom = (start, end) => {
        const span = Math.min(1, Math.max(0.005, end - start));
        const from = Math.min(Math.max(0, start), 1 - span);
        state.window = [from, from + span];
        const words = windowed(extentOf(chart.panels[0]), state.window, chart.panels[0].log?.includes("x"));
        range.textContent = span < 1 ? `showing ${words.map((value) => inWords(chart.panels[0], value, "x")).join(" to ")}` : "";
        redraw();
      };
      const by = (factor, shift) => {
        const [start, end] = state.window, middle = (start + end) / 2 + shift * (end - start), half = (end - start) * factor / 2;
        state.zoom(middle - half, middle + half);
      };
      const actions = [["Zoom in", () => by(0.5, 0)], ["Zoom out", () => by(2, 0)], ["◀", () => by(1, -0.25), "Move left"],
        ["▶", () => by(1, 0.25), "Move right"], ["Show all", () => state.zoom(0, 1)]];
      const bar = html("div", { className: "tools zoom" }, ...actions.map((each) => button(...each)), range);
      bar.addEventListener("keydown", (event) => {
        const action = { "+": 0, "-": 1, ArrowLeft: 2, ArrowRight: 3, "0": 4, Escape: 4 }[event.key];
        if (action !== undefined) { actions[action][1](); event.preventDefault(); }
      });
      tools.push(bar);
    }
    if (chart.readout) tools.push(readout(chart, state));
    place.replaceChildren(grid, ...tools);
    boxes.forEach((box) => box.addEventListener("change", () => {
      state.hidden[box.checked ? "delete" : "add"](box.value);
      redraw();
    }));
    let known = 0;
    new ResizeObserver(() => {
      if (grid.clientWidth !== known) { known = grid.clientWidth; redraw(); }
    }).observe(grid);
    redraw();
  }

  // A slider that reads all curves at one x, for those who do not point, and to compare.
  function readout(chart, state) {
    const lines = chart.panels.map((panel) => new Map(panel.layers.filter((each) => each.kind === "line").map((each) => [each.series, each])));
    const bands = chart.panels.map((panel) => new Map(panel.layers.filter((each) => each.kind === "band").map((each) => [each.series, each])));
    const places = [...new Set(lines.flatMap((each) => [...each.values()].flatMap((line) => line.x)))].sort((a, b) => a - b);
    const ends = lines.flatMap((each) => [...each.values()].map((line) => line.x[line.y.findLastIndex((y) => y !== null)] ?? places[0]));
    const name = chart.panels[0].x;
    const slider = html("input", { type: "range", min: 0, max: places.length - 1, step: 1 });
    slider.value = Math.max(0, places.findLastIndex((x) => x <= Math.min(...ends)));
    slider.setAttribute("aria-label", `${name} shown in the table`);
    const label = html("output", {}), body = html("tbody", {});
    const heads = ["curve", ...chart.panels.map((panel) => panel.title)].map((text) => html("th", { scope: "col", textContent: text }));
    heads.slice(1).forEach((head) => head.classList.add("number"));
    const show = () => {
      const at = places[+slider.value];
      label.textContent = `${name} ${at}`;
      slider.setAttribute("aria-valuetext", label.textContent);
      body.replaceChildren(...chart.series.filter((each) => !state.hidden.has(each.name)).map((each) => html("tr", {},
        html("th", { scope: "row", textContent: each.name }), ...chart.panels.map((panel, i) => {
          const line = lines[i].get(each.name), band = bands[i].get(each.name), index = line ? line.x.indexOf(at) : -1;
          const cell = html("td", { className: "number", textContent: inWords(panel, index < 0 ? null : line.y[index], "y") });
          if (band && index >= 0 && line.y[index] !== null) cell.append(html("span", { className: "range",
            textContent: `${inWords(panel, band.low[index], "y")} – ${inWords(panel, band.high[index], "y")}` }));
          return cell;
        }))));
    };
    slider.addEventListener("input", show);
    state.after = show;
    const region = html("div", { className: "scroll", tabIndex: 0 },
      html("table", { className: "readout plain" }, html("thead", {}, html("tr", {}, ...heads)), body));
    region.setAttribute("role", "region");
    region.setAttribute("aria-label", `Values of the curves, ${chart.label}`);
    return html("div", {}, html("label", { className: "slider" }, label, slider), region);
  }

  const places = [...document.querySelectorAll("[data-chart]")];
  for (const chart of charts) { // two may have one name, of data sets whose names differ in signs alone
    const found = places.findIndex((each) => each.dataset.chart === chart.name);
    if (found >= 0) build(places.splice(found, 1)[0], chart);
  }
})();
