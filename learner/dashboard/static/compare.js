// One curve of several runs over one another, with their mean and range.

import { get } from "./api.js";
import { Chart } from "./charts.js";
import { element, figure } from "./text.js";

const SHADES = ["blue", "orange", "green", "purple", "red", "teal", "pink", "gray"];
const MOST = 32; // runs; the server takes no more
const EACH = 8; // runs with a colour of their own

export class Compare {
  constructor(root, settings, runs) {
    this.settings = settings; // {by, chosen, curve}, kept beside this page
    this.choices = element("div", "choices panel");
    this.curve = element("input");
    this.curve.setAttribute("list", "curves");
    this.curve.setAttribute("aria-label", "curve");
    this.curve.value = settings.curve;
    this.curve.addEventListener("change", () => {
      settings.curve = this.curve.value;
      this.draw();
    });
    this.names = element("datalist");
    this.names.id = "curves";
    this.box = element("div", "charts");
    this.note = element("p", "about");
    const tools = element("div", "tools", null, element("label", "", "curve "), this.curve, this.names);
    root.replaceChildren(tools, this.choices, this.note, this.box);
    this.list(runs);
  }

  show() {}

  list(runs) {
    const known = runs.map((run) => `${run.id} ${run.state}`).join();
    if (known === this.known) return;
    this.known = known;
    this.runs = new Map(runs.map((run) => [run.id, run]));
    const { chosen } = this.settings;
    if (!chosen.size) for (const run of runs.slice(0, 3)) chosen.add(run.id);
    this.choices.replaceChildren(
      ...runs.map((run) => {
        const box = element("input");
        box.type = "checkbox";
        box.checked = chosen.has(run.id);
        box.addEventListener("change", () => {
          if (box.checked) chosen.add(run.id);
          else chosen.delete(run.id);
          this.draw();
        });
        const about = [run.environment, run.algorithm, run.state, run.best == null ? "" : `best ${figure(run.best)}`];
        return element("label", "", null, box, element("span", "", run.name), element("span", "quiet", about.filter(Boolean).join(", ")));
      }),
    );
    this.draw();
  }

  async draw() {
    const chosen = [...this.settings.chosen].filter((id) => this.runs.has(id)).slice(0, MOST);
    const asked = new URLSearchParams({ runs: chosen.join(","), curve: this.settings.curve, by: "steps" });
    const found = await get(`/api/overlay?${asked}`);
    if (chosen.length && !this.names.childElementCount) await this.fillNames(chosen[0]);
    const ids = Object.keys(found.runs);
    this.note.textContent = ids.length ? "" : "No chosen run has this curve.";
    this.chart?.end();
    this.box.replaceChildren();
    if (!ids.length) return;
    const own = ids.slice(0, EACH);
    const lines = [
      { label: "", shade: "gray", hidden: true },
      { label: "", shade: "gray", hidden: true },
      ...own.map((id, number) => ({ label: this.runs.get(id).name, shade: SHADES[number % SHADES.length] })),
      ...(ids.length > 1 ? [{ label: `mean of ${ids.length}`, shade: "gray", dash: [6, 4] }] : []),
    ];
    this.chart = new Chart(this.settings.curve, lines, { bands: [[1, 2, "gray"]], unit: "by env steps; the band is the range" });
    this.chart.root.classList.add("wide");
    this.box.append(this.chart.root);
    this.chart.show([found.at, found.high, found.low, ...own.map((id) => found.runs[id]), ...(ids.length > 1 ? [found.mean] : [])], "steps");
  }

  async fillNames(run) {
    const { names } = await get(`/api/runs/${run}/curves?names=`);
    this.names.replaceChildren(
      ...names.map((name) => {
        const option = element("option");
        option.value = name;
        return option;
      }),
    );
  }

  redraw() {
    this.chart?.redraw();
  }

  end() {
    this.chart?.end();
  }
}
