let summary;
function options(select, chosen, labels, changed) {
  select.replaceChildren(...labels.map((label, place) => made("option", { value: String(place), selected: place === chosen }, plain(label))));
  select.onchange = () => changed(Number(select.value));
}
function controls() {
  options(document.getElementById("choose-metric"), state.m, summary.metrics.map(({ name }) => name), (place) => change(() => { state.m = place; }));
  document.getElementById("choose-order").parentElement.hidden = names.length < 2;
  options(document.getElementById("choose-order"), ORDERS.findIndex(([name]) => name === state.o), ORDERS.map(([, label]) => label), (place) => change(() => { state.o = ORDERS[place][0]; }));
  const search = document.getElementById("query-search");
  if (search.value !== state.s) search.value = state.s;
}
function theme() {
  const button = document.getElementById("theme");
  const dark = () => (document.documentElement.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const label = () => { button.textContent = dark() ? "Light" : "Dark"; };
  button.hidden = false;
  button.addEventListener("click", () => {
    document.documentElement.dataset.theme = dark() ? "light" : "dark";
    label();
  });
  label();
}
// The baseline, or else the second best, and the best setting that is not the same on every query.
function firstPair() {
  const values = summary.values[0];
  const baseline = names.indexOf(summary.baseline);
  const differs = (one, other) => values[one].some((value, query) => value !== values[other][query]);
  const others = summary.order.filter((place) => place !== (baseline >= 0 ? baseline : summary.order[0]));
  const other = others.find((place) => differs(place, baseline >= 0 ? baseline : summary.order[0])) ?? others[0] ?? 0;
  return baseline >= 0 ? [baseline, other] : [other, summary.order[0]];
}
async function show() {
  controls();
  refreshQueries();
  await showQuery();
}
async function start() {
  theme();
  sortableTables();
  summary = await block("summary");
  names = summary.settings;
  [state.a, state.b] = firstPair();
  readFragment();
  document.getElementById("query-controls").hidden = false;
  const list = document.getElementById("queries");
  list.classList.toggle("strips", isWide());
  list.style.setProperty("--columns", String(names.length));
  let waiting;
  document.getElementById("query-search").addEventListener("input", (event) => {
    clearTimeout(waiting);
    waiting = setTimeout(() => { state.s = event.target.value; writeFragment({ replace: true }); refreshQueries(); }, 120);
  });
  document.getElementById("query-more").addEventListener("click", () => { visible += MORE; listQueries(); });
  document.addEventListener("keydown", (event) => {
    if (state.q == null || event.target.closest("input, select")) return;
    if (event.key === "Escape") closeQuery();
    else if (event.key === "ArrowLeft") step(-1);
    else if (event.key === "ArrowRight") step(1);
  });
  addEventListener("popstate", () => { readFragment(); show(); });
  const ahead = () => ["hits", "reasons", "wordings", "texts"].forEach(block);
  for (const event of ["pointerenter", "focusin"]) list.addEventListener(event, ahead, { once: true });
  if (!isAnyScored() && summary.has_rankings) firsts = await firstKeys();
  await show();
  if (state.q != null) document.querySelector(`[data-query="${state.q}"]`)?.scrollIntoView();
  document.documentElement.dataset.ready = "yes";
}
start();
