const FOR_PAIRS = ["won", "lost", "tied", "difference", "gain"];
// One setting alone wins and loses nothing.
const offered = (choices) => (names.length > 1 ? choices : choices.filter(([name]) => !FOR_PAIRS.includes(name)));
const FILTERS = [["all", "all"], ["won", "won"], ["lost", "lost"], ["tied", "tied"], ["failed", "failed by all"], ["unjudged", "with unjudged hits"]];
const ORDERS = [["difference", "largest loss first"], ["gain", "largest gain first"], ["lowest", "lowest value first"], ["id", "id"]];
const STEP = 50;
let visible = STEP;
let listed = [];
// One row per query for the chosen pair and metric: its values, their difference, and whether any hit is unjudged.
function pairRows() {
  const values = summary.values[state.m];
  return summary.queries.map((_, query) => {
    const [a, b] = [values[state.a][query], values[state.b][query]];
    const difference = a == null || b == null ? null : b - a;
    const failed = way(state.m) > 0 && values.some((row) => row[query] != null) && values.every((row) => !(row[query] > 0));
    return { query, a, b, difference, gain: difference == null ? null : way(state.m) * difference, failed };
  });
}
async function unjudged() {
  const hits = await rankings();
  return summary.queries.map((_, query) => [state.a, state.b].some((setting) => {
    const { grades } = hits.found[setting];
    return grades.slice(hits.starts[setting][query], hits.starts[setting][query + 1]).includes(UNJUDGED);
  }));
}
async function refreshQueries() {
  const rows = pairRows();
  const words = state.s.toLowerCase().split(/\s+/).filter(Boolean);
  const isUnjudged = state.f === "unjudged" ? await unjudged() : null;
  const keeps = {
    all: () => true, won: ({ gain }) => gain > 0, lost: ({ gain }) => gain < 0,
    tied: ({ difference }) => difference === 0, failed: ({ failed }) => failed, unjudged: ({ query }) => isUnjudged[query],
  };
  const fits = ({ query }) => {
    const { id, text, tags } = summary.queries[query];
    const inside = `${id} ${text} ${tags.join(" ")}`.toLowerCase();
    return words.every((word) => inside.includes(word));
  };
  const high = Number.POSITIVE_INFINITY;
  const keys = {
    difference: ({ gain }) => gain ?? high, gain: ({ gain }) => -(gain ?? -high),
    lowest: ({ a, b }) => Math.min(a ?? high, b ?? high), id: () => 0,
  };
  listed = rows.filter((row) => keeps[state.f](row) && fits(row)).sort((one, other) => keys[state.o](one) - keys[state.o](other));
  visible = STEP;
  drawPair(listed);
  listQueries();
}
function listQueries() {
  const body = document.getElementById("query-rows");
  body.replaceChildren(...listed.slice(0, visible).map(({ query, a, b, difference, gain }) => {
    const { id, text, tags } = summary.queries[query];
    const side = gain > 0 ? "better" : gain < 0 ? "worse" : "";
    return made("tr", {},
      made("td", { class: "name" }, made("button", { class: "link", type: "button", "data-query": String(query), onclick: () => choose(query) }, plain(id))),
      made("td", { class: "text", dir: "auto" }, plain(text), tags.length ? made("span", { class: "soft" }, " " + plain(tags.join(", "))) : null),
      ...[shown(a), ...(names.length > 1 ? [shown(b), signed(difference)] : [])].map((value, place) => made("td", { class: place === 2 ? `number ${side}` : "number" }, value)));
  }));
  const head = [plain(names[state.a]), ...(names.length > 1 ? [plain(names[state.b]), "difference"] : [])];
  document.getElementById("query-head").replaceChildren(...["query", "text", ...head].map((name, place) => made("th", { scope: "col", class: place > 1 ? "number" : null }, name)));
  document.getElementById("query-count").textContent = `${listed.length} of ${summary.queries.length} queries`;
  const more = document.getElementById("query-more");
  more.hidden = listed.length <= visible;
  more.textContent = `Show ${Math.min(STEP, listed.length - visible)} more`;
}
function choose(query, { focus = true } = {}) {
  state.q = query;
  writeFragment();
  return showQuery({ focus });
}
function step(by) {
  const place = listed.findIndex(({ query }) => query === state.q);
  const next = listed[place + by];
  if (next) choose(next.query);
}
function closeQuery() {
  const back = document.querySelector(`[data-query="${state.q}"]`);
  state.q = null;
  writeFragment();
  document.getElementById("detail").hidden = true;
  (back ?? document.getElementById("query-search")).focus();
}
async function showQuery({ focus = false } = {}) {
  const detail = document.getElementById("detail");
  if (state.q == null) {
    detail.hidden = true;
    return;
  }
  const [query, asked] = [summary.queries[state.q], state.q];
  const chosen = [...new Set([state.a, state.b])];
  const found = await Promise.all(chosen.map((setting) => hitsOf(setting, asked)));
  const texts = new Map();
  for (const hit of found.flat()) texts.set(hit.chunk, await textOf(hit));
  const moved = await movedSection(asked, chosen, found);
  const below = await Promise.all(chosen.map((setting) => ranksBelow(setting, asked)));
  const leftOut = (await block("texts")).left_out;
  const explained = (await block("explanations")).map((setting) => setting?.[asked]);
  if (state.q !== asked) return;
  const heading = made("h3", { tabindex: "-1", dir: "auto" }, plain(query.text || query.id));
  const grades = new Map(query.labels.map(([doc, grade]) => [doc, grade]));
  detail.replaceChildren(...[
    made("div", { class: "controls" },
      made("button", { type: "button", onclick: closeQuery }, "Close"),
      made("button", { type: "button", onclick: () => step(-1) }, "Previous"),
      made("button", { type: "button", onclick: () => step(1) }, "Next"),
      made("span", { class: "soft" }, plain(query.id))),
    heading,
    made("p", {}, labelled([...grades])),
    moved,
    leftOut && found.flat().some(({ chunk }) => !texts.get(chunk)) ? made("p", { class: "soft" }, "Where a text is missing below, it was left out to keep the page small.") : null,
    made("div", { class: "lists" }, ...chosen.map((setting, place) => ranked(setting, found[place], found[1 - place], below[1 - place], query, texts, explained[setting]))),
  ].filter(Boolean));
  detail.hidden = false;
  for (const passage of detail.querySelectorAll(".passage")) {
    const mark = passage.querySelector("mark");
    if (passage.scrollHeight > passage.clientHeight) for (const [name, value] of [["tabindex", "0"], ["role", "group"], ["aria-label", "Text of the hit"]]) passage.setAttribute(name, value);
    if (mark) passage.scrollTop = mark.offsetTop - passage.offsetTop - 24;
  }
  if (focus) {
    heading.focus();
    detail.scrollIntoView({ block: "nearest" });
  }
}
function labelled(grades) {
  const helping = grades.filter(([, grade]) => grade > 0).map(([doc, grade]) => `${plain(doc)} (${grade})`);
  const others = grades.length - helping.length;
  const rest = others ? `${others} ${helping.length ? "more " : ""}as not relevant` : "";
  return grades.length ? `Labelled, with grades: ${[...helping, rest].filter(Boolean).join(", ")}.` : "Nothing is labelled for it.";
}
// Empty lines take the room of text.
const dense = (text) => plain(text).replace(/\n\s*\n/g, "\n");
// "matches: battery 2.41, hub ~ hubs 1.90", as in the terminal; nothing without any.
function weighed(what, terms) {
  const text = (terms ?? []).map(([term, worth]) => `${plain(term)} ${worth.toFixed(2)}`).join(", ");
  return text ? made("p", { class: "why", dir: "auto" }, `${what}: ${text}`) : null;
}
function ranked(setting, hits, others, below, query, texts, explained) {
  const values = summary.metrics.slice(0, 4).map(({ name }, metric) => `${name} ${shown(summary.values[metric][setting][state.q])}`);
  const elsewhere = new Map((others ?? []).map((hit) => [hit.doc, hit.rank]).reverse());
  return made("div", {},
    made("h3", {}, plain(names[setting])), made("p", { class: "soft" }, values.join(" · ")),
    weighed("the query's terms", explained?.terms),
    ...(explained?.wordings ?? []).map((wording) => made("p", { class: "why", dir: "auto" }, `asked: ${plain(wording)}`)),
    hits.length ? null : made("p", {}, "It found nothing."),
    made("ol", {}, ...hits.map((hit) => {
      const other = others ? elsewhere.get(hit.doc) : undefined;
      const deep = others && other == null ? below.rank(hit) : null;
      const moved = !others ? "" : other === hit.rank ? "same rank" : other ?? deep ? `rank ${rankText(other ?? deep)} in the other` : "not in the other list";
      const grade = hit.grade == null ? "unjudged" : `grade ${hit.grade}`;
      const text = texts.get(hit.chunk);
      return made("li", {},
        made("div", { class: "head" }, made("span", {}, `${hit.rank}.`), made("span", { class: "doc" }, plain(hit.doc)),
          made("span", { class: "grade" + (hit.grade > 0 ? " relevant" : "") }, grade),
          made("span", { class: "soft" }, hit.score == null ? "" : `score ${hit.score}`), made("span", { class: "soft" }, moved)),
        text ? made("p", { class: "passage", dir: "auto" }, ...marked(text, hit, query)) : null,
        weighed("matches", explained?.matches[hit.rank - 1]), weighed("terms", explained?.hit_terms[hit.rank - 1]));
    })));
}
// The text of a hit with the labelled passages inside it marked. Offsets count code points, as in the report.
function marked([, start, , title, text], hit, query) {
  const spans = query.labels.filter(([doc, grade]) => doc === hit.doc && grade > 0).flatMap(([, , places]) => places)
    .map(([from, to]) => [from - start, to - start]).filter(([from, to]) => to > 0 && from < text.length).sort((one, other) => one[0] - other[0]);
  const points = spans.length ? [...text] : null;
  const made_ = title ? [made("strong", {}, plain(title) + " ")] : [];
  let place = 0;
  for (const [from, to] of spans) {
    const [begin, end] = [Math.max(place, from), Math.min(points.length, to)];
    if (end <= begin) continue;
    made_.push(dense(points.slice(place, begin).join("")), made("mark", {}, dense(points.slice(begin, end).join(""))));
    place = end;
  }
  made_.push(dense(points ? points.slice(place).join("") : text));
  return made_;
}
