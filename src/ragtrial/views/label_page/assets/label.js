"use strict";
// Texts come as data and are put on the page as text alone. Offsets are counted in characters (code points), as the
// labels count them; the browser counts in halves of surrogate pairs.

const $ = (id) => document.getElementById(id);
const STEERING = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]/g;
const shown = (text) => text.replace(STEERING, "\ufffd");
const points = (text) => Array.from(text).length;
const units = (text, count) => Array.from(text).slice(0, count).join("").length;
const GONE = "The page's server does not answer. Every answer is kept; run the same command again to go on, and open the page that it prints.";

const answered = () => state.graded + state.skipped;

let state = null;
let isBusy = false;
let hasEnded = false;

async function ask(name, body) {
  const options = body && {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ revision: state.revision, ...body }),
  };
  const response = await fetch(name, options);
  return { ok: response.ok, ...(await response.json()) };
}

async function act(name, body = {}) {
  if (isBusy || hasEnded || !state) return;
  isBusy = true;
  const before = answered();
  const reply = await ask(name, body).catch(() => ({ ok: false, error: GONE }));
  isBusy = false;
  if (reply.state) state = reply.state;
  fail(reply.error);
  if (reply.ok && name === "finish") return end(reply.lines);
  draw(reply.lines || []);
  if (answered() !== before) settle();
}

function fail(message) {
  $("error").textContent = shown(message || "");
  $("error").hidden = !message;
  if (message) $("error").scrollIntoView({ block: "nearest" });
}

function settle() {
  const heading = state.item ? $("question") : $("done-title");
  heading.focus({ preventScroll: true });
  window.getSelection().removeAllRanges();
  if ($("error").hidden) window.scrollTo(0, 0);
}

function draw(notes) {
  const { item, total, graded, skipped, highest, labels, unsaved, is_review: isReview } = state;
  const done = graded + skipped;
  const counts = `${graded} ${isReview ? "reviewed" : "graded"}${skipped ? `, ${skipped} left out` : ""}`;
  $("place").textContent = `${item ? done + 1 : total} of ${total} · ${counts}`;
  $("progress").max = total;
  $("progress").value = done;
  document.title = `${done} of ${total} · Label`;
  $("asked").hidden = !item;
  $("done").hidden = Boolean(item);
  $("saving").hidden = false;
  $("undo").disabled = $("undo-last").disabled = !state.can_undo;
  $("save").disabled = !unsaved;
  $("quote").hidden = !state.can_quote;
  $("finish-key").hidden = Boolean(item);
  for (const row of document.querySelectorAll(".quoting")) row.hidden = !state.can_quote;
  const unsavedNote = unsaved ? `Every answer is kept; ${unsaved} not in ${shown(labels)} yet.` : "Every answer is kept.";
  $("kept").textContent = [...notes.map(shown), unsavedNote].join(" ");
  for (const part of document.querySelectorAll(".reviewing")) part.hidden = !isReview;
  for (const part of document.querySelectorAll(".grading")) part.hidden = isReview;
  edit(false);
  $("no-answer").hidden = !(isReview && item && !state.passage);
  drawGroups();
  if (item) drawItem(item, highest);
}

function drawItem(item, highest) {
  $("question").textContent = shown(item.question);
  $("title").textContent = shown(item.title || item.doc);
  $("document").textContent = item.title && item.title !== item.doc ? shown(item.doc) : "";
  $("document").hidden = !$("document").textContent;
  drawText(item.text, state.passage);
  $("highest-key").textContent = highest;
  $("scale").textContent = `0: not relevant · ${highest === 1 ? "1: relevant" : `${highest}: answers fully`}`;
  if ($("grades").children.length !== highest + 1) {
    $("grades").replaceChildren(...Array.from({ length: highest + 1 }, (_, grade) => gradeButton(grade)));
  }
}

// The known answers of the question: the text may be another place of one of them.
function drawGroups() {
  const { groups, group } = state;
  $("groups").hidden = $("group-key").hidden = !groups.length;
  $("group-list").replaceChildren(...groups.map(({ name, lines }) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...lines.flatMap((line, place) => [place ? "\n" : "", ...answerParts(line, name)]));
    button.setAttribute("aria-pressed", name === group);
    button.addEventListener("click", () => act("group", { group: name === group ? "" : name }));
    return button;
  }));
}

// A line of a known answer: the name of its group, or the document in bold, and the passage.
function answerParts(line, name) {
  const document_ = document.createElement("b");
  document_.textContent = shown(line === name ? line : line.split(": ", 1)[0]);
  return [document_, shown(line).slice(document_.textContent.length)];
}

async function chooseNextGroup() {
  const names = [...state.groups.map(({ name }) => name), ""];
  await act("group", { group: names[(names.indexOf(state.group || "") + 1) % names.length] });
  $("group-list").querySelector("[aria-pressed=true]")?.scrollIntoView({ block: "center" });
}

function gradeButton(grade) {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = grade;
  button.setAttribute("aria-label", `Grade ${grade}`);
  button.setAttribute("aria-keyshortcuts", grade);
  button.addEventListener("click", () => act("grade", { grade }));
  return button;
}

