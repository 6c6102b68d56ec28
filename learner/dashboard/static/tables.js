// A table whose rows are kept and changed in place, sorted by one of its columns.

import { element, say } from "./text.js";

export class Sheet {
  // Columns are {title, value(row), text(row), style(row), words}; `key(row)` names a row.
  constructor(columns, { key, sort = null, descending = false, pick = null }) {
    this.columns = columns;
    this.key = key;
    this.sort = sort;
    this.descending = descending;
    this.pick = pick;
    this.rows = new Map();
    this.heads = columns.map((column, number) => this.head(column, number));
    this.body = element("tbody");
    const head = element("thead", "", null, element("tr", "", null, ...this.heads));
    this.root = element("div", "sheet", null, element("table", "", null, head, this.body));
    this.mark();
  }

  head(column, number) {
    const head = element("th", column.words ? "words" : "");
    head.scope = "col";
    if (this.sort == null) {
      head.textContent = column.title;
      return head;
    }
    const button = element("button", "", column.title);
    button.type = "button";
    button.addEventListener("click", () => {
      this.descending = this.sort === number ? !this.descending : !column.words;
      this.sort = number;
      this.mark();
      this.show(this.shown ?? []);
    });
    head.append(button);
    return head;
  }

  mark() {
    this.heads.forEach((head, number) => {
      if (number === this.sort) head.setAttribute("aria-sort", this.descending ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
  }

  show(rows) {
    this.shown = rows;
    const ordered = this.sort == null ? rows : [...rows].sort((one, other) => this.compare(one, other));
    const gone = new Set(this.rows.keys());
    let place = this.body.firstChild;
    for (const row of ordered) {
      const key = this.key(row);
      gone.delete(key);
      const line = this.rows.get(key) ?? this.line(key);
      this.fill(line, row);
      if (line === place) place = place.nextSibling;
      else this.body.insertBefore(line, place);
    }
    for (const key of gone) {
      this.rows.get(key).remove();
      this.rows.delete(key);
    }
  }

  line(key) {
    const line = element("tr", this.pick ? "pick" : "", null, ...this.columns.map((column) => element("td", column.words ? "words" : "")));
    if (this.pick) {
      line.tabIndex = 0;
      line.addEventListener("click", () => this.pick(key));
      line.addEventListener("keydown", (event) => event.key === "Enter" && this.pick(key));
    }
    this.rows.set(key, line);
    return line;
  }

  fill(line, row) {
    this.columns.forEach((column, number) => {
      const cell = line.cells[number];
      const text = String(column.text ? column.text(row) : column.value(row));
      if (cell.textContent !== text) {
        say(cell, text);
        if (number === 0) cell.title = text;
      }
      if (column.style) cell.classList.value = `${column.words ? "words " : ""}${column.style(row)}`;
    });
  }

  compare(one, other) {
    const { value } = this.columns[this.sort];
    const [first, second] = [value(one), value(other)];
    if (first == null || second == null) return (first == null) - (second == null);
    const order = typeof first === "string" ? first.localeCompare(second, "en", { numeric: true }) : first - second;
    return this.descending ? -order : order;
  }
}
