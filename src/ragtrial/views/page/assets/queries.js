// All questions, the settings side by side; the text of a question opens it.
const MOST_COLUMNS = 6;
const FIRST_HITS = 5;
const STEP = 12;
const MORE = 200;
let visible = STEP;
let listed = [];
let firsts = null; // the first hits of the settings, by question, where no question is scored
// 1 where higher values of a metric are better, -1 where lower ones are; the first metric decides.
const way = (metric = 0) => (summary.metrics[metric].better === "lower" ? -1 : 1);
const isWide = () => summary.order.length > MOST_COLUMNS;
const valuesOf = (query) => summary.order.map((setting) => summary.values[state.m][setting][query]);
// The value of a full bar: 1, or the highest of any question, so that bars of all rows compare.
const fullBar = () => summary.values[state.m].flat().reduce((most, value) => Math.max(most, value ?? 0), 1);
const ranksOf = (query) => summary.order.map((setting) => summary.first[setting][query]);
const isScored = (query) => summary.values[0].some((values) => values[query] != null);
const isAnswerable = (query) => !summary.queries[query].tags.includes("unanswerable");
function spreadOf(query) {
  const values = valuesOf(query).filter((value) => value != null);
  return values.length ? Math.max(...values) - Math.min(...values) : -1;
}
function isTopLower(query) {
  const [top, ...others] = valuesOf(query);
  return top != null && others.some((value) => value != null && way(state.m) * (value - top) > 0);
}
const isAnyScored = () => summary.queries.some((_, query) => isScored(query));
const plural = (count, noun) => `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;
// A filter, its words and what it keeps; one that keeps nothing is not offered.
function filters() {
  const best = names[summary.order[0]];
  const choices = [
    ["differ", "Settings differ", (query) => spreadOf(query) > 0],
    ["none", "Some find no answer", (query) => summary.has_rankings && isScored(query) && ranksOf(query).includes(0)],
    ["lower", `${shortened(best)} is not ${way(state.m) > 0 ? "highest" : "lowest"}`, isTopLower],
    ["all", "All", isScored],
    ["firsts", "First hits differ", (query) => firsts != null && new Set(firsts[query]).size > 1],
    ["unanswerable", "No answer in the documents", (query) => !isScored(query) && !isAnswerable(query)],
    ["unscored", "Not scored", (query) => !isScored(query) && isAnswerable(query)],
  ];
  const queries = summary.queries.map((_, query) => query);
  return choices.map(([name, label, keeps]) => ({ name, label, queries: queries.filter(keeps) })).filter((choice) => choice.queries.length);
}
const ORDERS = [["difference", "largest difference first"], ["lowest", "lowest of the first setting first"], ["given", "as given"]];
const shortened = (name, most = 28) => (plain(name).length > most ? plain(name).slice(0, most - 1) + "…" : plain(name));
function refreshQueries() {
  const words = state.s.toLowerCase().split(/\s+/).filter(Boolean);
  const fits = (query) => {
    const { id, text, tags } = summary.queries[query];
    const inside = `${id} ${text} ${tags.join(" ")}`.toLowerCase();
    return words.every((word) => inside.includes(word));
  };
  const offered = filters();
  const chosen = offered.find(({ name }) => name === state.f) ?? offered[0] ?? { queries: [] };
  const keys = { difference: (query) => -spreadOf(query), lowest: (query) => way(state.m) * (valuesOf(query)[0] ?? Number.POSITIVE_INFINITY), given: (query) => query };
  listed = chosen.queries.filter(fits).sort((one, other) => keys[state.o](one) - keys[state.o](other) || one - other);
  if (state.q != null && !listed.includes(state.q)) listed.unshift(state.q);
  visible = Math.max(STEP, listed.indexOf(state.q) + 1);
  document.getElementById("filters").replaceChildren(...offered.map(({ name, label, queries }) => made("button", {
    type: "button", role: "radio", "aria-checked": String(name === chosen.name), onclick: () => change(() => { state.f = name; }),
  }, `${label} ${queries.length.toLocaleString("en")}`)));
  listQueries();
}
function listQueries() {
  const metric = summary.metrics[state.m].name;
  const most = fullBar();
  const scale = most > 1 ? `, 0 to ${most.toLocaleString("en", { maximumSignificantDigits: 3 })}` : "";
  const head = isWide()
    ? [made("span", {}, `the darker, the higher its ${metric}${scale}; empty: 0`), made("span", {}, `${names.length} settings, as above from left`), made("span", {}, metric), made("span", {}, summary.has_rankings ? "no answer" : "")]
    : [made("span", {}, !isAnyScored() ? "the first hit of each setting" : `${metric} (bar${scale})${summary.k ? ", and the rank of the first answer (#)" : ""}${names.length > 1 ? "; bold: best" : ""}`), ...summary.order.map((setting) => made("b", {}, plain(names[setting])))];
  document.getElementById("query-head").replaceChildren(...head);
  for (const name of ["choose-order", "choose-metric"]) document.getElementById(name).parentElement.style.display = isAnyScored() ? "" : "none";
  document.getElementById("query-rows").replaceChildren(...listed.slice(0, visible).map((query) => queryRow(query, most)));
  document.getElementById("query-count").textContent = plural(listed.length, "question");
  const more = document.getElementById("query-more");
  more.hidden = listed.length <= visible;
  more.textContent = `Show ${listed.length - visible > MORE ? `${MORE} of ` : ""}the other ${(listed.length - visible).toLocaleString("en")}`;
}
function queryRow(query, most) {
  const { id, text, tags } = summary.queries[query];
  const words = made("span", { class: "w", dir: "auto" }, plain(text || id), tags.length ? made("small", {}, " " + plain(tags.join(", "))) : null);
  const row = made("details", { class: "q", "data-query": String(query), "data-id": plain(id), open: query === state.q }, made("summary", { class: "row" }, words, ...(isWide() ? strip(query, most) : isAnyScored() ? cells(query, most) : firstPlaces(query))), made("div", { class: "o" }));
  row.addEventListener("toggle", () => {
    if (row.open && state.q !== query) openQuery(query);
    else if (!row.open && state.q === query) { state.q = null; writeFragment(); }
  });
  return row;
}
function cells(query, most) {
  const values = valuesOf(query);
  const known = values.filter((value) => value != null).map((value) => way(state.m) * value);
  const [best, ranks] = [Math.max(...known), ranksOf(query)];
  return values.map((value, place) => {
    const isBest = value != null && known.length > 1 && way(state.m) * value === best && new Set(known).size > 1;
    const isMissed = summary.k && isScored(query) && ranks[place] === 0;
    const cell = made("span", { class: `c${isBest ? " h" : ""}${isMissed ? " x" : ""}` }, value == null ? "–" : value.toFixed(2),
      summary.k && isScored(query) ? made("small", {}, isMissed ? "none" : `#${ranks[place]}`) : null);
    cell.style.setProperty("--v", String(Math.round(100 * Math.max(0, value ?? 0) / most)));
    return cell;
  });
}
async function firstKeys() {
  const hits = await rankings();
  const firstOf = (setting, query) => {
    const [doc, start, end] = hits.chunks[hits.found[setting].chunks[hits.starts[setting][query]]];
    return keyOf({ doc, start, end });
  };
  return summary.queries.map((_, query) => hits.found.map(({ lengths }, setting) => (lengths[query] ? firstOf(setting, query) : null)));
}
// The title of a hit, and the nearest heading above its first labelled passage, or above its text.
function placeOf(hit, row, query) {
  const [, , , title, , headings = []] = row ?? [];
  const position = hit.start + Math.max(0, row ? passagesIn(row, hit, query)[0]?.[0] ?? 0 : 0);
  const heading = headings.findLast(([start]) => start <= position)?.[1];
  return [title || hit.doc, heading === title ? null : heading].filter(Boolean).join(" \u203a ");
}
// Where no question is scored: the place of the first hit of each setting.
function firstPlaces(query) {
  return summary.order.map((setting) => {
    const cell = made("small", { class: "mute" });
    hitsOf(setting, query).then(async ([hit]) => { cell.textContent = hit ? shortened(placeOf(hit, await textOf(hit), summary.queries[query]), 60) : "nothing"; });
    return cell;
  });
}
// One cell per setting in four steps of the metric; empty where the value is 0.
function strip(query, most) {
  const values = valuesOf(query);
  const known = values.filter((value) => value != null);
  if (!known.length) return [made("span"), made("small", {}, "not scored"), made("span")];
  const paths = ["", "", "", ""];
  values.forEach((value, place) => { if (value > 0) paths[Math.min(3, Math.ceil((4 * value) / most) - 1)] += `M${place} 0h.9v1h-.9z`; });
  const drawn = drawing("svg", { class: "hs", viewBox: `0 0 ${values.length} 1`, preserveAspectRatio: "none", "aria-hidden": "true" }, ...paths.map((d) => drawing("path", { d })));
  const missed = ranksOf(query).filter((rank) => rank === 0).length;
  return [drawn, made("small", {}, `${Math.min(...known).toFixed(2)} to ${Math.max(...known).toFixed(2)}`), made("small", {}, missed && summary.has_rankings ? `${missed} of ${values.length}` : "")];
}
function change(how) {
  how();
  writeFragment();
  controls();
  refreshQueries();
  showQuery();
}
async function openQuery(query, { focus = false } = {}) {
  state.q = query;
  writeFragment();
  if (!document.querySelector(`[data-query="${query}"]`)) { refreshQueries(); }
  for (const row of document.querySelectorAll("details.q[open]")) if (row.dataset.query !== String(query)) row.open = false;
  const row = document.querySelector(`[data-query="${query}"]`);
  row.open = true;
  await showQuery();
  if (focus) row.querySelector("summary").focus();
}
function step(by) {
  const next = listed[listed.indexOf(state.q) + by];
  if (next == null) return;
  if (listed.indexOf(next) >= visible) { visible += STEP; listQueries(); }
  openQuery(next, { focus: true });
}
function closeQuery() {
  const row = document.querySelector(`[data-query="${state.q}"]`);
  state.q = null;
  writeFragment();
  if (row) { row.open = false; row.querySelector("summary").focus(); }
}
async function showQuery() {
  if (state.q == null) return;
  const asked = state.q;
  const place = document.querySelector(`[data-query="${asked}"] .o`);
  if (!place) return;
  const query = summary.queries[asked];
  if (!summary.has_rankings) {
    place.replaceChildren(made("p", {}, made("small", {}, plain(query.id))), made("div", { class: "lists" }, ...summary.order.map((setting) => made("div", {}, ...scoresOf(setting)))));
    return;
  }
  const chosen = [...new Set([state.a, state.b])];
  const found = await Promise.all(chosen.map((setting) => hitsOf(setting, asked)));
  const texts = new Map();
  for (const hit of found.flat()) texts.set(hit.chunk, await textOf(hit));
  const firsts = isWide() ? null : await firstHits(asked);
  const moved = await movedSection(asked, chosen, found);
  const below = await Promise.all(chosen.map((setting) => ranksBelow(setting, asked)));
  const leftOut = (await block("texts")).left_out;
  const wordings = (await block("wordings")).map((setting) => setting?.[asked] ?? []);
  if (state.q !== asked) return;
  document.getElementById("detail")?.removeAttribute("id");
  place.id = "detail";
  place.replaceChildren(...[
    made("p", {}, labelled([...new Map(query.labels.map(([doc, grade, , group]) => [JSON.stringify([doc, group]), [doc, grade, group]])).values()]), made("small", {}, ` ${plain(query.id)}`)),
    firsts,
    names.length > 1 ? pairControls() : null,
    moved,
    leftOut && found.flat().some(({ chunk }) => !texts.get(chunk)) ? made("p", { class: "mute" }, "Where a text is missing below, it was left out to keep the page small.") : null,
    made("div", { class: "lists" }, ...chosen.map((setting, at) => ranked(setting, found[at], found[1 - at], below[1 - at], query, texts, wordings[setting]))),
  ].filter(Boolean));
  for (const passage of place.querySelectorAll(".passage")) {
    const mark = passage.querySelector("mark");
    if (passage.scrollHeight > passage.clientHeight) for (const [name, value] of [["tabindex", "0"], ["role", "group"], ["aria-label", "Text of the hit"]]) passage.setAttribute(name, value);
    if (mark) passage.scrollTop = mark.offsetTop - passage.offsetTop - 24;
  }
}
// The first hits of every setting: the grade in a disc, and the place.
async function firstHits(query) {
  const lists = await Promise.all(summary.order.map(async (setting) => {
    const hits = (await hitsOf(setting, query)).slice(0, FIRST_HITS);
    const places = await Promise.all(hits.map(async (hit) => placeOf(hit, await textOf(hit), summary.queries[query])));
    return made("div", {}, made("b", {}, plain(names[setting])), hits.length ? made("ol", {}, ...hits.map((hit, place) => made("li", {}, disc(hit.grade), plain(places[place])))) : made("p", {}, "nothing"));
  }));
  return made("div", {}, made("div", { class: "firsts" }, ...lists),
    made("p", { class: "mute" }, `First ${FIRST_HITS}. `, disc(3), " grade of the label, ", disc(0), " labelled not relevant, ", disc(null), " no label: counts as 0."));
}
const disc = (grade) => made("span", { class: `r${grade == null ? " u" : grade > 0 ? " y" : ""}` }, grade == null ? "?" : String(grade));
function pairControls() {
  const choose = (key, label) => {
    const select = made("select", { "aria-label": label });
    options(select, state[key], names, (setting) => { state[key] = setting; writeFragment(); showQuery(); });
    return select;
  };
  return made("div", { class: "controls" }, "What moved from ", choose("a", "from"), " to ", choose("b", "to"),
    made("button", { type: "button", onclick: () => step(-1) }, "Previous"), made("button", { type: "button", onclick: () => step(1) }, "Next"));
}
function labelled(grades) {
  const helping = grades.filter(([, grade]) => grade > 0).map(([doc, grade, group]) => `${plain(doc)} (${grade}${group ? `, group ${plain(group)}` : ""})`);
  const others = grades.length - helping.length;
  const rest = others ? `${others} ${helping.length ? "more " : ""}as not relevant` : "";
  return grades.length ? `Labelled, with grades: ${[...helping, rest].filter(Boolean).join(", ")}.` : "Nothing is labelled for it.";
}
// Empty lines take the room of text.
const dense = (text) => plain(text).replace(/\n\s*\n/g, "\n");
function scoresOf(setting) {
  const values = summary.metrics.slice(0, 4).map(({ name }, metric) => `${name} ${shown(summary.values[metric][setting][state.q])}`);
  return [made("h3", {}, plain(names[setting])), made("p", { class: "mute" }, plain(values.join(" · ")))];
}
function ranked(setting, hits, others, below, query, texts, wordings) {
  const elsewhere = new Map((others ?? []).map((hit) => [hit.doc, hit.rank]).reverse());
  return made("div", {},
    ...scoresOf(setting),
    ...wordings.map((wording) => made("p", { class: "why", dir: "auto" }, `asked: ${plain(wording)}`)),
    hits.length ? null : made("p", {}, "It found nothing."),
    made("ol", {}, ...hits.map((hit) => {
      const other = others ? elsewhere.get(hit.doc) : undefined;
      const deep = others && other == null ? below.rank(hit) : null;
      const moved = !others ? "" : other === hit.rank ? "same rank" : other ?? deep ? `rank ${rankText(other ?? deep)} in the other` : "not in the other list";
      const grade = hit.grade == null ? "unjudged" : `grade ${hit.grade}`;
      const text = texts.get(hit.chunk);
      return made("li", {},
        made("div", { class: "head" }, made("span", {}, `${hit.rank}.`), made("span", { class: "doc" }, plain(hit.doc)),
          disc(hit.grade), made("span", { class: "mute" }, grade),
          made("span", { class: "mute" }, hit.score == null ? "" : `score ${hit.score}`), made("span", { class: "mute" }, moved)),
        ...(text ? passage(text, hit, query) : []));
    })));
}
// The labelled passages inside a text, as places in it. Offsets count code points, as in the report.
function passagesIn([, start, , , text], hit, query) {
  return query.labels.filter(([doc, grade]) => doc === hit.doc && grade > 0).flatMap(([, , places]) => places)
    .map(([from, to]) => [from - start, to - start]).filter(([from, to]) => to > 0 && from < text.length).sort((one, other) => one[0] - other[0]);
}
// The place of a hit, which is that of its first labelled passage, and the text with these passages marked.
function passage(row, hit, query) {
  const spans = passagesIn(row, hit, query);
  const text = row[4];
  const points = spans.length ? [...text] : null;
  const parts = [];
  let place = 0;
  for (const [from, to] of spans) {
    const [begin, end] = [Math.max(place, from), Math.min(points.length, to)];
    if (end <= begin) continue;
    parts.push(dense(points.slice(place, begin).join("")), made("mark", {}, dense(points.slice(begin, end).join(""))));
    place = end;
  }
  parts.push(dense(points ? points.slice(place).join("") : text));
  const where = plain(placeOf(hit, row, query));
  return [where === hit.doc ? null : made("p", { class: "place", dir: "auto" }, where), made("p", { class: "passage", dir: "auto" }, ...parts)];
}
