// What moved between the two rankings of a query, what that is worth, and where each document is in their inputs.
const MOVES_SHOWN = 8;
function partsOf(reasons, setting, query, hit, place) {
  const { parts, others } = reasons.settings[setting];
  if (!parts.length) return [];
  const kept = others.find(([asked, doc, start, end]) => asked === query && keyOf({ doc, start, end }) === keyOf(hit));
  if (place == null && !kept && !(hit.grade > 0)) return [];
  return parts.map(({ name, ranks, depths }, part) => {
    const rank = place == null ? kept?.[4][part] ?? 0 : ranks[place];
    return rank ? `${plain(name)} ${rank}` : `${plain(name)} not in its first ${depths[query]}`;
  });
}
async function movesOf(query, [one, other], found) {
  const [hits, reasons, ...below] = await Promise.all([rankings(), block("reasons"), ranksBelow(one, query), ranksBelow(other, query)]);
  const moves = new Map();
  [one, other].forEach((setting, side) => {
    const start = hits.starts[setting][query];
    found[side].forEach((hit, place) => {
      const key = keyOf(hit);
      if (!moves.has(key)) moves.set(key, { hit, ranks: [null, null], adds: [0, 0], places: [null, null] });
      const move = moves.get(key);
      if (move.ranks[side] != null) return;
      move.ranks[side] = hit.rank;
      move.places[side] = start + place;
      move.adds[side] = reasons.settings[setting].adds?.[start + place] ?? 0;
    });
  });
  for (const [doc, grade] of summary.queries[query].labels) {
    const hit = { doc, start: null, end: null, grade };
    if (grade > 0 && !moves.has(keyOf(hit)) && below.some((deep) => deep.has(doc))) moves.set(keyOf(hit), { hit, ranks: [null, null], adds: [0, 0], places: [null, null] });
  }
  for (const move of moves.values()) {
    below.forEach((deep, side) => {
      if (move.ranks[side] != null) return;
      move.ranks[side] = deep.rank(move.hit);
      move.adds[side] = deep.adds(move.hit);
    });
  }
  const scores = [one, other].map((setting) => summary.values[0][setting][query]);
  const isSplit = !reasons.why_no_shares && scores.every((score) => score != null);
  const made_ = [...moves.values()].map(({ hit, ranks, adds, places }) => ({
    hit, ranks, share: isSplit ? adds[1] - adds[0] : null,
    parts: [one, other].map((setting, side) => partsOf(reasons, setting, query, hit, places[side])),
  }));
  const best = ({ ranks }) => Math.min(...ranks.filter((rank) => rank != null));
  made_.sort((a, b) => Math.abs(b.share ?? 0) - Math.abs(a.share ?? 0) || (b.hit.grade ?? 0) - (a.hit.grade ?? 0) || best(a) - best(b));
  return { reasons, below, moves: made_, difference: isSplit ? scores[1] - scores[0] : null };
}
const rankText = (rank) => (rank == null ? "–" : String(rank));
const wayOf = ([before, after]) => (before == null ? "new" : after == null ? "gone" : after < before ? "up" : after > before ? "down" : "same");
const WAYS = { new: "new", gone: "gone", up: "↑ up", down: "↓ down", same: "same" };
// One sentence: which documents make most of the difference.
function because({ moves, difference }, metric, [before, after]) {
  if (difference == null || Math.abs(difference) < 0.00005) return null;
  const same = moves.filter(({ share }) => share * difference > 0).slice(0, 2);
  const reasons = same.map(({ hit, ranks, share }) => {
    const way = { new: `is new at rank ${ranks[1]}`, gone: `is gone from rank ${ranks[0]}`, up: `went up from rank ${rankText(ranks[0])} to ${ranks[1]}`, down: `went down from rank ${ranks[0]} to ${rankText(ranks[1])}`, same: `stays at rank ${ranks[0]}` }[wayOf(ranks)];
    return `${plain(hit.doc)} (grade ${hit.grade}) ${way}: ${signed(share)}`;
  });
  return reasons.length ? `${metric} ${signed(difference)} from ${plain(before)} to ${plain(after)}, most of it because ${reasons.join("; ")}.` : null;
}
function moveRow({ hit, ranks, share, parts }, chosen, { withShares, withParts }) {
  const way = wayOf(ranks);
  const where = summary.unit === "span" && hit.start != null ? ` [${hit.start}:${hit.end}]` : "";
  const said = parts.map((list) => list.join(", "));
  const why = said[0] && said[0] === said[1] ? [made("div", {}, `in both: ${said[0]}`)]
    : said.flatMap((text, side) => (text ? [made("div", {}, `${plain(names[chosen[side]])}: ${text}`)] : []));
  return made("tr", {},
    made("td", { class: "name" }, plain(hit.doc) + where),
    made("td", {}, hit.grade == null ? "unjudged" : String(hit.grade)),
    made("td", { class: "number" }, `${rankText(ranks[0])} → ${rankText(ranks[1])}`), made("td", { class: "way" }, WAYS[way]),
    withShares ? made("td", { class: "number " + (share > 0 ? "better" : share < 0 ? "worse" : "") }, share ? signed(share) : "") : null,
    withParts ? made("td", { class: "mute parts" }, ...why) : null);
}
function notFound({ reasons, below }, query, chosen, found) {
  const docs = new Set(found.flat().map(({ doc }) => doc));
  return summary.queries[query].labels.flatMap(([doc, grade], place) => {
    const ranks = chosen.map((setting) => reasons.settings[setting].passages?.[query]?.[place]);
    const isFound = ranks.every((rank) => rank === undefined) ? docs.has(doc) || below.some((deep) => deep.has(doc)) : ranks.some((rank) => rank != null);
    if (!(grade > 0) || isFound) return [];
    const others = chosen.flatMap((setting) => partsOf(reasons, setting, query, { doc, start: null, end: null, grade: 0 }, null).map((part) => `${plain(names[setting])}: ${part}`));
    return [`${plain(doc)} (grade ${grade}${others.length ? `; ${others.join(", ")}` : ""})`];
  });
}
function passageLines(reasons, query, chosen) {
  const [before, after] = chosen.map((setting) => reasons.settings[setting].passages?.[query]);
  if (!before || !after) return [];
  return summary.queries[query].labels.flatMap(([doc, grade], place) => (grade > 0
    ? [`A passage of grade ${grade} in ${plain(doc)}: ${before[place] === after[place] && before[place] == null ? "found by neither" : `found at rank ${rankText(before[place])} → ${rankText(after[place])}`}.`] : []));
}
async function movedSection(query, chosen, found) {
  if (chosen.length < 2) return null;
  const result = await movesOf(query, chosen, found);
  const { reasons, moves, difference } = result;
  const rows = moves.filter(({ ranks, share }) => wayOf(ranks) !== "same" || share);
  const shape = { withShares: difference != null, withParts: rows.some(({ parts }) => parts.flat().length) };
  const metric = summary.metrics[0].name;
  const body = made("tbody", {}, ...rows.slice(0, MOVES_SHOWN).map((move) => moveRow(move, chosen, shape)));
  const more = made("button", { type: "button", hidden: rows.length <= MOVES_SHOWN, onclick: () => {
    body.append(...rows.slice(MOVES_SHOWN).map((move) => moveRow(move, chosen, shape)));
    more.remove();
  } }, `Show ${rows.length - MOVES_SHOWN} more`);
  const rest = difference == null ? 0 : difference - moves.reduce((sum, { share }) => sum + share, 0);
  const missed = notFound(result, query, chosen, found);
  const head = ["document", "grade", "rank", "moved", ...(shape.withShares ? [`adds to ${metric}`] : []), ...(shape.withParts ? ["rank in the parts"] : [])];
  const lines = [
    because(result, metric, chosen.map((setting) => names[setting])), ...passageLines(reasons, query, chosen),
    missed.length ? `Found by neither: ${missed.join(", ")}.` : null,
    Math.abs(rest) > 0.0005 ? `Hits further down than are shown here add ${signed(rest)}.` : null,
  ].filter(Boolean);
  const notes = [...new Set(chosen.flatMap((setting) => reasons.settings[setting].notes))];
  if (reasons.why_no_shares && rows.length) notes.unshift(`The difference is not split among documents: ${reasons.why_no_shares}`);
  return made("div", { id: "moved" },
    made("h3", {}, "What moved, and why"), ...lines.map((line) => made("p", {}, line)),
    rows.length ? made("div", { class: "scroll", role: "region", "aria-label": "What moved", tabindex: "0" }, made("table", {},
      made("caption", {}, made("span", {}, `Ranks with ${plain(names[chosen[0]])} → with ${plain(names[chosen[1]])}`)),
      made("thead", {}, made("tr", {}, ...head.map((name) => made("th", { scope: "col", class: name.startsWith("adds") || name === "rank" ? "number" : "" }, name)))), body))
      : made("p", {}, "Nothing moved: both rankings are the same."),
    more, ...notes.map((note) => made("p", { class: "mute" }, plain(note))));
}
