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
  const named = (element, title) => Object.assign(element, { title, ariaLabel: title });
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
    return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  };
  // A value a cell: deviations, p-values and remarks have columns of their own, behind that of the cell they stand in.
  const plain = (text) => (/^\d{1,3}(,\d{3})+$/.test(text) ? text.replaceAll(",", "") : text);
  const values = (cell) => {
    const [, main, deviation] = words(cell.querySelector("bdi") ?? cell).match(/^(.*?)(?: \(([^()]*)\))?$/);
    const found = new Map(Number.isNaN(size(main)) ? [["", words(cell.querySelector("bdi") ?? cell)]] : [["", main], ...(deviation ? [["deviation", deviation]] : [])]);
    for (const line of all("small, .mark", cell).map(words)) {
      const [, name, value] = line.match(/^([a-z ]+?) ?= ?(.+)$/) ?? [null, "remark", line];
      found.set(name, value);
    }
    return found;
  };
  const csv = (table) => {
    const heads = cells(table.tHead.rows[0]).map(words), rows = [...table.tBodies[0].rows].map((row) => cells(row).map(values));
    const names = heads.map((_, j) => [...new Set(rows.flatMap((row) => [...row[j].keys()]))]);
    const lines = rows.map((row) => names.flatMap((own, j) => own.map((name) => plain(row[j].get(name) ?? ""))));
    return [heads.flatMap((head, j) => names[j].map((name) => `${head} ${name}`.trim())), ...lines].map((line) => line.map(quoted).join(",")).join("\r\n");
  };
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
    const save = button("Download CSV", () => download(`${document.title} ${name}`.replace(/[^\p{L}\p{N} .=-]+/gu, "-").slice(0, 120), csv(table)));
    save.setAttribute("aria-label", `Download CSV: ${name}`);
    const more = button("All columns", () => { more.textContent = table.parentElement.classList.toggle("all") ? "Fewer columns" : "All columns"; });
    more.className = "more";  // on phones
    table.parentElement.after(make("p", { className: "tools" }, save, ...(table.querySelector(".extra") ? [" ", more] : [])));
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
  const { MARKS, COLOURED, NONE, look_of, documented, figures } = plots;
  const numbers = ({ low, high, steps }) => {
    const packed = new Uint16Array(Uint8Array.from(atob(steps), (c) => c.charCodeAt(0)).buffer);
    return Float64Array.from(packed, (step) => (step === 65535 ? NaN : low + (high - low) * (step / 65534)));
  };
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  // Plots have the colours of the page; renderers have theirs as tags.
  const paint = (plot) => {
    const [ink, faint, line, paper] = ["ink", "faint", "line", "paper"].map(css), value = (colour) => ({ value: colour });
    for (const axis of [...plot.below, ...plot.left]) {
      axis.setv({ axis_label_text_color: ink, major_label_text_color: ink, axis_line_color: faint, major_tick_line_color: faint, minor_tick_line_color: null });
    }
    for (const grid of plot.center) if ("grid_line_color" in grid) grid.grid_line_color = line;
    for (const each of plot.renderers) {
      const colour = each.tags.length ? css(each.tags[0]) : null;
      if (each.name === "words") each.glyph.setv({ text_color: value(ink), background_fill_color: value(paper), border_line_color: value(line) });
      for (const kind of colour ? ["fill_color", "line_color"] : []) if (each.glyph[kind]?.value != null) each.glyph[kind] = value(colour);
    }
  };
  const mark = ([colour, shape]) => {  // as `swatch` in chart.py
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg"), path = document.createElementNS(svg.namespaceURI, "path");
    const shapes = { circle: "M7 6a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z", triangle: "M11 1.4l4.4 8h-8.8z", square: "M7.4 2.4h7.2v7.2h-7.2z", diamond: "M11 1l5 5l-5 5l-5-5z" };
    svg.setAttribute("viewBox", "0 0 22 12");
    path.setAttribute("d", shapes[shape] ?? shapes.circle);
    path.setAttribute("fill", "currentColor");
    path.setAttribute("class", colour);
    svg.append(path);
    return svg;
  };
  const select = (label, options, change) => {
    const chosen = make("select", { onchange: change });
    const fill = (entries, value) => {
      chosen.replaceChildren(...entries.map(([key, text]) => make("option", { value: key, textContent: text })));
      if (entries.some(([key]) => String(key) === String(value))) chosen.value = value;
    };
    fill(options);
    return { element: make("label", {}, `${label} `, chosen), chosen, fill };
  };
  const short = (text) => (text.length > 16 ? `${text.slice(0, 8)}\u2026${text.slice(-7)}` : text);
  const counted = (count, noun) => `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;
  const components = (count) => Array.from({ length: count }, (_, k) => [k, `component ${k + 1}`]);
  const zoom = (plot, factor) => {
    for (const range of [plot.x_range, plot.y_range]) {
      const [middle, half] = [(range.start + range.end) / 2, ((range.end - range.start) / 2) * factor];
      range.setv({ start: middle - half, end: middle + half });
    }
  };

  const kinds = {
    points(plot, doc, data, controls, status, block) {
      const [rows, arrows, means] = ["rows", "arrows", "means"].map((name) => doc.get_model_by_name(name));
      const legend = block.querySelector(".legend"), strips = data.strips && numbers(data.strips), classes = strips ? data.groups[0].labels : [];
      let wanted = [0, 1];  // what was chosen last: a method with fewer components may not have it
      let group = data.groups[0], pointed = null;  // the class that one points at in the legend
      const choose = () => { wanted = [x.chosen.value, y.chosen.value]; draw(); };
      const method = select("Method", data.methods.map((each, i) => [i, each.label]), () => { fill(); draw(); });
      const x = select("Across", [], choose), y = select("Up", [], choose);
      const biplot = make("input", { type: "checkbox", checked: data.arrows, onchange: () => draw() });
      const colour = select("Colour", data.groups.map((each, i) => [i, each.name]), () => { search.value = ""; regroup(data.groups[colour.chosen.value]); });
      const outcome = (row) => data.rows.outcome[row];
      const outcomes = [...new Set(data.rows.outcome)];
      const names = make("datalist", { id: "all-classes" }, ...(data.searches ? outcomes : []).map((value) => make("option", { value })));
      const search = make("input", { type: "search", placeholder: "a class alone", oninput: () => {
        const found = outcomes.includes(search.value);
        const ranks = [...strips.keys()].map((row) => (outcome(row) === search.value ? 0 : COLOURED));
        if (found) regroup({ name: "Classes", labels: [search.value, "others"], ranks, rank: (i) => COLOURED * i });
        else if (!search.value) regroup(data.groups[colour.chosen.value]);
      } });
      search.setAttribute("list", "all-classes");
      search.setAttribute("aria-label", "Show a class alone");
      const place = (rank) => (rank < COLOURED ? `group-${rank}` : "others");
      const ranked = (i) => (group.rank ? group.rank(i) : i);  // of a label
      const colours = () => {
        const known = Array.from({ length: COLOURED + 1 }, (_, rank) => css(look_of(rank)[0]));
        return group.labels.length ? group.ranks.map((rank) => known[Math.min(rank, COLOURED)]) : data.shades;
      };
      // Rows of a mark are drawn together, without those of groups that are hidden.
      const show = () => {
        const off = hidden(), members = Object.fromEntries([...MARKS, "others"].map((name) => [name, []]));
        for (const row of data.rows.row.keys()) if (!off.has(place(group.ranks[row] ?? 0))) members[look_of(group.ranks[row] ?? 0)[1]].push(row);
        for (const each of plot.renderers) if (members[each.name]) each.view.filter.indices = members[each.name];
      };
      const regroup = (chosen) => {
        group = chosen;
        for (const old of all("label", legend)) old.remove();
        group.labels.forEach((text, i) => {
          const box = make("input", { type: "checkbox", checked: true, onchange: draw });
          box.dataset.renderers = place(ranked(i));
          const point = (rank) => () => { pointed = rank; label(); };
          legend.insertBefore(make("label", { onpointerenter: point(ranked(i)), onpointerleave: point(null) }, box, mark(look_of(ranked(i))), make("bdi", { textContent: text })), legend.querySelector("button"));
        });
        legend.querySelector("legend").textContent = strips && group === data.groups[0] ? "Classes" : group.name;
        legend.hidden = !group.labels.length;
        draw();
      };
      const fill = () => {
        const options = components(data.methods[method.chosen.value].coordinates.length);
        x.fill(options, wanted[0]);
        y.fill(strips ? [...options, ["class", "class"]] : options, wanted[1]);
        if (options.length === 1 && strips) y.chosen.value = "class";
      };
      const range = (of, low, high) => {
        const margin = 0.04 * (high - low) || 1;
        of.setv({ start: low - margin, end: high + margin, reset_start: low - margin, reset_end: high + margin });
      };
      const draw = () => {
        const one = data.methods[method.chosen.value], [i, j] = [x.chosen.value, y.chosen.value];
        const by_class = j === "class", across = numbers(one.coordinates[i]);
        const up = by_class ? strips : numbers(one.coordinates[j]);
        const [low, high] = by_class ? [-0.5, classes.length - 0.5] : one.ranges[j];
        rows.data = { ...data.rows, x: across, y: up, colour: colours() };
        show();
        range(plot.x_range, ...one.ranges[i]);
        range(plot.y_range, low, high);
        plot.below[0].axis_label = `${one.label}: component ${Number(i) + 1}`;
        doc.get_model_by_name("numbers").setv({ visible: !by_class, axis_label: by_class ? "" : `component ${Number(j) + 1}` });
        doc.get_model_by_name("strips").visible = by_class;
        label();
        tell();
      };
      const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
      const hidden = () => new Set(all("input:not(:checked)", legend).map((box) => box.dataset.renderers));
      // Labels within the frame that cover no other, those that cover fewest rows first. Those of classes are left out where
      // more of these rows are of others, unless the class is pointed at in the legend, or seen alone.
      const fitting = (labels, [[left, right], [low, high]], placed) => {
        const [a, b] = [(right - left) / (plot.inner_width || 800), (high - low) / (plot.inner_height || 330)], h = 24 * b;  // of a pixel
        const { x: across, y: up } = rows.data, off = hidden();
        const seen = [...across.keys()].filter((row) => !off.has(place(group.ranks[row] ?? 0)));
        const boxed = labels.map((each) => {
          const w = (7.5 * each.name.length + 14) * a, at_x = Math.max(left + w / 2, Math.min(each.x, right - w / 2)), top = Math.min(each.y, high - h / 2);
          const is_asked = each.rank !== undefined && (each.rank === pointed || group.rank);
          const covered = (y) => seen.filter((row) => Math.abs(across[row] - at_x) < w / 2 && up[row] > y && up[row] < y + h);
          const cost = (y) => (is_asked ? -1e9 : covered(y).reduce((sum, row) => sum + (group.ranks[row] === each.rank ? -1 : 1), 0));
          const spots = [top, top + h, top - h].filter((y) => y <= high - h / 2).map((y) => [cost(y), y]);
          return { ...each, w, at_x, spots: spots.sort(([p], [q]) => p - q) };
        });
        return boxed.sort((p, q) => p.spots[0][0] - q.spots[0][0]).map((each) => {
          const is_free = (y) => placed.every((other) => Math.abs(other.at_x - each.at_x) >= (other.w + each.w) / 2 || Math.abs(other.at_y - y) >= h);
          const spot = each.spots.find(([cost, y]) => cost <= (each.rank === undefined ? seen.length / 100 : 0) && is_free(y));
          if (spot) placed.push({ ...each, at_y: spot[1] });
          return spot ? placed.at(-1) : { ...each, name: null };
        });
      };
      const columns = (found) => Object.fromEntries(Object.keys(NONE).map((key) => [key, found.map((each) => each[key] ?? (key === "name" ? null : 0))]));
      const label = () => {
        const one = data.methods[method.chosen.value], [i, j] = [x.chosen.value, y.chosen.value], by_class = j === "class";
        const { x: across, y: up } = rows.data, frame = [one.ranges[i], one.ranges[j] ?? [0, 1]], placed = [];
        means.data = columns(fitting(by_class || group.labels.length < 2 ? [] : middles(across, up), frame, placed).filter((each) => each.name));
        arrows.data = columns(fitting(biplot.checked && !by_class ? vectors(one, i, j, across, up) : [], frame, placed));
      };
      const middles = (across, up) => {
        const off = hidden();
        return group.labels.flatMap((name, i) => {
          const members = off.has(place(ranked(i))) || ranked(i) >= COLOURED ? [] : [...group.ranks.keys()].filter((row) => group.ranks[row] === ranked(i) && Number.isFinite(across[row] + up[row]));
          return members.length ? [{ x: mean(members.map((row) => across[row])), y: mean(members.map((row) => up[row])), rank: ranked(i), name: short(name) }] : [];
        });
      };
      const vectors = (one, i, j, across, up) => {
        const [a, b] = [one.loadings[i], one.loadings[j]].map((text) => (text ? numbers(text) : null));
        if (!a || !b) return [];
        const length = (f) => Math.hypot(a[f], b[f]);
        const longest = [...one.features.keys()].sort((p, q) => length(q) - length(p)).slice(0, 8);
        const order = longest.filter((f) => length(f) > 0.1 * length(longest[0]));
        const [x0, y0] = [mean(across), mean(up)];
        // As long as they can be within the frame, but a fifth of it at least.
        const reach = (values, start, [low, high]) => order.map((f) => Math.max(0.9 * (values[f] > 0 ? high - start : start - low), 0.2 * (high - low)) / Math.abs(values[f]));
        const scale = Math.min(...reach(a, x0, one.ranges[i]), ...reach(b, y0, one.ranges[j]));
        return order.map((f) => ({ x: x0 + scale * a[f], y: y0 + scale * b[f], x0, y0, name: short(one.features[f]) }));
      };
      const tell = () => {
        const chosen = rows.selected.indices;
        const { x: across, y: up } = rows.data;
        const [h, v] = [plot.x_range, plot.y_range];
        const outside = [...across].filter((a, i) => a < h.reset_start || a > h.reset_end || up[i] < v.reset_start || up[i] > v.reset_end);
        const counts = new Map();
        for (const row of group.labels.length ? chosen : []) counts.set(group.ranks[row], (counts.get(group.ranks[row]) ?? 0) + 1);
        const named = [...counts].sort((p, q) => q[1] - p[1]).map(([rank, count]) => `${group.labels[Math.min(rank, group.labels.length - 1)]} ${count}`);
        const far = outside.length ? `${counted(outside.length, "row")} far outside: zoom out to see. ` : "";
        status.textContent = far + (chosen.length ? `${counted(chosen.length, "row")} marked${named.length ? `: ${named.join(", ")}` : ""}.` : "");
        save.hidden = !chosen.length;
      };
      const save = button("Download marked rows", () => {
        const at = rows.data, up = doc.get_model_by_name("numbers").axis_label;  // none where lines are classes
        const names = ["row", ...(data.groups[0].name ? ["outcome"] : []), ...data.columns.map((_, i) => `beside${i}`), "x", ...(up ? ["y"] : [])];
        const heads = ["row", ...(data.groups[0].name ? ["outcome"] : []), ...data.columns, plot.below[0].axis_label, ...(up ? [up] : [])];
        const lines = rows.selected.indices.map((row) => names.map((name) => quoted(String(at[name][row]))).join(","));
        download("marked rows", [heads.map(quoted).join(","), ...lines].join("\r\n"));
      });
      // Images of the row that is pointed at, or of those that are marked.
      const SIDE = 48, MOST = 24;
      const thumb = (row) => {
        const { source, columns, lines, tall } = data.images, image = make("i", { className: "thumb", title: `row ${data.rows.row[row]}${data.groups[0].name && `: ${outcome(row)}`}` });
        const [wide, high] = tall > 1 ? [SIDE / tall, SIDE] : [SIDE, SIDE * tall];
        Object.assign(image.style, {
          width: `${wide}px`, height: `${high}px`, backgroundImage: `url(${source})`, backgroundSize: `${columns * wide}px ${lines * high}px`,
          backgroundPosition: `${-(row % columns) * wide}px ${-Math.floor(row / columns) * high}px`,
        });
        return image;
      };
      const gallery = make("div", { className: "gallery" });
      const view = (pointed) => {
        const chosen = (pointed.length ? pointed : rows.selected.indices).slice(0, MOST);
        gallery.replaceChildren(...(chosen.length ? chosen.map(thumb) : ["Point at a row, or mark some, to see their images."]));
      };
      if (data.images) {
        status.after(gallery);
        view([]);
        rows.inspect.connect(() => view(rows.inspected.indices));
        rows.selected.properties.indices.change.connect(() => view([]));
      }
      rows.selected.properties.indices.change.connect(tell);
      controls.append(
        method.element, x.element, y.element, ...(data.groups.length > 1 ? [colour.element] : []), ...(data.searches ? [search, names] : []),
        make("label", {}, biplot, " Biplot"), named(button("+", () => zoom(plot, 0.7)), "Zoom in"), named(button("\u2212", () => zoom(plot, 1 / 0.7)), "Zoom out"),
        button("Reset", () => { rows.selected.indices = []; draw(); }), save,
      );
      doc.get_model_by_name("strips").major_label_overrides = new Map(classes.map((name, i) => [classes.length - 1 - i, short(name)]));
      doc.get_model_by_name("strips").ticker.ticks = [...classes.keys()];
      method.chosen.value = data.start;
      fill();
      regroup(group);
      new ResizeObserver(() => setTimeout(label)).observe(block.querySelector(".canvas"));
      return () => { rows.data = { ...rows.data, colour: colours() }; };
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
        bars.data = { name, value, colour: value.map((v) => css(v > 0 ? "positive" : "negative")) };
      };
      controls.append(method.element, component.element);
      method.chosen.value = data.start;
      fill();
      draw();
      return draw;
    },
    curves(plot, doc, data, controls) {
      const draw = () => {
        const drawn = data.curves[classifier.chosen.value], [of, i, j] = data.ring ?? [];
        drawn.forEach((curve, i) => {
          const source = doc.get_model_by_name(`curve-${i}`), own = css(data.methods[i].colour);
          source.data = { ...source.data, ...curve, fill: curve.full.map((full) => (full ? own : css("paper"))) };
        });
        const ringed = of === Number(classifier.chosen.value);
        if (data.ring) doc.get_model_by_name("ring").data = ringed ? { x: [data.methods[i].x[j]], y: [drawn[i].mean[j]], colour: [css("ring")] } : { x: [], y: [], colour: [] };
      };
      const classifier = select("Classifier", data.classifiers.map((name, i) => [i, name]), draw);
      controls.append(classifier.element);
      classifier.chosen.value = data.start;
      draw();
      return draw;
    },
  };

  if (window.Bokeh) Bokeh.set_log_level("warn");
  for (const script of all("script[data-plot]")) {
    const explorer = JSON.parse(script.textContent), root = figures[explorer.kind](explorer);
    const block = script.closest(".plot"), legend = block.querySelector(".legend");
    Bokeh.embed.embed_item({ target_id: block.querySelector(".canvas").id, root_id: root.id, doc: documented(root) }).then((views) => {
      const plot = [...views][0].model, doc = plot.document, boxes = () => all("input[data-renderers]", legend);
      const filter = () => {
        for (const box of boxes()) for (const each of plot.renderers) if (each.name === box.dataset.renderers) each.visible = box.checked;
      };
      const every = (checked) => () => { for (const box of boxes()) { box.checked = checked; box.onchange(); } };
      for (const box of boxes()) box.onchange = filter;
      legend.append(button("All", every(true)), button("None", every(false)));
      const [controls, status] = [".controls", ".status"].map((name) => block.querySelector(name));
      const again = kinds[explorer.kind](plot, doc, explorer, controls, status, block);
      const dress = () => { paint(plot); again(); };
      matchMedia("(prefers-color-scheme: dark)").addEventListener("change", dress);
      dress();
      block.dataset.ready = "yes";
    });
  }
  document.documentElement.classList.add("live");

  // Paper shows tables that are folded away.
  let folded = [];
  addEventListener("beforeprint", () => { for (const one of folded = all("div > details:not([open])").filter((one) => one.querySelectorAll("tr").length < 40)) one.open = true; });
  addEventListener("afterprint", () => { for (const one of folded) one.open = false; });
})();