function drawText(text, passage) {
  const visible = shown(text);
  if (!passage || passage.at === null) return $("text").replaceChildren(visible);
  const start = units(text, passage.at);
  const end = start + passage.text.length;
  const mark = document.createElement("mark");
  mark.textContent = visible.slice(start, end);
  $("text").replaceChildren(visible.slice(0, start), mark, visible.slice(end));
}

function edit(isOpen) {
  const wasOpen = !$("editor").hidden;
  $("editor").hidden = !isOpen;
  if (isOpen) $("edited").value = state.item.question;
  if (isOpen) $("edited").focus();
  else if (wasOpen) $("question").focus({ preventScroll: true });
}

function end(lines) {
  hasEnded = true;
  for (const id of ["asked", "done", "saving", "help"]) $(id).hidden = true;
  $("ending").replaceChildren(...lines.map((line) => {
    const row = document.createElement("li");
    row.textContent = shown(line);
    return row;
  }));
  $("ended").hidden = false;
  $("ended-title").focus();
  $("place").textContent = "Finished";
  document.title = "Done · Label";
}

function quote() {
  const text = $("text");
  const selection = window.getSelection();
  const range = selection.rangeCount ? selection.getRangeAt(0) : null;
  if (!range || range.collapsed || !range.intersectsNode(text)) {
    return fail("Select the passage that answers in the text first, then quote it.");
  }
  const inside = document.createRange();
  inside.selectNodeContents(text);
  if (range.compareBoundaryPoints(Range.START_TO_START, inside) > 0) inside.setStart(range.startContainer, range.startOffset);
  if (range.compareBoundaryPoints(Range.END_TO_END, inside) < 0) inside.setEnd(range.endContainer, range.endOffset);
  const before = document.createRange();
  before.selectNodeContents(text);
  before.setEnd(inside.startContainer, inside.startOffset);
  const from = before.toString().length;
  const start = points(state.item.text.slice(0, from));
  const length = points(state.item.text.slice(from, from + inside.toString().length));
  selection.removeAllRanges();
  act("quote", { start, end: start + length });
}

// A text that cannot be edited has no cursor: the arrows select words, with shift more of them, and lines.
function select({ key, shiftKey }) {
  const text = $("text");
  const selection = window.getSelection();
  const way = { ArrowRight: "forward", ArrowLeft: "backward", ArrowDown: "forward", ArrowUp: "backward" }[key];
  const unit = key === "ArrowDown" || key === "ArrowUp" ? "line" : "word";
  if (!way || (unit === "line" && !shiftKey)) return false;
  if (!text.contains(selection.anchorNode) || !text.contains(selection.focusNode)) selection.collapse(text, 0);
  if (shiftKey) selection.modify("extend", way, unit);
  else {
    if (way === "forward") selection.collapseToEnd();
    else {
      selection.collapseToStart();
      selection.modify("move", "backward", "word");
    }
    selection.modify("extend", "forward", "word");
  }
  return true;
}

document.addEventListener("keydown", (event) => {
  const { key, target } = event;
  if (event.ctrlKey || event.metaKey || event.altKey || hasEnded || !state) return;
  if (target === $("edited")) {
    if (key === "Enter" && !event.shiftKey) act("rephrase", { question: target.value });
    else if (key === "Escape") edit(false);
    else return;
    return event.preventDefault();
  }
  if (target === $("text") && select(event)) return event.preventDefault();
  if (event.shiftKey || event.repeat) return;
  const { item, is_review: isReview } = state;
  const review = isReview && item ? REVIEW[key] : undefined;
  if (review) review();
  else if (/^[0-9]$/.test(key) && item && !isReview) act("grade", { grade: Number(key) });
  else if (key === " " && item && target.tagName !== "BUTTON") act("skip");
  else if (key === "u" && state.can_undo) act("undo");
  else if (key === "q" && item && state.can_quote) quote();
  else if (key === "g" && item && state.groups.length) chooseNextGroup();
  else if (key === "t" && item) $("text").focus();
  else if (key === "s" && state.unsaved) act("save");
  else if (key === "f" && !item) act("finish");
  else return;
  event.preventDefault();
});

const REVIEW = { k: () => act("keep"), d: () => act("drop"), e: () => edit(true) };
const ON_CLICK = {
  keep: REVIEW.k, drop: REVIEW.d, edit: REVIEW.e, cancel: () => edit(false),
  quote, skip: () => act("skip"), undo: () => act("undo"), "undo-last": () => act("undo"), save: () => act("save"),
  finish: () => act("finish"),
};
for (const [id, run] of Object.entries(ON_CLICK)) $(id).addEventListener("click", run);
$("editor").addEventListener("submit", (event) => {
  event.preventDefault();
  act("rephrase", { question: $("edited").value });
});
$("quote").addEventListener("mousedown", (event) => event.preventDefault()); // the selection stays

(async () => {
  const reply = await ask("state").catch(() => ({ error: GONE }));
  fail(reply.error);
  if (reply.state) {
    state = reply.state;
    draw([]);
    settle();
  }
  document.documentElement.dataset.ready = "yes";
})();
