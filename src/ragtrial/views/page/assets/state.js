// What is chosen lives in the fragment of the address, so that a finding can be linked and the back button works.
const state = { q: null, a: null, b: null, m: 0, f: "", s: "", o: "difference" };
let names = [];
function readFragment() {
  const given = new URLSearchParams(location.hash.slice(1));
  const place = (key, fallback) => {
    const found = names.indexOf(given.get(key));
    return found < 0 ? fallback : found;
  };
  state.a = place("a", state.a);
  state.b = place("b", state.b);
  state.m = Math.max(0, summary.metrics.findIndex(({ name }) => name === given.get("m")));
  state.f = given.get("f") ?? "";
  state.o = ORDERS.some(([name]) => name === given.get("o")) ? given.get("o") : ORDERS[0][0];
  state.s = given.get("s") ?? "";
  const query = summary.queries.findIndex(({ id }) => id === given.get("q"));
  state.q = query < 0 ? null : query;
}
function writeFragment({ replace = false } = {}) {
  const given = new URLSearchParams();
  if (state.q != null) given.set("q", summary.queries[state.q].id);
  given.set("a", names[state.a]);
  given.set("b", names[state.b]);
  if (state.m) given.set("m", summary.metrics[state.m].name);
  if (state.f) given.set("f", state.f);
  if (state.o !== ORDERS[0][0]) given.set("o", state.o);
  if (state.s) given.set("s", state.s);
  const target = "#" + given;
  if (target !== location.hash) history[replace ? "replaceState" : "pushState"](null, "", target);
}
