"use strict";

// Tells a screen reader what has just happened.
function say(text) {
  const place = document.getElementById("said");
  place.textContent = "";
  setTimeout(() => { place.textContent = text; }, 50);
}

// The button for light or dark: its text says what it gives.
(() => {
  const button = document.getElementById("theme");
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme || (system.matches ? "dark" : "light")) === "dark";
  const show = () => { button.textContent = isDark() ? "Light colours" : "Dark colours"; };
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    try { localStorage.setItem("theme", root.dataset.theme); } catch { /* forgotten with the page, then */ }
    show();
  });
  system.addEventListener("change", show);
  show();
  button.hidden = false;
})();

// Copying. Where a browser has no clipboard for pages from disk, a hidden field is copied from.
async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const field = document.createElement("textarea");
    field.value = text;
    field.className = "unseen";
    const above = document.querySelector("dialog[open]") || document.body; // outside an open dialog nothing is selectable
    above.append(field);
    field.select();
    const done = document.execCommand("copy");
    field.remove();
    return done;
  }
}

function addCopyButtons(within) {
  for (const block of within.querySelectorAll(".copy")) {
    if (block.querySelector("button")) continue;
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = "Copy";
    const what = block.dataset.what;
    if (what) button.setAttribute("aria-label", `Copy ${what}`);
    button.addEventListener("click", async () => {
      const done = await copyText(block.querySelector("code").textContent);
      button.textContent = done ? "Copied" : "Select and copy by hand";
      button.classList.toggle("done", done);
      say(done ? "Copied to the clipboard" : "The browser did not allow copying");
      button.focus();
      setTimeout(() => { button.textContent = "Copy"; button.classList.remove("done"); }, 2000);
    });
    block.append(button);
  }
}
addCopyButtons(document);

// Sorting: the rows of the table's body by one column; a second click turns the order round.
function sortTable(table, column, descending) {
  const header = table.tHead.rows[table.tHead.rows.length - 1].cells;
  const numeric = header[column].dataset.sort === "number";
  const value = (row) => {
    const cell = row.cells[column];
    const text = (cell.dataset.value ?? cell.textContent).trim();
    return numeric ? (text === "" ? NaN : Number(text)) : text;
  };
  const rows = [...table.tBodies[0].rows].map((row) => [value(row), row]);
  const sign = descending ? -1 : 1;
  const lacking = ([one]) => Number.isNaN(one);
  rows.sort((a, b) => {
    if (numeric) {
      if (lacking(a) || lacking(b)) return lacking(a) - lacking(b);
      return sign * (a[0] - b[0]);
    }
    return sign * a[0].localeCompare(b[0], "en", { numeric: true });
  });
  table.tBodies[0].append(...rows.map(([, row]) => row));
  for (const [number, cell] of [...header].entries()) {
    if (number === column) cell.setAttribute("aria-sort", descending ? "descending" : "ascending");
    else cell.removeAttribute("aria-sort");
  }
}

function makeSortable(table) {
  const header = table.tHead.rows[table.tHead.rows.length - 1].cells;
  for (const [number, cell] of [...header].entries()) {
    if (!cell.dataset.sort) continue;
    const button = document.createElement("button");
    button.type = "button";
    button.append(...cell.childNodes);
    button.addEventListener("click", () => {
      const before = cell.getAttribute("aria-sort");
      const first = cell.dataset.sort === "number"; // the largest figure first
      const descending = before ? before === "ascending" : first;
      sortTable(table, number, descending);
      say(`Sorted by ${button.textContent}, ${descending ? "descending" : "ascending"}`);
    });
    cell.append(button);
  }
}
for (const table of document.querySelectorAll("table.sortable")) makeSortable(table);
