// Learning curves that can be read: hover, drag the slider or use the arrow keys; check boxes switch methods.
// Reads the JSON block #curves-data; every text goes in as text, never as markup.
"use strict";
(() => {
  const source = document.getElementById("curves-data");
  if (!source) return;
  const { methods, panels, datasets } = JSON.parse(source.textContent);
  const WIDTH = 400, HEIGHT = 238, LEFT = 46, RIGHT = 10, TOP = 26, BOTTOM = 38;
  const hidden = new Set(methods.filter((method) => !method.shown).map((method) => method.name));
  const redraw = [];

  const svg = (name, attributes, text) => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const key in attributes) element.setAttribute(key, attributes[key]);
    if (text !== undefined) element.textContent = text;
    return element;
  };
  const html = (name, properties = {}, ...children) => {
    const element = Object.assign(document.createElement(name), properties);
    element.append(...children);
    return element;
  };

  // About `count` round numbers that cover [low, high].
  const ticks = (low, high, count) => {
    const raw = (high - low) / count || 1;
    const power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].map((factor) => factor * power).find((value) => value >= raw * 0.999);
    const marks = [];
    for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; i++) marks.push(i * step);
    const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
    return marks.map((mark) => [mark, mark.toFixed(digits)]);
  };

  const swatch = (method) => {
    const picture = svg("svg", { viewBox: "0 0 26 8", class: "swatch", "aria-hidden": "true" });
    picture.append(svg("line", { x1: 1, x2: 25, y1: 4, y2: 4, stroke: method.color, "stroke-width": 2.5,
      "stroke-dasharray": method.dash.join(" ") }));
    return picture;
  };

  // One panel: a frame that stays, and curves that are drawn again when a method is switched.
  function panel(dataset, { key, title, percent }) {
    const series = methods.filter((method) => dataset.series[method.name]?.[key]);
    const picture = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", class: "panel",
      "aria-label": `${title}, ${dataset.name}` });
    const frame = svg("g", {}), curves = svg("g", {}), cursor = svg("g", { class: "cursor" });
    picture.append(svg("text", { x: LEFT, y: 15, class: "title" }, title), frame, curves, cursor);
    const last = dataset.epochs[dataset.epochs.length - 1], first = dataset.epochs[0];
    const x = (epoch) => LEFT + (WIDTH - LEFT - RIGHT) * (last > first ? (epoch - first) / (last - first) : 0.5);
    let y = () => 0;

    const draw = () => {
      const shown = series.filter((method) => !hidden.has(method.name));
      const values = (shown.length ? shown : series).flatMap((method) =>
        dataset.series[method.name][key].low.concat(dataset.series[method.name][key].high));
      let low = Infinity, high = -Infinity;
      for (const value of values) if (value !== null) { low = Math.min(low, value); high = Math.max(high, value); }
      if (low === Infinity) { low = 0; high = 1; }
      const margin = (high - low || Math.abs(high) || 1) * 0.04;
      low -= margin; high += margin;
      y = (value) => TOP + (HEIGHT - TOP - BOTTOM) * (high - value) / (high - low);
      frame.replaceChildren(); curves.replaceChildren();
      const scale = percent ? 100 : 1;
      for (const [mark, label] of ticks(low * scale, high * scale, 5)) {
        const at = y(mark / scale).toFixed(1);
        frame.append(svg("line", { x1: LEFT, x2: WIDTH - RIGHT, y1: at, y2: at, class: "grid" }));
        frame.append(svg("text", { x: LEFT - 6, y: +at + 4, "text-anchor": "end" }, label + (percent ? " %" : "")));
      }
      for (const [mark, label] of ticks(first, last, 5))
        frame.append(svg("text", { x: x(mark).toFixed(1), y: HEIGHT - 20, "text-anchor": "middle" }, label));
      frame.append(svg("text", { x: WIDTH - RIGHT, y: HEIGHT - 5, "text-anchor": "end" }, "epoch"));
      // Solid lines first: where curves coincide, dashes on top leave both to be seen.
      for (const method of [...shown].sort((one, other) => (one.dash.length > 0) - (other.dash.length > 0))) {
        const { mean, low: lower, high: upper } = dataset.series[method.name][key];
        const steps = mean.map((_, i) => i).filter((i) => mean[i] !== null);
        const path = (line, order) => order.map((i) => `${x(dataset.epochs[i]).toFixed(1)},${y(line[i]).toFixed(1)}`);
        const band = path(upper, steps).concat(path(lower, [...steps].reverse()));
        curves.append(svg("polygon", { points: band.join(" "), fill: method.color, class: "band" }));
        const curve = svg("polyline", { points: path(mean, steps).join(" "), stroke: method.color, class: "curve",
          "stroke-dasharray": method.dash.join(" ") });
        curve.dataset.method = method.name;
        curves.append(curve);
      }
    };
    const point = (index) => {
      const at = x(dataset.epochs[index]).toFixed(1);
      cursor.replaceChildren(svg("line", { x1: at, x2: at, y1: TOP, y2: HEIGHT - BOTTOM }));
      for (const method of series) {
        const value = dataset.series[method.name][key].mean[index];
        if (!hidden.has(method.name) && value !== null)
          cursor.append(svg("circle", { cx: at, cy: y(value).toFixed(1), r: 3.2, fill: method.color }));
      }
    };
    const indexAt = (event) => {
      const box = picture.getBoundingClientRect();
      const place = ((event.clientX - box.left) / box.width * WIDTH - LEFT) / (WIDTH - LEFT - RIGHT);
      const wanted = first + Math.min(1, Math.max(0, place)) * (last - first);
      return dataset.epochs.reduce((best, epoch, i) =>
        Math.abs(epoch - wanted) < Math.abs(dataset.epochs[best] - wanted) ? i : best, 0);
    };
    return { picture, draw, point, indexAt };
  }

  // The values at the chosen epoch, one row for each method that is on.
  function readOut(dataset, body, index) {
    const number = (value, percent) => value === null ? "–" : percent ? (100 * value).toFixed(2) : value.toFixed(4);
    body.replaceChildren(...methods.filter((method) => dataset.series[method.name] && !hidden.has(method.name)).map((method) => {
      const row = html("tr", {}, html("th", { scope: "row" }, swatch(method), method.name));
      for (const { key, percent } of panels) {
        const curve = dataset.series[method.name][key];
        const cell = html("td", { className: "number" }, number(curve ? curve.mean[index] : null, percent));
        if (curve && curve.mean[index] !== null)
          cell.append(html("span", { className: "range" },
            `${number(curve.low[index], percent)} – ${number(curve.high[index], percent)}`));
        row.append(cell);
      }
      return row;
    }));
  }

  function figure(place) {
    const dataset = datasets[+place.dataset.curves];
    const drawn = panels.map((one) => panel(dataset, one));
    // Opens at the last epoch that every method reached.
    const ends = Object.values(dataset.series).flatMap((curves) => Object.values(curves).map(({ mean }) => {
      let end = mean.length - 1;
      while (end > 0 && mean[end] === null) end--;
      return end;
    }));
    const slider = html("input", { type: "range", min: 0, max: dataset.epochs.length - 1, step: 1, value: 0 });
    slider.value = Math.min(...ends);
    slider.setAttribute("aria-label", `Epoch shown in the table, ${dataset.name}`);
    const label = html("output", {}), body = html("tbody", { ariaLive: "polite" });
    const show = () => {
      const index = +slider.value;
      label.textContent = `epoch ${dataset.epochs[index]}`;
      slider.setAttribute("aria-valuetext", label.textContent);
      drawn.forEach((one) => one.point(index));
      readOut(dataset, body, index);
    };
    for (const one of drawn)
      for (const kind of ["pointermove", "pointerdown"])
        one.picture.addEventListener(kind, (event) => { slider.value = one.indexAt(event); show(); });
    slider.addEventListener("input", show);
    const head = html("tr", {}, html("th", { scope: "col" }, "method"), ...panels.map(({ title, percent }) =>
      html("th", { scope: "col", className: "number" }, title + (percent ? ", %" : ""))));
    place.replaceChildren(
      html("div", { className: "panels" }, ...drawn.map((one) => one.picture)),
      html("label", { className: "slider" }, label, slider),
      html("div", { className: "scroll", tabIndex: 0 },
        html("table", { className: "readout" }, html("thead", {}, head), body)));
    redraw.push(() => { drawn.forEach((one) => one.draw()); show(); });
  }

  const legend = document.getElementById("curves-legend");
  for (const method of methods) {
    const box = html("input", { type: "checkbox", checked: method.shown, value: method.name });
    box.addEventListener("change", () => {
      hidden[box.checked ? "delete" : "add"](method.name);
      redraw.forEach((again) => again());
    });
    legend.append(html("label", {}, box, swatch(method), method.name));
  }
  legend.hidden = false;
  document.querySelectorAll("[data-curves]").forEach(figure);
  redraw.forEach((again) => again());

  // The data as a CSV file, made when it is asked for.
  const link = document.getElementById("curves-download");
  link.hidden = false;
  link.addEventListener("click", () => {
    const quoted = (text) => `"${text.replaceAll('"', '""')}"`;
    const lines = ["dataset,method,curve,epoch,mean,low,high"];
    for (const dataset of datasets) for (const name in dataset.series) for (const key in dataset.series[name]) {
      const { mean, low, high } = dataset.series[name][key];
      mean.forEach((value, i) => value !== null && lines.push(
        [quoted(dataset.name), quoted(name), key, dataset.epochs[i], value, low[i], high[i]].join(",")));
    }
    link.href = URL.createObjectURL(new Blob([lines.join("\n") + "\n"], { type: "text/csv" }));
  });
})();
