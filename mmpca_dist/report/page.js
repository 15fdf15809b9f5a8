"use strict";
// What a page does beyond showing. Text from data goes through textContent only, never through HTML.
(() => {
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const make = (tag, properties = {}, ...children) => {
    const element = Object.assign(document.createElement(tag), properties);
    element.append(...children);
    return element;
  };
  const button = (words, act) => make("button", { type: "button", textContent: words, onclick: act });
  const words = (element) => element.textContent.replace(/\s+/g, " ").trim();

  // Tables: sort by a column, download as CSV.
  const UNITS = { "%": 1, us: 1e-6, ms: 1e-3, s: 1, B: 1, kiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30, TiB: 2 ** 40 };
  const size = (text) => {
    const match = text.replaceAll("\u2212", "-").match(/^([-+]?[\d,]*\.?\d+(?:e[-+]?\d+)?)\s*(%|us|ms|s|B|[kMGT]iB)?(?![\w.])/);
    return match ? Number(match[1].replaceAll(",", "")) * (UNITS[match[2]] ?? 1) : NaN;
  };
  const compare = (a, b) => {
    const [x, y] = [size(a), size(b)];
    if (!Number.isNaN(x) && !Number.isNaN(y)) return x - y;
    return Number.isNaN(x) - Number.isNaN(y) || a.localeCompare(b, undefined, { numeric: true });
  };
  const cells = (row) => [...row.cells].filter((cell) => !cell.classList.contains("bar"));
  const quoted = (text) => {
    const safe = /^[=@\t]|^[-+](?![\d.])/.test(text) ? `'${text}` : text;  // or spreadsheets run it
    return /[",\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  };
  const csv = (table) => [...table.rows].map((row) => cells(row).map((cell) => quoted(words(cell))).join(",")).join("\r\n");
  const download = (name, text) => {
    const url = URL.createObjectURL(new Blob(["\ufeff", text, "\r\n"], { type: "text/csv" }));
    make("a", { href: url, download: `${name}.csv` }).click();
    setTimeout(() => URL.revokeObjectURL(url), 10000);
  };
  for (const table of all("table")) {
    const heads = all("thead th", table);
    for (const head of heads) {
      const sort = button("", () => {
        const sign = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
        for (const other of heads) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
        const key = (row) => words(row.cells[head.cellIndex]);
        table.tBodies[0].append(...[...table.tBodies[0].rows].sort((a, b) => sign * compare(key(a), key(b))));
      });
      sort.append(...head.childNodes);
      head.append(sort);
    }
    const name = words(table.caption);
    const save = button("Download CSV", () => download(name, csv(table)));
    save.setAttribute("aria-label", `Download CSV: ${name}`);
    table.parentElement.after(make("p", { className: "tools" }, save));
  }
  for (const text of all("pre.command")) {
    const copy = button("Copy", async () => {
      await navigator.clipboard.writeText(text.textContent);
      copy.textContent = "Copied";
    });
    copy.setAttribute("aria-label", `Copy: ${text.textContent.slice(0, 60)}`);
    text.before(copy);
  }

  // Plots.
  const numbers = (text) => new Float32Array(Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer);
  const select = (label, options, change) => {
    const chosen = make("select", { onchange: change });
    const fill = (entries, value) => {
      chosen.replaceChildren(...entries.map(([key, text]) => make("option", { value: key, textContent: text })));
      if (entries.some(([key]) => String(key) === String(value))) chosen.value = value;
    };
    fill(options);
    return { element: make("label", {}, `${label} `, chosen), chosen, fill };
  };
  const counted = (count, noun) => `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;
  const components = (count) => Array.from({ length: count }, (_, k) => [k, `component ${k + 1}`]);
  const zoom = (plot, factor) => {
    for (const range of [plot.x_range, plot.y_range]) {
      const [middle, half] = [(range.start + range.end) / 2, ((range.end - range.start) / 2) * factor];
      range.setv({ start: middle - half, end: middle + half });
    }
  };

  const record = (data) => (data instanceof Map ? Object.fromEntries(data) : data);

  const kinds = {
    points(plot, doc, data, controls, status) {
      const rows = doc.get_model_by_name("rows"), arrows = doc.get_model_by_name("arrows");
      const strips = numbers(data.strips);
      let wanted = [0, 1];  // what was chosen last: a method with fewer components may not have it
      const choose = () => { wanted = [x.chosen.value, y.chosen.value]; draw(); };
      const method = select("Method", data.methods.map((each, i) => [i, each.label]), () => { fill(); draw(); });
      const x = select("Across", [], choose), y = select("Up", [], choose);
      const biplot = make("input", { type: "checkbox", checked: data.arrows, onchange: () => draw() });
      const fill = () => {
        const options = components(data.methods[method.chosen.value].coordinates.length);
        const has_classes = data.ranks.length > 0;
        x.fill(options, wanted[0]);
        y.fill(has_classes ? [...options, ["class", "class"]] : options, wanted[1]);
        if (options.length === 1 && has_classes) y.chosen.value = "class";
      };
      const show = (range, low, high) => {
        const margin = 0.04 * (high - low) || 1;
        range.setv({ start: low - margin, end: high + margin, reset_start: low - margin, reset_end: high + margin });
      };
      const draw = () => {
        const one = data.methods[method.chosen.value], [i, j] = [x.chosen.value, y.chosen.value];
        const by_class = j === "class", across = numbers(one.coordinates[i]);
        const up = by_class ? strips : numbers(one.coordinates[j]);
        const [low, high] = by_class ? [-0.5, data.classes.length - 0.5] : one.ranges[j];
        rows.data = { ...record(rows.data), x: across, y: up };
        show(plot.x_range, ...one.ranges[i]);
        show(plot.y_range, low, high);
        plot.below[0].axis_label = `${one.label}: component ${Number(i) + 1}`;
        doc.get_model_by_name("numbers").setv({ visible: !by_class, axis_label: `component ${Number(j) + 1}` });
        doc.get_model_by_name("strips").visible = by_class;
        arrows.data = biplot.checked && !by_class ? vectors(one, i, j, across, up) : NONE;
        tell();
      };
      const NONE = { x: [], y: [], x0: [], y0: [], name: [] };
      const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
      const vectors = (one, i, j, across, up) => {
        const [a, b] = [one.loadings[i], one.loadings[j]].map((text) => (text ? numbers(text) : null));
        if (!a || !b) return NONE;
        const length = (f) => Math.hypot(a[f], b[f]);
        const longest = [...one.features.keys()].sort((p, q) => length(q) - length(p)).slice(0, 8);
        const order = longest.filter((f) => length(f) > 0.1 * length(longest[0]));
        const reach = (values, [low, high]) => (0.45 * (high - low)) / (Math.max(...order.map((f) => Math.abs(values[f]))) || 1);
        const scale = Math.min(reach(a, one.ranges[i]), reach(b, one.ranges[j]));
        const [x0, y0] = [mean(across), mean(up)], size = ([low, high]) => high - low;
        const end = (f) => [x0 + scale * a[f], y0 + scale * b[f]];
        const covers = ([x, y], f) => Math.abs(x - end(f)[0]) < 0.15 * size(one.ranges[i]) && Math.abs(y - end(f)[1]) < 0.05 * size(one.ranges[j]);
        const named = order.reduce((kept, f) => (kept.some((other) => covers(end(other), f)) ? kept : [...kept, f]), []);
        return {
          x: order.map((f) => end(f)[0]), y: order.map((f) => end(f)[1]), x0: order.map(() => x0), y0: order.map(() => y0),
          name: order.map((f) => (named.includes(f) ? one.features[f] : "")),
        };
      };
      const tell = () => {
        const chosen = rows.selected.indices;
        const { x: across, y: up } = record(rows.data);
        const [h, v] = [plot.x_range, plot.y_range];
        const outside = [...across].filter((a, i) => a < h.reset_start || a > h.reset_end || up[i] < v.reset_start || up[i] > v.reset_end);
        const classes = new Map();
        for (const row of data.ranks.length ? chosen : []) {
          classes.set(data.ranks[row], (classes.get(data.ranks[row]) ?? 0) + 1);
        }
        const named = [...classes].sort((p, q) => q[1] - p[1]).map(([rank, count]) => `${data.classes[rank]} ${count}`);
        const far = outside.length ? `${counted(outside.length, "row")} far outside: zoom out to see. ` : "";
        status.textContent = far + (chosen.length ? `${counted(chosen.length, "row")} marked${named.length ? `: ${named.join(", ")}` : ""}.` : "");
      };
      rows.selected.properties.indices.change.connect(tell);
      controls.append(
        method.element, x.element, y.element, make("label", {}, biplot, " Biplot"),
        button("Zoom in", () => zoom(plot, 0.7)), button("Zoom out", () => zoom(plot, 1 / 0.7)),
        button("Reset", () => { rows.selected.indices = []; draw(); }),
      );
      method.chosen.value = data.start;
      fill();
      draw();
    },
    loadings(plot, doc, data, controls) {
      const bars = doc.get_model_by_name("bars");
      const method = select("Method", data.methods.map((each, i) => [i, each.label]), () => { fill(); draw(); });
      const component = select("Component", [], () => draw());
      const fill = () => component.fill(components(data.methods[method.chosen.value].loadings.length), component.chosen.value);
      const draw = () => {
        const one = data.methods[method.chosen.value], weights = numbers(one.loadings[component.chosen.value]);
        const order = [...weights.keys()].sort((p, q) => Math.abs(weights[q]) - Math.abs(weights[p])).slice(0, data.bars);
        const name = order.map((f) => one.features[f]), value = order.map((f) => weights[f]);
        plot.y_range.factors = [...name].reverse();
        bars.data = { name, value, colour: value.map((v) => data.colours[v > 0 ? 0 : 1]) };
      };
      controls.append(method.element, component.element);
      method.chosen.value = data.start;
      fill();
      draw();
    },
    curves(plot, doc, data, controls) {
      const draw = () => data.curves[classifier.chosen.value].forEach((curve, i) => {
        const source = doc.get_model_by_name(`curve-${i}`);
        source.data = { ...record(source.data), ...curve };
      });
      const classifier = select("Classifier", data.classifiers.map((name, i) => [i, name]), draw);
      controls.append(classifier.element);
      classifier.chosen.value = data.start;
      draw();
    },
  };

  if (window.Bokeh) Bokeh.set_log_level("warn");
  for (const script of all("script[data-plot]")) {
    const { item, explorer } = JSON.parse(script.textContent);
    const block = script.closest(".plot");
    Bokeh.embed.embed_item(item).then((views) => {
      const plot = [...views][0].model, doc = plot.document;
      kinds[explorer.kind]?.(plot, doc, explorer, block.querySelector(".controls"), block.querySelector(".status"));
      const boxes = all("input[data-renderers]", block);
      const filter = () => {
        for (const box of boxes) for (const each of plot.renderers) if (each.name === box.dataset.renderers) each.visible = box.checked;
      };
      for (const box of boxes) box.onchange = filter;
      const every = (checked) => () => { for (const box of boxes) box.checked = checked; filter(); };
      block.querySelector(".legend")?.append(button("All", every(true)), button("None", every(false)));
      block.dataset.ready = "yes";
    });
  }
  document.documentElement.classList.add("live");

  // Paper shows tables that are folded away.
  let folded = [];
  addEventListener("beforeprint", () => { for (const one of folded = all("details:not([open], .config)")) one.open = true; });
  addEventListener("afterprint", () => { for (const one of folded) one.open = false; });
})();
