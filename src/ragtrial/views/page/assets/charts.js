// Charts are drawn by Observable Plot; its style element is dropped, the same rules stand in the style sheet.
function drawn(options, label) {
  const figure = Plot.plot({ style: { background: "transparent", maxWidth: "100%" }, ...options });
  figure.querySelectorAll("style").forEach((style) => style.remove());
  const svg = figure.tagName === "svg" ? figure : figure.querySelector("svg");
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", label);
  return figure;
}
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
function put(id, ...figures) {
  const section = document.getElementById(id);
  section.replaceChildren(...figures.filter(Boolean));
  section.closest("section").hidden = !section.childElementCount;
}
const shortened = (name) => (name.length > 28 ? name.slice(0, 27) + "…" : name);
function width() {
  return Math.max(280, Math.min(720, document.querySelector("main").clientWidth - 40));
}
function drawDifferences() {
  const { comparison } = summary;
  const parts = comparison.comparisons.filter(({ metric }) => metric === comparison.primary_metric);
  const against = new Map();
  for (const part of parts) against.set(part.baseline, (against.get(part.baseline) ?? 0) + 1);
  const baseline = [...against].sort((one, other) => other[1] - one[1])[0]?.[0];
  const rows = parts.filter((part) => part.baseline === baseline && part.difference != null);
  if (!rows.length) return put("differences-plot");
  rows.sort((one, other) => other.difference - one.difference);
  const percent = Math.round(comparison.procedure.confidence * 100);
  const stroke = (part) => (part.verdict === "better" ? colour("--good")
    : part.verdict?.startsWith("worse") ? colour("--bad") : colour("--soft"));
  const margin = comparison.procedure.margin;
  const figure = drawn({
    width: width(), height: 60 + 24 * rows.length, marginLeft: Math.min(190, 12 + 7 * Math.max(...rows.map(({ setting }) => shortened(setting).length))), marginRight: 20, marginBottom: 40,
    x: { label: `difference in ${comparison.primary_metric} from ${shortened(baseline)}`, grid: true },
    y: { label: null, domain: rows.map(({ setting }) => setting), tickFormat: shortened },
    marks: [
      Plot.rectX([0], { x1: -margin, x2: margin, fill: "currentColor", fillOpacity: 0.06 }),
      Plot.ruleX([0], { stroke: "currentColor" }),
      Plot.ruleY(rows.filter(({ ci }) => ci), { y: "setting", x1: (part) => part.ci[0], x2: (part) => part.ci[1], stroke, strokeWidth: 2 }),
      Plot.dot(rows, { y: "setting", x: "difference", fill: stroke, r: 4 }),
    ],
  }, `Differences from ${baseline} with ${percent}% intervals; the table above has the numbers.`);
  put("differences-plot", figure, made("p", { class: "soft" },
    `Dots are mean differences from ${baseline}, lines ${percent}% intervals that hold together; the band is the margin of ${margin}.`));
}
const PALETTE = ["#4269d0", "#efb118", "#ff725c", "#6cc5b0", "#3ca951", "#ff8ab7", "#a463f2", "#97bbf5", "#9c6b4e", "#9498a0"];
const hue = (name) => PALETTE[names.indexOf(name) % PALETTE.length];
const CURVES = ["ndcg", "recall", "precision", "hit_rate", "rr", "ap"];
function legend() {
  return made("p", { class: "legend" }, ...names.map((name) => {
    const swatch = made("span", { class: "swatch" });
    swatch.style.background = hue(name);
    return made("span", {}, swatch, shortened(name));
  }));
}
function drawCurves() {
  const usual = ({ metric }) => CURVES.indexOf(metric.replace(/[(].*/, ""));
  const curves = summary.curves.filter((curve) => usual(curve) >= 0).sort((one, other) => usual(one) - usual(other));
  const figures = curves.map(({ metric, points }) => drawn({
    width: Math.min(360, width()), height: 230, marginLeft: 45, marginBottom: 38,
    x: { label: "k", type: "log", ticks: [...new Set(points.map(({ k }) => k))], tickFormat: String },
    y: { label: metric, grid: true, zero: false },
    marks: [
      Plot.lineY(points, { x: "k", y: "mean", z: "setting", stroke: ({ setting }) => hue(setting) }),
      Plot.dot(points, { x: "k", y: "mean", fill: ({ setting }) => hue(setting), r: 2.5, title: (point) => `${point.setting}\n${metric}@${point.k}: ${shown(point.mean)}` }),
    ],
  }, `${metric} at each cutoff, a line per setting`));
  put("curves-plot", figures.length ? legend() : null, ...figures);
}
function drawCosts() {
  const primary = summary.comparison.primary_metric;
  const k = Math.max(...summary.settings.flatMap(({ context }) => context.map(([cutoff]) => cutoff)), 0);
  const costs = [
    ["ms per query (p50)", ({ p50 }) => (p50 == null ? null : p50 * 1000)],
    [`tokens in the first ${k}`, ({ context }) => context.find(([cutoff]) => cutoff === k)?.[2] ?? null],
    ["index, MB", ({ index_bytes }) => (index_bytes == null ? null : index_bytes / 1e6)],
  ];
  put("costs-plot", ...costs.map(([label, cost]) => {
    const points = summary.settings
      .map((setting) => ({ name: setting.name, cost: cost(setting), mean: setting.scores[primary]?.[0] ?? null }))
      .filter((point) => point.cost != null && point.mean != null);
    if (points.length < 2) return null;
    const front = points
      .filter((one) => !points.some((other) => other.cost <= one.cost && other.mean >= one.mean && (other.cost < one.cost || other.mean > one.mean)))
      .sort((one, other) => one.cost - other.cost);
    return drawn({
      width: Math.min(360, width()), height: 250, marginLeft: 45, marginRight: 30, marginTop: 28, marginBottom: 38,
      x: { label, nice: true, grid: true, ticks: 5 }, y: { label: primary, grid: true, nice: true },
      marks: [
        Plot.line(front, { x: "cost", y: "mean", stroke: "currentColor", strokeOpacity: 0.35, curve: "step-after" }),
        Plot.dot(points, { x: "cost", y: "mean", r: 4, fill: (point) => (front.includes(point) ? colour("--blue") : colour("--soft")), title: (point) => `${point.name}\n${label}: ${point.cost.toPrecision(3)}\n${primary}: ${shown(point.mean)}` }),
        points.length <= 12 ? Plot.text(points, { x: "cost", y: "mean", text: (point) => shortened(point.name), dy: -9, fill: "currentColor" }) : null,
      ],
    }, `${primary} against ${label}; settings that no other beats in both are on the line`);
  }));
}
function drawPair(rows) {
  const metric = summary.metrics[state.m].name;
  const [first, second] = [names[state.a], names[state.b]];
  const values = rows.filter(({ a, b }) => a != null && b != null);
  if (!values.length) return put("pair-plot");
  const open = (event, index) => choose(values[index].query);
  const scatter = drawn({
    width: Math.min(380, width()), height: 340, marginLeft: 45,
    x: { label: `${metric}, ${shortened(first)}`, grid: true }, y: { label: shortened(second), grid: true },
    marks: [
      Plot.line([[0, 0], [1, 1]], { stroke: "currentColor", strokeOpacity: 0.3 }),
      Plot.dot(values, { x: "a", y: "b", r: 3.5, fill: ({ difference }) => (difference > 0 ? colour("--good") : difference < 0 ? colour("--bad") : colour("--soft")), fillOpacity: 0.6, title: ({ query }) => plain(`${summary.queries[query].id}: ${summary.queries[query].text}`.slice(0, 120)) }),
    ],
  }, `Each query: ${metric} of ${first} across, of ${second} up; above the line ${second} wins`);
  scatter.querySelectorAll("circle").forEach((circle, index) => {
    circle.style.cursor = "pointer";
    circle.addEventListener("click", (event) => open(event, index));
  });
  const histogram = drawn({
    width: Math.min(380, width()), height: 340, marginLeft: 45,
    x: { label: `difference in ${metric}: ${shortened(second)} less ${shortened(first)}` }, y: { label: "queries", grid: true },
    marks: [
      Plot.rectY(values, Plot.binX({ y: "count" }, { x: "difference", thresholds: 24, fill: colour("--blue"), fillOpacity: 0.7 })),
      Plot.ruleX([0], { stroke: "currentColor" }), Plot.ruleY([0], { stroke: "currentColor" }),
    ],
  }, `How many queries differ by how much between ${first} and ${second}`);
  put("pair-plot", scatter, histogram);
}
