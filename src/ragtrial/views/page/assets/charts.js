// Charts are drawn by Observable Plot; its style element is dropped, the same rules are in the style sheet.
function drawn(options, label) {
  const figure = Plot.plot({ style: { background: "transparent", maxWidth: "100%" }, ...options });
  figure.querySelectorAll("style").forEach((style) => style.remove());
  const svg = figure.tagName === "svg" ? figure : figure.querySelector("svg");
  // Parts of a picture have no names: they are data, by which scripts find them.
  for (const part of svg.querySelectorAll("[aria-label]")) {
    part.dataset.mark = part.getAttribute("aria-label");
    part.removeAttribute("aria-label");
  }
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", label);
  return figure;
}
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
// A section that has nothing but plots is hidden without them; one that a page has no use for is not there.
function put(id, ...figures) {
  const place = document.getElementById(id);
  if (!place) return;
  place.replaceChildren(...figures.filter(Boolean));
  const section = place.closest("section");
  if (!section.classList.contains("drawn")) return;
  section.hidden = !place.childElementCount;
  document.querySelector(`nav a[href="#${section.id}"]`).parentElement.hidden = section.hidden;
}
const shortened = (name, most = 28) => (name.length > most ? name.slice(0, most - 1) + "…" : name);
function width() {
  return Math.max(280, Math.min(720, document.querySelector("main").clientWidth - 40));
}
const FULL = 720;
const SMALL = 350;
const interval = ({ difference, ci }) => `${signed(difference)}${ci ? `, ${signed(ci[0])} to ${signed(ci[1])}` : ", no interval"}`;
// 1 where higher values of a metric are better, -1 where lower ones are; the first metric decides.
const way = (metric = 0) => (summary.metrics[metric].better === "lower" ? -1 : 1);
const claimed = ({ ci }) => (ci == null ? 0 : way() * ((ci[0] > 0) - (ci[1] < 0)));
const tone = (side) => colour(side > 0 ? "--good" : side < 0 ? "--bad" : "--soft");
// A dot and its interval per row; distinguished by place and by filled or open dots, not by colour alone.
function forest(rows, { label, title, size = FULL, margin = null, domain = null, side = claimed }) {
  const wide = Math.min(size, width());
  const most = Math.floor(((wide > SMALL ? 0.55 : 0.45) * wide - 16) / 6.6);
  const longest = Math.max(...rows.map((row) => shortened(row.label, most).length));
  const marks = [
    margin ? Plot.rectX([0], { x1: -margin, x2: margin, fill: "currentColor", fillOpacity: 0.07 }) : null,
    Plot.ruleX([0], { stroke: "currentColor" }),
    Plot.ruleY(rows.filter(({ ci }) => ci), { y: "key", x1: (row) => row.ci[0], x2: (row) => row.ci[1], stroke: (row) => tone(side(row)), strokeWidth: 2 }),
    Plot.dot(rows, { y: "key", x: "difference", fill: (row) => (side(row) ? tone(side(row)) : colour("--paper")), stroke: (row) => tone(side(row)), strokeWidth: 1.5, r: 4, title: (row) => `${row.label}\n${interval(row)}` }),
  ];
  const labels = new Map(rows.map((row) => [row.key, shortened(row.label, most)]));
  const marginLeft = 16 + 6.6 * longest;
  return drawn({
    width: wide, height: 56 + 22 * rows.length, marginLeft, marginRight: 20, marginTop: 8, marginBottom: 40,
    x: { label, grid: true, nice: true, ticks: Math.max(2, Math.floor((wide - marginLeft) / 65)), ...(domain ? { domain } : {}) },
    y: { label: null, domain: rows.map(({ key }) => key), tickFormat: (key) => labels.get(key), tickSize: 0 },
    marks,
  }, `${title}. ${rows.slice(0, 20).map((row) => `${row.label}: ${interval(row)}`).join("; ")}`);
}
function spread(rows) {
  const ends = rows.flatMap(({ difference, ci }) => [difference, ...(ci ?? [])]);
  return [Math.min(0, ...ends), Math.max(0, ...ends)];
}
function drawDifferences() {
  const { comparison } = summary;
  const parts = comparison.comparisons.filter(({ metric }) => metric === comparison.primary_metric);
  const against = new Map();
  for (const part of parts) against.set(part.baseline, (against.get(part.baseline) ?? 0) + 1);
  const baseline = comparison.procedure.baseline ?? [...against].sort((one, other) => other[1] - one[1])[0]?.[0];
  // Where the baseline is a report, each setting is compared with that of the same name.
  const rows = parts.filter((part) => (part.baseline === baseline || !names.includes(baseline)) && part.difference != null)
    .map((part) => ({ ...part, key: part.setting, label: plain(part.setting) }));
  if (!rows.length) return put("differences-plot");
  rows.sort((one, other) => other.difference - one.difference);
  const percent = Math.round(comparison.procedure.confidence * 1000) / 10;
  const margin = comparison.procedure.margin;
  const side = ({ verdict }) => (verdict === "better" ? 1 : verdict?.startsWith("worse") ? -1 : 0);
  put("differences-plot", forest(rows, {
    label: `difference in ${comparison.primary_metric} from ${shortened(plain(baseline))}`, margin, side,
    title: `Differences in ${comparison.primary_metric} from ${plain(baseline)} with ${percent}% intervals`,
  }), made("p", { class: "soft" },
    `Dots are mean differences from ${plain(baseline)}, lines ${percent}% simultaneous intervals; the band is the margin of ${margin}. Filled: clearly better or worse.`));
}
const SYMBOLS = [["circle", "●"], ["square", "■"], ["triangle", "▲"], ["diamond", "◆"], ["star", "★"], ["cross", "✚"], ["wye", "Y"]];
// If there are too many settings for distinct colours, the chosen two and the best ones have a colour and a sign; the others are grey.
function series() {
  const primary = summary.comparison.primary_metric;
  const mean = (place) => summary.settings[place].scores[primary]?.[0] ?? -1;
  const best = names.map((_, place) => place).sort((one, other) => way() * (mean(other) - mean(one)));
  const chosen = new Set(names.length > SYMBOLS.length ? [state.a, state.b, ...best] : best);
  const kept = [...chosen].slice(0, SYMBOLS.length).sort((one, other) => best.indexOf(one) - best.indexOf(other));
  return kept.map((place, row) => ({ name: names[place], colour: colour(`--series-${row + 1}`), symbol: SYMBOLS[row][0], glyph: SYMBOLS[row][1] }));
}
function legend(shown) {
  const entries = shown.map(({ name, colour: ink, glyph }) => {
    const sign = made("span", { class: "sign", "aria-hidden": "true" }, glyph);
    sign.style.color = ink;
    return made("span", {}, sign, shortened(plain(name)));
  });
  if (names.length > shown.length) entries.push(made("span", { class: "soft" }, `${names.length - shown.length} more in grey`));
  return made("p", { class: "legend" }, ...entries);
}
function drawCurves() {
  const curves = summary.curves.filter(({ order }) => order != null).sort((one, other) => one.order - other.order);
  const coded = series();
  const coloured = new Set(coded.map(({ name }) => name));
  const figures = curves.map(({ metric, points }) => {
    const grey = points.filter(({ setting }) => !coloured.has(setting));
    const own = (name) => points.filter(({ setting, mean }) => setting === name && mean != null);
    const last = Math.max(...points.map(({ k }) => k));
    const words = coded.map(({ name }) => `${plain(name)} ${shown(own(name).find(({ k }) => k === last)?.mean)}`);
    return drawn({
      width: Math.min(SMALL, width()), height: 230, marginLeft: 45, marginBottom: 38, marginTop: 24,
      x: { label: "k", type: "log", ticks: [...new Set(points.map(({ k }) => k))], tickFormat: String },
      y: { label: metric, grid: true, zero: false, nice: true },
      marks: [
        Plot.lineY(grey, { x: "k", y: "mean", z: "setting", stroke: colour("--line"), strokeWidth: 1.2 }),
        ...coded.toReversed().flatMap(({ name, colour: ink, symbol }) => [
          Plot.lineY(own(name), { x: "k", y: "mean", stroke: ink }),
          Plot.dot(own(name), { x: "k", y: "mean", fill: ink, r: 3.5, symbol, title: (point) => `${plain(name)}\n${metric}@${point.k}: ${shown(point.mean)}` }),
        ]),
      ],
    }, `${metric} at each cutoff, a line per setting; at ${last}: ${words.join(", ")}`);
  });
  put("curves-plot", figures.length ? legend(coded) : null, ...figures);
}
const MOST_NAMED = 12;
const COSTS = {
  latency: ["ms per query (median)", (value) => value * 1000],
  context: [(k, unit) => `${unit} in the first ${k ?? "hits"}`, (value) => value],
  index: ["index, MB", (value) => value / 1e6],
};
function drawCosts() {
  const costs = summary.costs;
  put("costs-plot", ...(costs?.costs ?? []).map((name) => {
    const label = typeof COSTS[name][0] === "string" ? COSTS[name][0] : COSTS[name][0](costs.k, costs.context_unit);
    const points = costs.settings.filter((one) => one[name] != null && one.mean != null)
      .map((one) => ({ name: plain(one.setting), cost: COSTS[name][1](one[name]), mean: one.mean, front: one.undominated[name] }));
    if (points.length < 2) return null;
    const front = points.filter((one) => one.front).sort((one, other) => one.cost - other.cost);
    const options = (labels) => ({
      width: Math.min(SMALL, width()), height: 250, marginLeft: 45, marginRight: 34, marginTop: 28, marginBottom: 40,
      x: { label, nice: true, grid: true, ticks: 4, inset: 8 }, y: { label: costs.metric, grid: true, nice: true, inset: 8 },
      marks: [
        Plot.line(front, { x: "cost", y: "mean", stroke: "currentColor", strokeOpacity: 0.5, curve: "step-after" }),
        Plot.dot(points, { x: "cost", y: "mean", r: 4, fill: (point) => colour(point.front ? "--blue" : "--paper"), stroke: (point) => colour(point.front ? "--blue" : "--soft"), strokeWidth: 1.5, title: (point) => `${point.name}\n${label}: ${point.cost.toPrecision(3)}\n${costs.metric}: ${shown(point.mean)}` }),
        ...labels,
      ],
    });
    const named = points.length <= MOST_NAMED ? points.toSorted((one, other) => other.front - one.front) : front;
    const labels = labelMarks(points, named, Plot.plot(options([])), { x: "cost", y: "mean", text: ({ name }) => name });
    return drawn(options(labels), `${costs.metric} against ${label}; none beats in both: ${front.map((one) => `${one.name} (${one.cost.toPrecision(3)}, ${shown(one.mean)})`).join(", ")}`);
  }));
}
