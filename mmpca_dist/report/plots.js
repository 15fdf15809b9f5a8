"use strict";
// Plots as BokehJS reads them, without their rows, weights and colours, which `page.js` gives them as one chooses.
const plots = (() => {
  // The looks of classes, as `place_look` in palette.py; those beyond the largest share one.
  const MARKS = ["circle", "triangle", "square", "diamond"], COLOURED = 20, NONE = { x: [], y: [], x0: [], y0: [], at_x: [], at_y: [], name: [] };
  const look_of = (rank) => (rank < COLOURED ? [`c${rank % 7}`, MARKS[Math.floor(rank / 7) % 4]] : ["faint", "others"]);
  // BokehJS reads a document of models; one that comes again is named by its number.
  const FONT = "system-ui, sans-serif";
  let made = 0;
  const model = (name, attributes = {}) => ({ type: "object", name, id: `model-${++made}`, attributes });
  const documented = (root, seen = new Set()) => {
    const once = (_, value) => (value?.type !== "object" || (!seen.has(value.id) && seen.add(value.id)) ? value : { id: value.id });
    return { version: Bokeh.version, roots: [JSON.parse(JSON.stringify(root, once))] };
  };
  const source = (name, data) => model("ColumnDataSource", { name, data });
  const fields = (names) => Object.fromEntries(Object.entries(names).map(([of, field]) => [of, { field }]));
  const drawn = (name, data_source, kind, attributes, tags = [], options = {}) => model("GlyphRenderer", { name, data_source, tags, glyph: model(kind, attributes), ...options });
  const axis = (axis_label, options = {}, kind = "LinearAxis") => model(kind, { axis_label, axis_label_text_font: FONT, major_label_text_font: FONT, axis_label_text_font_style: "normal", ...options });
  // The wheel zooms only once its button is pressed, so that pages scroll over plots.
  const figure = (height, below, left, renderers, tooltips, options = {}, hovered = renderers, selecting = []) => model("Plot", {
    height, renderers, below: [below], left: [left], min_width: 260, sizing_mode: "stretch_width", toolbar_location: "above",
    background_fill_color: null, border_fill_color: null, outline_line_color: null,
    center: [below, left].map((each, dimension) => model("Grid", { axis: each, dimension })),
    toolbar: model("Toolbar", { logo: null, stylesheets: [".bk-divider { background-color: var(--edge) !important; }"], active_scroll: null, tools: [
      ...["PanTool", "BoxZoomTool", "WheelZoomTool"].map((name) => model(name)), ...selecting.map((name) => model(name, { renderers: hovered })),
      ...["ResetTool", "SaveTool"].map((name) => model(name)), model("HoverTool", { tooltips, renderers: hovered }),
    ] }),
    ...options,
  });
  const figures = {
    points(data) {
      const names = Object.keys(data.rows), most = Math.max(1, ...data.groups.map((each) => each.labels.length));
      const rows = source("rows", Object.fromEntries(["x", "y", "colour", ...names].map((name) => [name, []])));
      const look = { ...fields({ x: "x", y: "y", fill_color: "colour" }), size: data.rows.row.length > 500 ? 6 : 8, fill_alpha: 0.85, line_color: null };
      const marks = [...(most > COLOURED ? ["others"] : []), ...MARKS.slice(0, Math.ceil(Math.min(most, COLOURED) / 7))].map((name) => {
        const own = { ...look, marker: name === "others" ? "circle" : name };
        const options = { view: model("CDSView", { filter: model("IndexFilter", { indices: [] }) }), nonselection_glyph: model("Scatter", { ...own, fill_alpha: 0.08 }) };
        return drawn(name, rows, "Scatter", own, [], options);
      });
      const [arrows, means] = ["arrows", "means"].map((name) => source(name, NONE));
      const text = { ...fields({ x: "at_x", y: "at_y", text: "name" }), text_font: FONT, text_font_size: "13px", text_align: "center", y_offset: -4, padding: [5, 2], background_fill_alpha: 0.75, border_radius: 3 };
      const renderers = [
        ...marks, drawn("arrow", arrows, "Segment", { ...fields({ x0: "x0", y0: "y0", x1: "x", y1: "y" }), line_width: 1.5 }, ["faint"]),
        drawn("arrow", arrows, "Scatter", { ...fields({ x: "x", y: "y" }), size: 5 }, ["faint"]),
        drawn("words", arrows, "Text", text), drawn("words", means, "Text", { ...text, text_font_style: "bold" }),
      ];
      const numbers = axis("", { name: "numbers" }), strips = axis("", { name: "strips", visible: false, ticker: model("FixedTicker") });
      const tips = [["row", "@row"], ...(data.groups[0].name ? [[data.groups[0].name, "@outcome"]] : []), ...data.columns.map((name, i) => [name, `@beside${i}`]), ["x", "@x{0.000}"], ["y", "@y{0.000}"]];
      const options = { left: [numbers, strips], x_range: model("Range1d"), y_range: model("Range1d") };
      return figure(430, axis(""), numbers, renderers, tips, options, marks, ["BoxSelectTool", "LassoSelectTool"]);
    },
    loadings(data) {
      const name = Array.from({ length: data.bars }, (_, i) => String(i));  // until there are names: ranges must not be empty
      const bars = source("bars", { name, value: name.map(() => 1), colour: name.map(() => "grey") });
      const look = { ...fields({ y: "name", right: "value", fill_color: "colour" }), height: 0.7, line_color: null };
      const options = { y_range: model("FactorRange", { factors: name }), y_scale: model("CategoricalScale") };
      return figure(90 + 22 * data.bars, axis("weight"), axis("", {}, "CategoricalAxis"), [drawn("weights", bars, "HBar", look)], [["feature", "@name"], ["weight", "@value{0.0000}"]], options);
    },
    curves(data) {
      const ring = source("ring", { x: [], y: [], colour: [] }), points = [];
      const renderers = data.methods.flatMap(({ name, x, mark, dash, width, colour }, i) => {
        const one = source(`curve-${i}`, { x, size: data.sizes, method: x.map(() => name), fill: x.map(() => "grey"), ...data.curves[0][i] }), own = `method-${i}`;
        points.push(drawn(own, one, "Scatter", { ...fields({ x: "x", y: "mean", fill_color: "fill" }), size: 7, marker: mark || "dash" }, [colour]));
        return [
          drawn(own, one, "Line", { ...fields({ x: "x", y: "mean" }), line_width: width, line_dash: dash || "solid" }, [colour]),
          drawn(own, one, "Segment", fields({ x0: "x", y0: "low", x1: "x", y1: "high" }), [colour]), points.at(-1),
          ...(data.ring?.[1] === i ? [drawn(own, ring, "Scatter", { ...fields({ x: "x", y: "y", line_color: "colour" }), size: 15, line_width: 1.5, fill_color: null })] : []),
        ];
      });
      const ticks = { ticker: model("FixedTicker", { ticks: data.positions }), major_label_overrides: { type: "map", entries: data.positions.map((at, i) => [at, data.sizes[i]]) } };
      const tips = [["method", "@method"], ["components", "@size"], ["test error", "@mean{0.00}%"], ["standard error", "@error{0.00}"]];
      return figure(400, axis("components", ticks), axis("test error (%)"), renderers, tips, { y_range: model("DataRange1d", { only_visible: true }) }, points);
    },
  };
  return { MARKS, COLOURED, NONE, look_of, documented, figures };
})();
