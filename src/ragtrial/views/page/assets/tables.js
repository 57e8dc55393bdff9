const numberOf = (cell) => Number.parseFloat(cell.textContent.replace(/[,<]/g, ""));
// Tables whose columns sort: numbers highest first, texts from A; once more turns the order. Cells without a number are last.
function sortBy(table, head) {
  const column = head.cellIndex;
  const isNumber = head.classList.contains("number");
  const before = head.getAttribute("aria-sort");
  const down = before ? before === "ascending" : isNumber;
  const value = ({ cells }) => (isNumber ? numberOf(cells[column]) : cells[column].textContent);
  const order = (one, other) => {
    if (!isNumber) return one.localeCompare(other, "en", { numeric: true }) * (down ? -1 : 1);
    if (Number.isNaN(one) || Number.isNaN(other)) return Number.isNaN(one) - Number.isNaN(other);
    return down ? other - one : one - other;
  };
  const rows = [...table.tBodies[0].rows].map((row) => [value(row), row]);
  table.tBodies[0].append(...rows.sort(([one], [other]) => order(one, other)).map(([, row]) => row));
  for (const cell of table.tHead.rows[0].cells) cell.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", down ? "descending" : "ascending");
}
// The best number of a column in bold, unless all are equal.
function markBest(table, { cellIndex }) {
  const cells = [...table.tBodies[0].rows].map((row) => row.cells[cellIndex]);
  const numbers = cells.map(numberOf).filter(Number.isFinite);
  const [lowest, highest] = [Math.min(...numbers), Math.max(...numbers)];
  const best = table.tHead.rows[0].cells[cellIndex].dataset.best === "lowest" ? lowest : highest;
  if (lowest < highest) for (const cell of cells) cell.classList.toggle("best", numberOf(cell) === best);
}
function sortableTables() {
  for (const table of document.querySelectorAll("table.sorts")) {
    for (const head of table.tHead.rows[0].cells) {
      if ("best" in head.dataset) markBest(table, head);
      head.replaceChildren(made("button", { class: "sort", type: "button", onclick: () => sortBy(table, head) }, ...head.childNodes));
    }
  }
}
