// Charts by uPlot, in the colours of the style sheet.
/* global uPlot */

import { compact, element, figure } from "./text.js";

const HEIGHT = 190;

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

function faded(shade, share) {
  const part = Math.round(255 * share).toString(16).padStart(2, "0");
  return `${shade}${part}`;
}

// A line: {label, shade, scale, dash, points, hidden}; a band lies between two lines.
function series(line) {
  const shade = line.hidden ? "transparent" : colour(line.shade);
  return {
    label: line.label,
    stroke: shade,
    width: line.hidden ? 0 : 1.75,
    dash: line.dash,
    scale: line.scale ?? "y",
    spanGaps: true,
    points: { show: Boolean(line.points), size: 6, fill: shade, stroke: shade },
    paths: line.points ? uPlot.paths.linear() : undefined,
    value: (_, value) => (line.value ?? figure)(value),
  };
}

export class Chart {
  // `lines` are drawn; `bands` are [upper, lower, shade] by their numbers, counted from 1.
  constructor(title, lines, { bands = [], unit = "" } = {}) {
    this.lines = lines;
    this.bands = bands;
    this.by = "steps";
    this.plot = null;
    this.data = null;
    this.legend = element("div", "legend");
    this.box = element("div", "plot");
    this.box.setAttribute("role", "img");
    this.box.setAttribute("aria-label", `chart: ${title}`);
    const head = element("h3", "", title);
    if (unit) head.append(element("span", "quiet", ` ${unit}`));
    this.root = element("section", "chart", null, head, this.legend, this.box);
    this.values = lines.map((line) => {
      const key = element("i", `key ${line.shade ?? ""}${line.dash ? " dashed" : ""}`);
      const value = element("b", "", "–");
      if (!line.hidden)
        this.legend.append(element("span", "", null, key, `${line.label} `, value));
      return value;
    });
    this.watch = new ResizeObserver(() => this.fit());
    this.watch.observe(this.box);
  }

  // `data` is [x, values of each line]; `by` names what x is.
  show(data, by) {
    this.data = data;
    if (this.plot && by === this.by) {
      this.plot.setData(data);
    } else {
      this.by = by;
      this.redraw();
    }
    this.read(this.plot?.cursor.idx);
  }

  // The colour of an axis is that of its line, where there are two.
  shadeOf(scale) {
    return colour(this.lines.find((each) => (each.scale ?? "y") === scale).shade);
  }

  redraw() {
    this.plot?.destroy();
    this.plot = null;
    if (!this.data || !this.box.clientWidth) return;
    const line = { stroke: colour("quiet"), grid: { stroke: colour("grid"), width: 1 }, ticks: { show: false } };
    const scales = [...new Set(this.lines.map((each) => each.scale ?? "y"))];
    this.plot = new uPlot(
      {
        width: this.box.clientWidth,
        height: HEIGHT,
        legend: { show: false },
        padding: [8, 8, 0, 0],
        cursor: { sync: { key: this.by }, drag: { x: true, y: false }, points: { size: 5 } },
        scales: { x: { time: this.by === "time" }, ...Object.fromEntries(scales.map((name) => [name, { range: spread }])) },
        axes: [
          { ...line, size: this.by === "time" ? 40 : 26, space: 70, ...(this.by === "time" ? {} : { values: (_, ticks) => ticks.map(compact) }) },
          ...scales.map((scale, place) => ({
            ...line,
            stroke: scales.length > 1 ? this.shadeOf(scale) : line.stroke,
            scale,
            side: place ? 1 : 3,
            size: 58,
            gap: 4,
            grid: place ? { show: false } : line.grid,
            values: (_, ticks) => ticks.map(compact),
          })),
        ],
        series: [{}, ...this.lines.map(series)],
        bands: this.bands.map(([high, low, shade]) => ({ series: [high, low], fill: faded(colour(shade), 0.18) })),
        hooks: { setCursor: [(plot) => this.read(plot.cursor.idx)] },
      },
      this.data,
      this.box,
    );
  }

  // Writes the values under the cursor, or the newest ones, into the legend.
  read(place) {
    if (!this.data) return;
    this.lines.forEach((line, number) => {
      const values = this.data[number + 1];
      let at = place ?? values.length - 1;
      while (at > 0 && values[at] == null) at -= 1;
      this.values[number].textContent = (line.value ?? figure)(values[at]);
    });
  }

  fit() {
    if (!this.plot) this.redraw();
    else if (this.box.clientWidth) this.plot.setSize({ width: this.box.clientWidth, height: HEIGHT });
  }

  end() {
    this.watch.disconnect();
    this.plot?.destroy();
  }
}

// A range with some air; a constant line lies in the middle.
function spread(_, low, high) {
  if (low == null || high == null) return [0, 1];
  const air = (high - low) * 0.08 || Math.abs(high) * 0.1 || 1;
  return [low >= 0 && low - air < 0 ? 0 : low - air, high + air];
}
