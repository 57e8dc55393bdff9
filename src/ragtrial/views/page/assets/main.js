let summary;
function options(select, chosen, labels, change) {
  select.replaceChildren(...labels.map((label, place) => made("option", { value: String(place), selected: place === chosen }, plain(label))));
  select.onchange = () => change(Number(select.value));
}
function controls() {
  const changed = (change) => { change(); writeFragment(); show(); };
  options(document.getElementById("choose-a"), state.a, names, (place) => changed(() => { state.a = place; }));
  options(document.getElementById("choose-b"), state.b, names, (place) => changed(() => { state.b = place; }));
  options(document.getElementById("choose-metric"), state.m, summary.metrics.map(({ name }) => name), (place) => changed(() => { state.m = place; }));
  const orders = offered(ORDERS);
  options(document.getElementById("choose-order"), orders.findIndex(([name]) => name === state.o), orders.map(([, label]) => label), (place) => changed(() => { state.o = orders[place][0]; }));
  document.getElementById("filters").replaceChildren(...offered(FILTERS).map(([name, label]) => made("button", {
    type: "button", "aria-pressed": String(state.f === name), onclick: () => changed(() => { state.f = name; }),
  }, label)));
  const search = document.getElementById("query-search");
  if (search.value !== state.s) search.value = state.s;
}
async function show() {
  const focused = document.activeElement?.textContent;
  const inside = document.activeElement?.closest?.("#filters");
  controls();
  if (inside) [...document.querySelectorAll("#filters button")].find((button) => button.textContent === focused)?.focus();
  if (names.length > SYMBOLS.length) drawCurves();
  await refreshQueries();
  await showQuery();
}
function draw() {
  drawDifferences();
  drawCurves();
  drawSlices();
  drawAxes();
  drawCosts();
}
function theme() {
  const button = document.getElementById("theme");
  const dark = () => (document.documentElement.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const label = () => { button.textContent = dark() ? "Light" : "Dark"; };
  button.hidden = false;
  button.addEventListener("click", () => {
    document.documentElement.dataset.theme = dark() ? "light" : "dark";
    label();
    draw();
    refreshQueries();
  });
  label();
}
// Links of the contents scroll, and leave the fragment to what is chosen.
function contents() {
  for (const link of document.querySelectorAll("nav a")) {
    const section = document.getElementById(link.hash.slice(1));
    if (section.id === "queries") link.parentElement.hidden = false;
    section.tabIndex = -1;
    link.addEventListener("click", (event) => {
      event.preventDefault();
      section.scrollIntoView();
      section.focus({ preventScroll: true });
    });
  }
}
// The baseline, or else the second best, and the best setting that is not the same on every query.
function firstPair() {
  const values = summary.values[0];
  const mean = (place) => summary.settings[place].scores[summary.comparison.primary_metric]?.[0] ?? -1;
  const order = names.map((_, place) => place).sort((one, other) => way() * (mean(other) - mean(one)));
  const baseline = names.indexOf(summary.comparison.procedure.baseline);
  const differs = (one, other) => values[one].some((value, query) => value !== values[other][query]);
  const others = order.filter((place) => place !== (baseline >= 0 ? baseline : order[0]));
  const other = others.find((place) => differs(place, baseline >= 0 ? baseline : order[0])) ?? others[0] ?? 0;
  return baseline >= 0 ? [baseline, other] : [other, order[0]];
}
async function start() {
  summary = await block("summary");
  names = summary.settings.map(({ name }) => name);
  [state.a, state.b] = firstPair();
  readFragment();
  theme();
  sortableTables();
  contents();
  document.getElementById("queries").hidden = false;
  for (const label of document.querySelectorAll(".pair label")) label.hidden = names.length < 2 && !label.querySelector("#choose-metric");
  let waiting;
  document.getElementById("query-search").addEventListener("input", (event) => {
    clearTimeout(waiting);
    waiting = setTimeout(() => { state.s = event.target.value; writeFragment({ replace: true }); refreshQueries(); }, 120);
  });
  document.getElementById("query-more").addEventListener("click", () => { visible += STEP; listQueries(); });
  document.addEventListener("keydown", (event) => {
    if (state.q == null || event.target.closest("input, select")) return;
    if (event.key === "Escape") closeQuery();
    else if (event.key === "ArrowLeft") step(-1);
    else if (event.key === "ArrowRight") step(1);
  });
  addEventListener("popstate", () => { readFragment(); show(); });
  const ahead = () => ["hits", "reasons", "explanations", "texts"].forEach(block);
  for (const event of ["pointerenter", "focusin"]) document.getElementById("queries").addEventListener(event, ahead, { once: true });
  draw();
  await show();
  if (state.q != null) document.getElementById("detail").scrollIntoView();
  document.documentElement.dataset.ready = "yes";
}
start();
