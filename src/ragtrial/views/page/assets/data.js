"use strict";
// Blocks of data: base64 of gzipped JSON in <script> elements that do not run; each is read when it is first needed.
const blocks = new Map();
function block(name) {
  if (!blocks.has(name)) blocks.set(name, unpacked(document.getElementById(name).textContent));
  return blocks.get(name);
}
async function unpacked(text) {
  const bytes = Uint8Array.from(atob(text.trim()), (character) => character.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}
const UNJUDGED = -1000000;
// The hits of each setting lie one after another; where each query's begin is summed up once.
function startsOf(lengths) {
  const starts = [0];
  for (const length of lengths) starts.push(starts.at(-1) + length);
  return starts;
}
async function rankings() {
  const hits = await block("hits");
  hits.starts ??= hits.found.map(({ lengths }) => startsOf(lengths));
  return hits;
}
const keyOf = ({ doc, start, end }) => (summary.unit === "span" ? [doc, start, end].join("\u0000") : doc);
// Ranks below the hits that are shown, and what a hit adds there.
async function ranksBelow(setting, query) {
  const [hits, reasons] = await Promise.all([rankings(), block("reasons")]);
  const { below } = hits.found[setting];
  const found = new Map();
  below.starts ??= startsOf(below.lengths);
  for (let place = below.starts[query]; place < below.starts[query + 1]; place++) {
    const [document_, start, end] = below.keys[place];
    found.set(keyOf({ doc: hits.documents[document_], start, end }), [below.ranks[place], reasons.settings[setting].adds_below?.[place] ?? 0]);
  }
  return { rank: (hit) => found.get(keyOf(hit))?.[0] ?? null, adds: (hit) => found.get(keyOf(hit))?.[1] ?? 0, has: (doc) => found.has(doc) };
}
async function hitsOf(setting, query) {
  const hits = await rankings();
  const found = hits.found[setting];
  const made = [];
  for (let place = hits.starts[setting][query]; place < hits.starts[setting][query + 1]; place++) {
    const [document_, start, end] = hits.chunks[found.chunks[place]];
    made.push({
      rank: made.length + 1, chunk: found.chunks[place], doc: hits.documents[document_], start, end,
      score: found.scores[place], grade: found.grades[place] === UNJUDGED ? null : found.grades[place],
    });
  }
  return made;
}
async function textOf(hit) {
  const texts = await block("texts");
  if (!texts.byPlace) texts.byPlace = new Map(texts.texts.map((row) => [row.slice(0, 3).join("\u0000"), row]));
  return texts.byPlace.get([hit.doc, hit.start, hit.end].join("\u0000"));
}
// Elements are made, never parsed: what documents and queries say is text, whatever it looks like.
function made(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value != null) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child != null));
  return element;
}
function drawing(tag, attributes, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}
// The decimals of a mean over the questions of the page.
const usualDigits = () => (summary && summary.queries.length >= 1000 ? 4 : 3);
const shown = (value, digits = usualDigits()) => (value == null ? "–" : value.toFixed(digits));
const signed = (value, digits = usualDigits()) => {
  if (value == null) return "–";
  const rounded = Number(value.toFixed(digits)); // never -0.0000
  return ((rounded > 0 ? "+" : "") + rounded.toFixed(digits)).replace("-", "\u2212");
};
// Control characters and marks of direction would change how the text around them reads.
const plain = (text) =>
  text.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g, "\ufffd");
