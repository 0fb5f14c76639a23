"use strict";

// The matrix of the first page: what is shown, what is hidden, and the dialog with a cell's commands.
(() => {
  const data = JSON.parse(document.getElementById("matrix-data").textContent);
  const table = document.getElementById("table");
  const body = table.tBodies[0];
  const controls = document.getElementById("controls");
  const dialog = document.getElementById("cell");
  const NONE = "–";
  const rows = [...body.rows];
  const chosen = (name) => controls.elements[name].value;
  const find = (id) => document.getElementById(id);

  // Every figure becomes a button.
  for (const row of rows) {
    data.datasets.forEach((dataset, number) => {
      const cell = row.cells[number + 1];
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = cell.textContent;
      button.addEventListener("click", () => openCell(row.dataset.name, number));
      cell.replaceChildren(button);
    });
  }

  function figuresOf(name, choice, measure) {
    return data.conditions[name].figures[choice]?.[measure] ?? Array(data.datasets.length + 1).fill(NONE);
  }

  // Shows the figures of a measure; a cell's tint says where it lies between the least and the most of its column.
  function showFigures() {
    const measure = chosen("measure");
    const choice = data.choices.find((one) => one.key === chosen("figures"));
    const all = rows.map((row) => figuresOf(row.dataset.name, choice.key, measure));
    const spans = all[0].map((_, column) => {
      const values = all.map((figures) => Number(figures[column])).filter((value) => !Number.isNaN(value));
      return [Math.min(...values), Math.max(...values)];
    });
    rows.forEach((row, number) => {
      all[number].forEach((figure, column) => {
        const cell = row.cells[column + 1];
        const value = Number(figure);
        const [least, most] = spans[column];
        cell.dataset.value = figure === NONE ? "" : figure;
        const share = most > least ? (value - least) / (most - least) : 1;
        cell.style.setProperty("--heat", figure === NONE ? "0" : share.toFixed(3));
        const button = cell.querySelector("button");
        (button ?? cell).textContent = figure;
        if (!button) return;
        const said = figure === NONE ? "no figure" : figure;
        button.setAttribute("aria-label", `${said}; commands for ${row.dataset.name} on ${data.datasets[column].name}`);
      });
    });
    find("caption").textContent = `${measure}, ${choice.label}`;
    find("sample").hidden = !choice.sample;
    const sorted = [...table.tHead.rows[0].cells].findIndex((cell) => cell.hasAttribute("aria-sort"));
    const header = table.tHead.rows[0].cells[sorted];
    if (sorted >= 0) sortTable(table, sorted, header.getAttribute("aria-sort") === "descending");
  }

  function filterRows() {
    const words = chosen("words").toLowerCase().split(/\s+/).filter(Boolean);
    const families = [...controls.querySelectorAll("[name=family]:checked")].map((box) => box.value);
    const needs = chosen("needs");
    let left = 0;
    for (const row of rows) {
      const text = row.cells[0].textContent.toLowerCase();
      const fits = words.every((word) => text.includes(word))
        && (families.length === 0 || families.includes(row.dataset.family))
        && (needs === "" || needs === row.dataset.needs);
      row.hidden = !fits;
      left += fits;
    }
    find("count").textContent = `${left} of ${rows.length} conditions`;
    keepOneStop();
  }

  // The table is one stop of the Tab key; arrows move within it.
  const target = (cell) => cell.querySelector("a, button");
  const shownRows = () => [...body.rows].filter((row) => !row.hidden);
  function keepOneStop(wanted) {
    const stops = [...body.querySelectorAll("a, button")];
    const now = wanted ?? stops.find((stop) => stop.tabIndex === 0 && !stop.closest("tr").hidden);
    for (const stop of stops) stop.tabIndex = -1;
    const next = now ?? (shownRows()[0] && target(shownRows()[0].cells[0]));
    if (next) next.tabIndex = 0;
  }
  body.addEventListener("focusin", (event) => {
    if (event.target.closest("a, button")) keepOneStop(event.target);
  });
  body.addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const cell = event.target.closest("td, th");
    if (!cell) return;
    const lines = shownRows();
    const row = lines.indexOf(cell.parentElement);
    const last = data.datasets.length;
    const places = {
      ArrowUp: [row - 1, cell.cellIndex], ArrowDown: [row + 1, cell.cellIndex],
      ArrowLeft: [row, cell.cellIndex - 1], ArrowRight: [row, cell.cellIndex + 1],
      Home: [row, 0], End: [row, last],
    };
    const place = places[event.key];
    if (!place) return;
    event.preventDefault();
    const next = lines[place[0]]?.cells[Math.min(Math.max(place[1], 0), last)];
    if (next) target(next).focus();
  });

  // The commands of a cell: a template with places for suite, dataset and Pyserini's prefix, filled in this order.
  function fill(template, suite, dataset, prefix) {
    let text = typeof template === "string" ? template : template[dataset];
    [suite, dataset, prefix].forEach((value, number) => { text = text.replaceAll(data.places[number], () => value); });
    return text;
  }
  function commandsOf(name, number, suite) {
    const { run, data: collection, pyserini, ...others } = data.conditions[name].commands;
    const slug = data.datasets[number].slug;
    const made = (template, prefix = "") => fill(template, data.suites[suite], slug, prefix);
    return {
      run: made(run), make: made(others[`make ${suite}`]), data: made(collection),
      ours: made(pyserini, data.prefixes.ours), plain: made(pyserini, data.prefixes.plain),
    };
  }

  let open = null; // [name of the condition, number of the dataset]
  function showCommands() {
    const suite = dialog.querySelector("[name=suite]:checked").value;
    const texts = commandsOf(open[0], open[1], suite);
    for (const block of dialog.querySelectorAll("[data-kind]")) {
      block.querySelector("code").textContent = texts[block.dataset.kind];
    }
    // Where Pyserini cannot do the same, both are the comment that says why.
    const lacking = texts.ours === texts.plain;
    find("cell-plain").hidden = lacking;
    dialog.querySelector("[data-kind=data]").hidden = lacking;
    dialog.querySelector("[data-kind=ours]").classList.toggle("wrap", lacking);
  }
  function openCell(name, number) {
    open = [name, number];
    const row = rows.find((one) => one.dataset.name === name);
    const dataset = data.datasets[number];
    find("cell-title").textContent = `${name} on ${dataset.name}`;
    find("cell-about").textContent = row.querySelector(".title").textContent;
    find("cell-condition").href = row.querySelector("a").getAttribute("href");
    find("cell-dataset").href = `datasets/${dataset.slug}.html`;
    find("cell-cautions").replaceChildren(...data.conditions[name].cautions.map((text) => {
      const caution = document.createElement("p");
      caution.className = "warn";
      caution.textContent = text;
      return caution;
    }));
    find("cell-figures").replaceChildren(...data.choices.map((choice) => {
      const line = document.createElement("tr");
      const header = document.createElement("th");
      header.scope = "row";
      header.textContent = choice.label;
      line.append(header, ...data.measures.map((measure) => {
        const cell = document.createElement("td");
        cell.className = "figure";
        cell.textContent = figuresOf(name, choice.key, measure)[number];
        return cell;
      }));
      return line;
    }));
    const suite = data.choices.find((one) => one.key === chosen("figures")).suite;
    dialog.querySelector(`[name=suite][value="${CSS.escape(suite)}"]`).checked = true;
    showCommands();
    dialog.showModal();
    dialog.scrollTop = 0;
    setHash(`#${encodeURIComponent(name)}/${dataset.slug}`);
  }
  function setHash(hash) {
    try { history.replaceState(null, "", hash || location.pathname + location.search); } catch { /* the address stays */ }
  }
  function openFromHash() {
    const [name, slug] = location.hash.slice(1).split("/");
    const number = data.datasets.findIndex((dataset) => dataset.slug === slug);
    let known = "";
    try { known = decodeURIComponent(name); } catch { return; }
    if (number >= 0 && Object.hasOwn(data.conditions, known) && !dialog.open) openCell(known, number);
  }
  dialog.addEventListener("change", showCommands);
  dialog.addEventListener("close", () => setHash(""));
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
  find("cell-close").addEventListener("click", () => dialog.close());
  addEventListener("hashchange", openFromHash);

  controls.addEventListener("submit", (event) => event.preventDefault());
  controls.addEventListener("input", (event) => {
    if (["measure", "figures"].includes(event.target.name)) showFigures();
    else filterRows();
  });
  controls.hidden = false;
  find("with-script").hidden = false;
  showFigures();
  filterRows();
  openFromHash();
})();
