// The chosen pair, query by query: a scatter and the distribution of the differences.
function drawPair(rows) {
  const metric = summary.metrics[state.m].name;
  const [first, second] = [plain(names[state.a]), plain(names[state.b])];
  const values = rows.filter(({ a, b }) => a != null && b != null);
  if (!values.length || names.length < 2) return put("pair-plot");
  const count = (keeps) => values.filter(({ gain }) => keeps(gain)).length;
  const [won, lost, tied] = [count((one) => one > 0), count((one) => one < 0), count((one) => one === 0)];
  const scatter = drawn({
    width: Math.min(380, width()), height: 340, marginLeft: 45, marginTop: 26, marginBottom: 40,
    x: { label: `${metric}, ${shortened(first)}`, grid: true, ticks: 6 }, y: { label: shortened(second), grid: true },
    marks: [
      Plot.line([[0, 0], [1, 1]], { stroke: "currentColor", strokeOpacity: 0.3 }),
      Plot.dot(values, { x: "a", y: "b", r: 3.5, symbol: ({ gain }) => (gain > 0 ? "triangle" : gain < 0 ? "square" : "circle"), fill: ({ gain }) => tone(gain), fillOpacity: 0.6, title: ({ query }) => plain(`${summary.queries[query].id}: ${summary.queries[query].text}`.slice(0, 120)) }),
    ],
    symbol: { type: "identity" },
  }, `Each query: ${metric} of ${first} across, of ${second} up; as a triangle, ${second} wins: ${won} won, ${lost} lost, ${tied} tied. The table below has each`);
  scatter.querySelectorAll("[data-mark=dot] path").forEach((dot, index) => {
    dot.style.cursor = "pointer";
    dot.addEventListener("click", () => choose(values[index].query));
  });
  put("pair-plot", scatter, distribution(values, metric, { first, second, won, lost, tied }));
}
// Ties have a bar of their own, so that small differences beside them are seen.
function distribution(values, metric, { first, second, won, lost, tied }) {
  const reach = Math.max(...values.map(({ difference }) => Math.abs(difference))) || 1;
  const bins = 12;
  const step = reach / bins;
  const bars = Array.from({ length: 2 * bins }, (_, place) => ({ x1: (place - bins) * step, x2: (place - bins + 1) * step, count: 0 }));
  for (const { gain: difference } of values) {
    if (difference === 0) continue;
    const place = difference > 0 ? bins + Math.min(bins - 1, Math.ceil(difference / step) - 1) : bins - 1 - Math.min(bins - 1, Math.ceil(-difference / step) - 1);
    bars[place].count += 1;
  }
  const drawnBars = bars.filter((bar) => bar.count);
  const most = Math.max(...drawnBars.map((bar) => bar.count), 1);
  return drawn({
    width: Math.min(380, width()), height: 340, marginLeft: 45, marginTop: 26, marginBottom: 40,
    x: { label: `${way(state.m) < 0 ? "gain (lower is better)" : "difference"} in ${metric}`, domain: [-reach, reach], ticks: 6 },
    y: { label: "queries", grid: true, domain: [0, most * 1.12], ...(most < 6 ? { ticks: most } : {}) },
    marks: [
      Plot.rectY(drawnBars, { x1: "x1", x2: "x2", y: "count", fill: (bar) => tone(bar.x1 + bar.x2), fillOpacity: 0.75, title: (bar) => `${signed(bar.x1, 3)} to ${signed(bar.x2, 3)}: ${bar.count}` }),
      Plot.ruleX([0], { stroke: "currentColor" }), Plot.ruleY([0], { stroke: "currentColor" }),
      Plot.text([`${lost} lost`], { text: (words) => words, frameAnchor: "top-left", textAnchor: "start", dx: 6, fill: colour("--bad") }),
      Plot.text([`${tied} tied`], { text: (words) => words, frameAnchor: "top", fill: colour("--soft"), stroke: colour("--paper"), strokeWidth: 4 }),
      Plot.text([`${won} won`], { text: (words) => words, frameAnchor: "top-right", textAnchor: "end", fill: colour("--good") }),
    ],
  }, `How many queries differ by how much between ${first} and ${second}: ${won} won, ${lost} lost, ${tied} tied`);
}
